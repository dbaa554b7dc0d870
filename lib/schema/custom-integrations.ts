/** Connectors to services of the document's own choice. */
import { Type, type Static } from 'typebox'
import { MapOf, Section } from './annotations.js'

const maxConnectors = 100
const maxText = 8192 // characters; a private key in PEM has about 3,300
const maxPath = 2000 // characters

const Text = (description: string, maxLength = maxText) => Type.String({ text: 'request', minLength: 1, maxLength, description })
const Kind = <Value extends string>(value: Value) => Type.Literal(value, { description: 'The authentication of calls.' })
const Name = (description: string) => Type.String({ text: 'literal', minLength: 1, maxLength: 64, description })

export const ConnectorAuth = Type.Union([
  Section({ type: Kind('bearer'), token: Text('The token.') }, { description: 'Sends `Authorization: Bearer <token>`.' }),
  Section({ type: Kind('basic'), username: Text('The user.'), password: Text('The password.') }, {
    description: 'Sends `Authorization: Basic` with user and password.'
  }),
  Section({ type: Kind('header'), name: Name('The header.'), value: Text('Its value.') }, { description: 'Sends a header.' }),
  Section({ type: Kind('query'), name: Name('The parameter.'), value: Text('Its value.') }, {
    description: 'Adds a parameter to the query string.'
  }),
  Section({
    type: Kind('oauth2'),
    tokenUrl: Text('Where tokens are had and renewed.', maxPath),
    clientId: Text('The client.'),
    clientSecret: Text("The client's secret."),
    accessToken: Type.Optional(Text('A token to begin with. Renewed ones are kept under the key of its secret.')),
    refreshToken: Type.Optional(Text('What renews the token. Default: tokens are had with the client credentials alone.')),
    scope: Type.Optional(Text('The scope that is asked for.'))
  }, { description: 'OAuth 2.0: a token that is renewed before it expires, and once when the service answers 401.' })
], { description: 'The authentication of calls. Default: none.' })
export type ConnectorAuth = Static<typeof ConnectorAuth>

export const ConnectorAction = Section({
  method: Type.Enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'get', 'post', 'put', 'patch', 'delete', 'head'], {
    description: 'The HTTP method.'
  }),
  path: Type.String({
    text: 'request',
    maxLength: maxPath,
    description: 'Appended to `baseUrl`. Values of templates are percent-encoded. May contain a query string.'
  }),
  headers: Type.Optional(
    MapOf(Type.String({ text: 'request', maxLength: maxText }), {
      description: 'Further headers. A header without a value is left out.'
    })
  ),
  query: Type.Optional(
    MapOf(Type.Unknown({ text: 'request' }), {
      description: 'The query string. A list becomes several parameters of one name. A parameter without a value is left out.'
    })
  ),
  body: Type.Optional(
    Type.Unknown({ text: 'request', description: 'The body. A part is left out if none of its templates has a value. Default: none.' })
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
      description: 'Follows redirects of GET and HEAD, 5 at most. Default: false, and a redirect fails the call.'
    })
  )
}, { description: 'A request.' })
export type ConnectorAction = Static<typeof ConnectorAction>

export const CustomIntegration = Section({
  name: Type.String({
    text: 'literal',
    pattern: '^[A-Za-z][A-Za-z0-9_-]{0,63}$',
    expected: 'a letter, then up to 63 of A-Z a-z 0-9 _ -',
    description: 'The name that `type` of an integration uses.'
  }),
  baseUrl: Text(
    "The address of the service, with `http:` or `https:`; only settings may stand in it, and in a tenant's document its secrets.",
    maxPath
  ),
  auth: Type.Optional(ConnectorAuth),
  actions: Type.Record(Type.String(), ConnectorAction, {
    minProperties: 1,
    description: 'The requests, by name; `{{params.x}}` in one is a parameter of the call.'
  })
}, { description: 'A connector.' })
export type CustomIntegration = Static<typeof CustomIntegration>

export const CustomIntegrations = Type.Array(CustomIntegration, { maxItems: maxConnectors, description: 'Connectors to further services.' })
export type CustomIntegrations = Static<typeof CustomIntegrations>
