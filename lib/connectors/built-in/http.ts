/** Any request. */
import type { ConnectorDefinition } from '../definition.js'
import { Type } from 'typebox'
import { Params, Text } from './params.js'

const value = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])

export const http: ConnectorDefinition = {
  name: 'http',
  baseUrl: '{{params.url}}',
  actions: {
    request: {
      method: "{{params.method || 'GET'}}",
      path: '',
      addresses: ['url'],
      params: Params({
        url: Text('The address. What templates in it give is percent-encoded, but where it is one template as a whole.', 8192),
        method: Type.Optional(Type.Enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'], { description: 'Default: `GET`.' })),
        headers: Type.Optional(Type.Record(Type.String(), value, { description: 'Headers by name; those that are null are left out.' })),
        query: Type.Optional(
          Type.Record(Type.String(), Type.Union([...value.anyOf, Type.Array(value, { maxItems: 1000 })]), {
            description: 'The query string by name; a list becomes several parameters.'
          })
        ),
        body: Type.Optional(Type.Unknown({ description: 'The body.' })),
        bodyType: Type.Optional(Type.Enum(['json', 'form', 'raw'], { description: 'What the body is written as. Default: `json`.' }))
      }),
      headers: '{{params.headers}}',
      query: '{{params.query}}',
      body: '{{params.body}}',
      bodyType: "{{params.bodyType || 'json'}}",
      followRedirects: true
    }
  }
}
