/**
 * JSON sent to an address that the document or the caller chooses, with or without a signature of Standard Webhooks
 * (https://www.standardwebhooks.com).
 */
import type { ConnectorDefinition } from '../definition.js'
import { Type } from 'typebox'
import { Params, Text } from './params.js'

const url = Text('The address.', 8192)
const headers = Type.Optional(
  Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), { description: 'Further headers.' })
)
const body = Type.Optional(Type.Unknown({ description: 'What is sent, as JSON. Default: `{}`.' }))

export const webhook: ConnectorDefinition = {
  name: 'webhook',
  baseUrl: '{{params.url}}',
  actions: {
    send: {
      method: 'POST',
      path: '',
      addresses: ['url'],
      params: Params({ url, body, headers }),
      headers: '{{params.headers}}',
      compute: { body: 'params.body == null ? {} : params.body' },
      body: '{{params.body}}'
    },
    signed: {
      method: 'POST',
      path: '',
      addresses: ['url'],
      params: Params({
        url,
        body,
        headers,
        secret: Text('The signing secret: `whsec_<base64>`, or any other text for its own bytes.', 1000)
      }),
      headers: '{{params.headers}}',
      compute: { body: 'params.body == null ? {} : params.body' },
      body: '{{params.body}}',
      sign: '{{params.secret}}'
    }
  }
}
