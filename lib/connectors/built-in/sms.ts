/** Twilio's Messages (https://www.twilio.com/docs/messaging/api/message-resource): a form in, JSON out. */
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Optional, Text } from './params.js'

export const sms: ConnectorDefinition = {
  name: 'sms',
  aliases: ['twilio'],
  baseUrl: "{{credentials.baseUrl || 'https://api.twilio.com'}}",
  secrets: ['authToken'],
  auth: { type: 'basic', username: '{{credentials.accountSid}}', password: '{{credentials.authToken}}' },
  actions: {
    sendSms: {
      method: 'POST',
      path: '/2010-04-01/Accounts/{{credentials.accountSid}}/Messages.json',
      bodyType: 'form',
      params: ClosedObject({
        to: Text('The phone number of the recipient, such as +15558675310.', 64),
        body: Text('The message.', 1600),
        from: Optional.Text('The phone number of the sender. Default: `fromNumber` of the credentials.', 64),
        mediaUrl: Optional.Text('The URL of a picture to send.', 2000),
        statusCallback: Optional.Text('The URL that receives the status of the delivery.', 2000)
      }),
      body: {
        To: '{{params.to}}',
        From: '{{params.from || credentials.fromNumber}}',
        Body: '{{params.body}}',
        MediaUrl: '{{params.mediaUrl}}',
        StatusCallback: '{{params.statusCallback}}'
      }
    }
  }
}
