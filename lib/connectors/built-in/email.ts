/** SendGrid's Mail Send API v3 (https://www.twilio.com/docs/sendgrid/api-reference/mail-send). It answers 202 without a body. */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Optional, Text } from './params.js'

const address = Type.Union([
  Type.String({ minLength: 3, maxLength: 320 }),
  ClosedObject({ email: Type.String({ minLength: 3, maxLength: 320 }), name: Type.Optional(Type.String({ maxLength: 255 })) })
], { description: 'An e-mail address, or `{email, name}`.' })
const Addresses = (description: string) =>
  Type.Union([...address.anyOf, Type.Array(address, { minItems: 1, maxItems: 1000 })], { description })

const envelope = {
  to: Addresses('The recipients: an e-mail address, `{email, name}`, or a list of them.'),
  cc: Type.Optional(Addresses('The recipients of a copy.')),
  bcc: Type.Optional(Addresses('The recipients of a blind copy.')),
  from: Type.Union(address.anyOf, { description: 'The sender, which must be verified.' }),
  replyTo: Optional.Union('The address for replies.', address.anyOf)
}

/** Expressions that turn addresses into `{email, name}` and lists of them. */
const one = (path: string) => `type(${path}) == string ? {'email': ${path}} : ${path}`
const list = (path: string) => `${path} == null ? ${path} : type(${path}) == list ? ${path}.map(entry, ${one('entry')}) : [${one(path)}]`

const compute = {
  to: list('params.to'),
  cc: list('params.cc'),
  bcc: list('params.bcc'),
  from: one('params.from'),
  replyTo: one('params.replyTo')
}
const recipients = { to: '{{params.to}}', cc: '{{params.cc}}', bcc: '{{params.bcc}}' }
const sender = { from: '{{params.from}}', reply_to: '{{params.replyTo}}' }

export const email: ConnectorDefinition = {
  name: 'email',
  aliases: ['sendgrid'],
  baseUrl: "{{credentials.baseUrl || 'https://api.sendgrid.com'}}",
  secrets: ['apiKey'],
  auth: { type: 'bearer', token: '{{credentials.apiKey}}' },
  actions: {
    sendEmail: {
      method: 'POST',
      path: '/v3/mail/send',
      params: ClosedObject({
        ...envelope,
        subject: Text('The subject.', 998),
        text: Optional.Text('The message as plain text.', 1_000_000),
        html: Optional.Text('The message as HTML.', 1_000_000)
      }, { anyOf: [{ required: ['text'] }, { required: ['html'] }] }),
      compute,
      body: {
        personalizations: [recipients],
        ...sender,
        subject: '{{params.subject}}',
        content: [{ type: 'text/plain', value: '{{params.text}}' }, { type: 'text/html', value: '{{params.html}}' }]
      }
    },
    sendTemplate: {
      method: 'POST',
      path: '/v3/mail/send',
      params: ClosedObject({
        ...envelope,
        templateId: Text('The id of the dynamic template.', 255),
        data: Optional.Map('The values for the template, by name.', Type.Unknown())
      }),
      compute,
      body: {
        personalizations: [{ ...recipients, dynamic_template_data: '{{params.data}}' }],
        ...sender,
        template_id: '{{params.templateId}}'
      }
    }
  }
}
