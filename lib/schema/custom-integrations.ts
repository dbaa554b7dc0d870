/** Connectors to services of the document's own choice. */
import { Type, type Static } from 'typebox'
import { MapOf, Section } from './annotations.js'

const maxConnectors = 100
const maxText = 8192 // characters; a private key in PEM has about 3,300
const maxPath = 2000 // characters

const Text = (description: string, maxLength = maxText) => Type.String({ text: 'request', minLength: 1, maxLength, description })
const Kind = <Value extends string>(value: Value) => Type.Literal(value, { description: 'The kind of authentication.' })
const Name = (description: string) => Type.String({ text: 'literal', minLength: 1, maxLength: 64, description })

export const ConnectorAuth = Type.Union([
  Section({ type: Kind('bearer'), token: Text('The token.') }, { description: 'Sends `Authorization: Bearer <token>`.' }),
  Section({ type: Kind('basic'), username: Text('The user name.'), password: Text('The password.') }, {
    description: 'Sends `Authorization: Basic` with the user name and password.'
  }),
  Section({ type: Kind('header'), name: Name('The name of the header.'), value: Text('The value of the header.') }, {
    description: 'Sends a header.'
  }),
  Section({ type: Kind('query'), name: Name('The name of the parameter.'), value: Text('The value of the parameter.') }, {
    description: 'Adds a parameter to the query string.'
  }),
  Section({
    type: Kind('oauth2'),
    tokenUrl: Text('The URL of the token endpoint.', maxPath),
    clientId: Text('The id of the client.'),
    clientSecret: Text('The secret of the client.'),
    accessToken: Type.Optional(Text('The initial token. Renewed tokens are stored under the key of its secret.')),
    refreshToken: Type.Optional(Text('The refresh token. Default: tokens are requested with the client credentials.')),
    scope: Type.Optional(Text('The requested scope.'))
  }, { description: 'OAuth 2.0. The token is renewed before it expires, and once if the service responds with 401.' })
], { description: 'The authentication of calls. Default: none.' })
export type ConnectorAuth = Static<typeof ConnectorAuth>

export const ConnectorAction = Section({
  method: Type.Enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'get', 'post', 'put', 'patch', 'delete', 'head'], {
    description: 'The HTTP method.'
  }),
  path: Type.String({
    text: 'request',
    maxLength: maxPath,
    description: 'The path appended to `baseUrl`. Template values are percent-encoded. It can contain a query string.'
  }),
  headers: Type.Optional(
    MapOf(Type.String({ text: 'request', maxLength: maxText }), {
      description: 'Additional headers. A header without a value is omitted.'
    })
  ),
  query: Type.Optional(
    MapOf(Type.Unknown({ text: 'request' }), {
      description: 'The query string. A list becomes several parameters with the same name. A parameter without a value is omitted.'
    })
  ),
  body: Type.Optional(
    Type.Unknown({ text: 'request', description: 'The body. A part is omitted if none of its templates has a value. Default: none.' })
  ),
  bodyType: Type.Optional(
    Type.Enum(['json', 'form', 'raw'], {
      description: 'The format of the body: JSON, a form (`a[b]=c` for nested members), or plain text. Default: `json`.'
    })
  ),
  result: Type.Optional(
    Type.String({
      text: 'literal',
      minLength: 1,
      maxLength: 500,
      description: 'The path of the result in the response, such as `data.items` or `data[0]`. Default: the whole response.'
    })
  ),
  followRedirects: Type.Optional(
    Type.Boolean({
      description: 'Follow redirects of GET and HEAD, at most 5. Default: false, a redirect fails the call.'
    })
  )
}, { description: 'A request.' })
export type ConnectorAction = Static<typeof ConnectorAction>

export const CustomIntegration = Section({
  name: Type.String({
    text: 'literal',
    pattern: '^[A-Za-z][A-Za-z0-9_-]{0,63}$',
    expected: 'a letter, then up to 63 of A-Z a-z 0-9 _ -',
    description: 'The name of the connector, used as `type` of an integration.'
  }),
  baseUrl: Text(
    "The base URL of the service, with `http:` or `https:`. It can contain only settings and, in a tenant's document, the tenant's secrets.",
    maxPath
  ),
  auth: Type.Optional(ConnectorAuth),
  actions: Type.Record(Type.String(), ConnectorAction, {
    minProperties: 1,
    description: 'The requests by name. `{{params.x}}` is a parameter of the call.'
  })
}, { description: 'A connector.' })
export type CustomIntegration = Static<typeof CustomIntegration>

export const CustomIntegrations = Type.Array(CustomIntegration, { maxItems: maxConnectors, description: 'Connectors to other services.' })
export type CustomIntegrations = Static<typeof CustomIntegrations>
