/** JSON sent to any address, with or without a signature of Standard Webhooks (https://www.standardwebhooks.com). */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Text } from './params.js'

const url = Text('The URL.', 8192)
const headers = Type.Optional(
  Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), { description: 'Additional headers.' })
)
const body = Type.Optional(Type.Unknown({ description: 'The body, sent as JSON. Default: `{}`.' }))

export const webhook: ConnectorDefinition = {
  name: 'webhook',
  baseUrl: '{{params.url}}',
  actions: {
    send: {
      method: 'POST',
      path: '',
      addresses: ['url'],
      params: ClosedObject({ url, body, headers }),
      headers: '{{params.headers}}',
      compute: { body: 'params.body == null ? {} : params.body' },
      body: '{{params.body}}'
    },
    signed: {
      method: 'POST',
      path: '',
      addresses: ['url'],
      params: ClosedObject({
        url,
        body,
        headers,
        secret: Text('The signing secret: `whsec_<base64>`, or any other text, whose bytes are the secret.', 1000)
      }),
      headers: '{{params.headers}}',
      compute: { body: 'params.body == null ? {} : params.body' },
      body: '{{params.body}}',
      sign: '{{params.secret}}'
    }
  }
}
