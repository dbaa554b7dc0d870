/** Other services: credentials of the built-in connectors, connectors of the document's own, and the calls of routes and webhooks. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

const maxText = 8192 // characters; a private key in PEM has about 3,300
const maxPath = 2000 // characters
const maxConnectors = 100

const Text = (description: string, maxLength = maxText) => Type.String({ text: 'request', minLength: 1, maxLength, description })
const baseUrl = Type.Optional(Text('The base URL, if it is not the default of the service.'))

const payment = { secretKey: Text('The API key of the account.'), baseUrl }
const payprov = { accessToken: Text('The API token of the organization.'), baseUrl }
const issues = {
  baseUrl: Text('The base URL of the tracker.'),
  email: Text('The name of the user.'),
  apiToken: Text('The API token of the user.')
}
const codehost = { token: Text('The access token.'), baseUrl }
const email = { apiKey: Text('The API key of the sender.'), baseUrl }
const chat = {
  webhookUrl: Text('The URL for posting messages.'),
  baseUrl: Type.Optional(Text('The part before the path of `webhookUrl`, if it is not the origin of that URL.'))
}
const sms = {
  accountSid: Text('The id of the account.'),
  authToken: Text('The token of the account.'),
  fromNumber: Text('The phone number that sends messages.'),
  baseUrl
}

export const Credentials = ClosedObject({
  payment: Type.Optional(ClosedObject(payment, { description: 'The payment service.' })),
  stripe: Type.Optional(ClosedObject(payment, { description: 'An alias of `payment`.' })),
  payprov: Type.Optional(ClosedObject(payprov, { description: 'The primary payment provider.' })),
  polar: Type.Optional(ClosedObject(payprov, { description: 'An alias of `payprov`.' })),
  issues: Type.Optional(ClosedObject(issues, { description: 'The issue tracker.' })),
  jira: Type.Optional(ClosedObject(issues, { description: 'An alias of `issues`.' })),
  codehost: Type.Optional(ClosedObject(codehost, { description: 'The code host.' })),
  github: Type.Optional(ClosedObject(codehost, { description: 'An alias of `codehost`.' })),
  email: Type.Optional(ClosedObject(email, { description: 'The email sender.' })),
  sendgrid: Type.Optional(ClosedObject(email, { description: 'An alias of `email`.' })),
  chat: Type.Optional(ClosedObject(chat, { description: 'The chat service.' })),
  slack: Type.Optional(ClosedObject(chat, { description: 'An alias of `chat`.' })),
  sms: Type.Optional(ClosedObject(sms, { description: 'The service for text messages.' })),
  twilio: Type.Optional(ClosedObject(sms, { description: 'An alias of `sms`.' }))
}, { description: "The credentials of the built-in connectors, by the connector's name or the name of the vendor." })
export type Credentials = Static<typeof Credentials>

const Kind = <Value extends string>(value: Value) => Type.Literal(value, { description: 'The kind of authentication.' })
const Name = (description: string) => Type.String({ text: 'literal', minLength: 1, maxLength: 64, description })

export const ConnectorAuth = Type.Union([
  ClosedObject({ type: Kind('bearer'), token: Text('The token.') }, { description: 'Sends `Authorization: Bearer <token>`.' }),
  ClosedObject({ type: Kind('basic'), username: Text('The user name.'), password: Text('The password.') }, {
    description: 'Sends `Authorization: Basic` with the user name and password.'
  }),
  ClosedObject({ type: Kind('header'), name: Name('The name of the header.'), value: Text('The value of the header.') }, {
    description: 'Sends a header.'
  }),
  ClosedObject({ type: Kind('query'), name: Name('The name of the parameter.'), value: Text('The value of the parameter.') }, {
    description: 'Adds a parameter to the query string.'
  }),
  ClosedObject({
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

export const ConnectorAction = ClosedObject({
  method: Type.Enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'get', 'post', 'put', 'patch', 'delete', 'head'], {
    description: 'The HTTP method.'
  }),
  path: Type.String({
    text: 'request',
    maxLength: maxPath,
    description: 'The path appended to `baseUrl`. Template values are percent-encoded. It can contain a query string.'
  }),
  headers: Optional.Map('Additional headers. A header without a value is omitted.', Type.String({ text: 'request', maxLength: maxText })),
  query: Optional.Map(
    'The query string. A list becomes several parameters with the same name. A parameter without a value is omitted.',
    Type.Unknown({ text: 'request' })
  ),
  body: Optional.Unknown('The body. A part is omitted if none of its templates has a value. Default: none.', { text: 'request' }),
  bodyType: Optional.Enum(
    'The format of the body: JSON, a form (`a[b]=c` for nested members), or plain text. Default: `json`.',
    ['json', 'form', 'raw']
  ),
  result: Optional.String(
    'The path of the result in the response, such as `data.items` or `data[0]`. Default: the whole response.',
    { text: 'literal', minLength: 1, maxLength: 500 }
  ),
  followRedirects: Optional.Boolean('Follow redirects of GET and HEAD, at most 5. Default: false, a redirect fails the call.')
}, { description: 'A request.' })
export type ConnectorAction = Static<typeof ConnectorAction>

const CustomIntegration = ClosedObject({
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

export const CustomIntegrations = Type.Array(CustomIntegration, { maxItems: maxConnectors, description: 'Connectors to other services.' })
export type CustomIntegrations = Static<typeof CustomIntegrations>

/** Tenants' documents have smaller bounds: lib/tenant-document/schema.ts. */
const maxIntegrations = 50

export const Integration = ClosedObject({
  type: Type.String({
    text: 'literal',
    minLength: 1,
    maxLength: 64,
    description: 'The connector: the name or alias of a built-in connector, or the name of one of `customIntegrations`.'
  }),
  action: Type.String({ text: 'literal', minLength: 1, maxLength: 64, description: "The name of one of the connector's actions." }),
  alias: Optional.String(
    'The name of the result, for `{{results.<alias>}}`. Default: the `type`, or `<type>_2` and so on if that name is taken.',
    { text: 'literal', pattern: '^(?!__proto__$)[A-Za-z_][A-Za-z0-9_-]{0,63}$', expected: 'a letter or `_`, then up to 63 of A-Z a-z 0-9 _ -, but not `__proto__`' }
  ),
  params: Optional.Unknown(
    "The action's parameters, with templates: an object, or a template that returns one. Default: none.",
    { text: 'request' }
  ),
  condition: Optional.String(
    'An expression. If it is false, the call is skipped and its result is null.',
    { text: 'request', minLength: 1, maxLength: 4096 }
  )
}, { description: 'A call to another service.' })
export type Integration = Static<typeof Integration>

export const Integrations = Type.Array(Integration, {
  minItems: 1,
  maxItems: maxIntegrations,
  description: 'Calls to other services, run in order after the queries.'
})
