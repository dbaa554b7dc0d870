/** Any request. */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Text } from './params.js'

const value = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])

export const http: ConnectorDefinition = {
  name: 'http',
  baseUrl: '{{params.url}}',
  actions: {
    request: {
      method: "{{params.method || 'GET'}}",
      path: '',
      addresses: ['url'],
      params: ClosedObject({
        url: Text('The URL. Template values are percent-encoded, unless one template is the whole URL.', 8192),
        method: Type.Optional(
          Type.Enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'], { description: 'The HTTP method. Default: `GET`.' })
        ),
        headers: Type.Optional(
          Type.Record(Type.String(), value, { description: 'The headers by name. Headers with the value null are omitted.' })
        ),
        query: Type.Optional(
          Type.Record(Type.String(), Type.Union([...value.anyOf, Type.Array(value, { maxItems: 1000 })]), {
            description: 'The query string by name. A list becomes several parameters.'
          })
        ),
        body: Type.Optional(Type.Unknown({ description: 'The body.' })),
        bodyType: Type.Optional(Type.Enum(['json', 'form', 'raw'], { description: 'The format of the body. Default: `json`.' }))
      }),
      headers: '{{params.headers}}',
      query: '{{params.query}}',
      body: '{{params.body}}',
      bodyType: "{{params.bodyType || 'json'}}",
      followRedirects: true
    }
  }
}
