/** Any request. */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Optional, Scalar, Text } from './params.js'

const value = Type.Union([...Scalar.anyOf, Type.Null()])

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
        method: Optional.Enum('The HTTP method. Default: `GET`.', ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']),
        headers: Optional.Map('The headers by name. Headers with the value null are omitted.', value),
        query: Optional.Map(
          'The query string by name. A list becomes several parameters.',
          Type.Union([...value.anyOf, Type.Array(value, { maxItems: 1000 })])
        ),
        body: Optional.Unknown('The body.'),
        bodyType: Optional.Enum('The format of the body. Default: `json`.', ['json', 'form', 'raw'])
      }),
      headers: '{{params.headers}}',
      query: '{{params.query}}',
      body: '{{params.body}}',
      bodyType: "{{params.bodyType || 'json'}}",
      followRedirects: true
    }
  }
}
