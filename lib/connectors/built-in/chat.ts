/** Slack's incoming webhooks (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks), whose address is the secret. */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Optional, Text } from './params.js'

const further = {
  threadTs: Optional.Text('The id of the message to reply to.', 40),
  unfurlLinks: Optional.Boolean('Shows previews of links.')
}
const furtherBody = { thread_ts: '{{params.threadTs}}', unfurl_links: '{{params.unfurlLinks}}' }

export const chat: ConnectorDefinition = {
  name: 'chat',
  aliases: ['slack'],
  baseUrl: '{{credentials.webhookUrl}}',
  wholeAddress: true,
  secrets: ['webhookUrl'],
  actions: {
    sendMessage: {
      method: 'POST',
      path: '',
      params: ClosedObject({ text: Text('The text of the message, in mrkdwn.', 40_000), ...further }),
      body: { text: '{{params.text}}', ...furtherBody }
    },
    sendBlocks: {
      method: 'POST',
      path: '',
      params: ClosedObject({
        blocks: Type.Array(Type.Object({ type: Type.String({ minLength: 1, maxLength: 64 }) }, { additionalProperties: true }), {
          minItems: 1,
          maxItems: 50,
          description: 'The blocks in the format of Block Kit.'
        }),
        text: Optional.Text('The text shown instead of blocks, as in notifications.', 40_000),
        ...further
      }),
      body: { blocks: '{{params.blocks}}', text: '{{params.text}}', ...furtherBody }
    }
  }
}
