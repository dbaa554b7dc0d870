/** JSON sent to any address, with or without a signature of Standard Webhooks (https://www.standardwebhooks.com). */
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Optional, Scalar, Text } from './params.js'

const params = {
  url: Text('The URL.', 8192),
  body: Optional.Unknown('The body, sent as JSON. Default: `{}`.'),
  headers: Optional.Map('Additional headers.', Scalar)
}
const request = {
  method: 'POST',
  path: '',
  addresses: ['url'],
  headers: '{{params.headers}}',
  compute: { body: 'params.body == null ? {} : params.body' },
  body: '{{params.body}}'
} as const

export const webhook: ConnectorDefinition = {
  name: 'webhook',
  baseUrl: '{{params.url}}',
  actions: {
    send: { ...request, params: ClosedObject(params) },
    signed: {
      ...request,
      params: ClosedObject({
        ...params,
        secret: Text('The signing secret: `whsec_<base64>`, or any other text, whose bytes are the secret.', 1000)
      }),
      sign: '{{params.secret}}'
    }
  }
}
