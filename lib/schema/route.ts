/** A declared route. */
import { type Static, Type } from 'typebox'
import { ClosedObject, MapOf, Optional } from './annotations.js'
import { RouteFile } from './files.js'
import { Integrations } from './integrations.js'
import { RouteRateLimit, RouteResourceLimit } from './limits.js'
import { DocumentQuery, Query } from './query.js'
import { RouteTool } from './tool.js'
import { RouteWebhook } from './webhook.js'
import { RouteWorkflow } from './workflow.js'

const RouteRealtime = ClosedObject({
  room: Type.String({ text: 'request', minLength: 1, maxLength: 1000, description: 'The room, such as `chat-{{params.id}}`.' }),
  event: Optional.String('The name of the event. Default: none.', { text: 'request', minLength: 1, maxLength: 1000 }),
  data: Type.Unknown({ text: 'request', description: 'The data of the message, with templates.' })
}, {
  description:
    'Sends a message to the members of a room of the tenant, after the commit, at most once. Not on `get` routes. A failed request sends nothing; a message that cannot be sent is logged.'
})

/** The rules of one field of a body, of the path parameters or of the query string. */
export const Field = Type.Cyclic({
  Field: ClosedObject({
    type: Optional.Enum('The type. Default: any.', ['string', 'number', 'integer', 'boolean', 'array', 'object']),
    required: Optional.Boolean('The field is required. Default: false.'),
    nullable: Optional.Boolean('Also accept null. Default: false.'),
    minLength: Optional.Integer('The minimum number of characters of a string, or items of an array.', { minimum: 0 }),
    maxLength: Optional.Integer('The maximum number of characters of a string, or items of an array.', { minimum: 0 }),
    minimum: Optional.Number('The minimum of a number.'),
    maximum: Optional.Number('The maximum of a number.'),
    enum: Optional.Array('The accepted values.', Type.Unknown({ text: 'literal' }), { minItems: 1 }),
    format: Optional.Enum('The format of a string.', ['email', 'uuid', 'date-time', 'date', 'uri']),
    pattern: Optional.String('A regular expression that the string must match.', { text: 'literal' }),
    items: Type.Optional(Type.Ref('Field', { description: 'The rules of each item of an array.' })),
    properties: Optional.Map('The fields of an object.', Type.Ref('Field')),
    additionalFields: Optional.Boolean('Accept fields of an object beyond `properties`. Default: false.'),
    description: Optional.String('A description for the documentation.')
  }, { description: 'The rules of a field.' })
}, 'Field')
export type Field = Static<typeof Field>

const FieldMap = (part: string) =>
  Optional.Map(`The fields of the ${part}. Other fields are rejected.`, Field)

export const RequestRules = ClosedObject({
  body: FieldMap('body'),
  params: FieldMap('path parameters'),
  query: FieldMap('query string'),
  files: Optional.Map(
    'The files of the form by the names of their parts, at most 10. Templates read them as `{{files.avatar.id}}`. Only with `multipart`.',
    RouteFile
  ),
  additionalFields: Optional.Boolean('Accept undeclared fields. Default: false.')
}, {
  description: 'The accepted fields of a request. Default: all fields; a write rejects fields that are not columns of its table.'
})
export type RequestRules = Static<typeof RequestRules>

export const RouteCache = ClosedObject({
  enabled: Type.Boolean({ description: 'Enables the cache of the route.' }),
  ttl: Optional.Number(
    "The time for which a response is cached. Default: the document's `cache.ttl`.",
    { exclusiveMinimum: 0, maximum: 31_536_000, unit: 's' }
  ),
  varyBy: Optional.Array(
    'Additional template paths for the cache key, such as `query.lang` or `headers.accept-language`.',
    Type.String({ text: 'request' })
  ),
  key: Optional.String(
    'A template that replaces path and query string in the cache key. Tenant, field exclusion, `limit`, `offset` and `cursor` remain in the key.',
    { text: 'request' }
  )
}, { description: 'Caches the responses of a `get` route.' })
export type RouteCache = Static<typeof RouteCache>

export const Transform = ClosedObject({
  fields: Optional.Map('Computed fields: CEL over `item` (each record) or `result`.', Type.String({ text: 'request' })),
  operations: Optional.Array(
    'Computed fields as steps, run in order.',
    ClosedObject({
      type: Type.Literal('compute', { description: 'Computes fields.' }),
      fields: MapOf(Type.String({ text: 'request' }), { description: 'Computed fields, like `fields` of `transform`.' })
    })
  )
}, { description: 'Adds computed fields to the response.' })
export type Transform = Static<typeof Transform>

export const Route = ClosedObject({
  path: Type.String({ pattern: '^/', expected: 'a path that starts with `/`', description: 'The path; `:name` is a parameter.' }),
  method: Type.Enum(['get', 'post', 'put', 'patch', 'delete', 'GET', 'POST', 'PUT', 'PATCH', 'DELETE'], {
    description: 'The HTTP method.'
  }),
  description: Optional.String('The description of the route for the documentation.'),
  tags: Optional.Array('The groups of `/doc` and `/ui` that list the route. Default: the first segment of its path.', Type.String()),
  public: Optional.Boolean('If false, a caller without a token cannot choose a tenant. Default: true.'),
  requireAuth: Optional.Boolean('A token is required. Default: false, or true with `requiredPermissions`.'),
  authProvider: Optional.String(
    'The issuer of accepted tokens: `jwt` for the server itself, or the name of one of `authProviders`. Default: `jwt`.'
  ),
  requiredPermissions: Optional.Array('The permissions that the caller needs, all of them.', Type.String()),
  queries: Optional.Array('Database operations, run in order.', Query, { minItems: 1 }),
  firebaseQueries: Optional.Array('Document operations, run in order.', DocumentQuery, { minItems: 1 }),
  cache: Type.Optional(RouteCache),
  rateLimit: Type.Optional(RouteRateLimit),
  excludeFields: Optional.Array(
    "Fields omitted from results and written values. This does not protect against a tenant's own users.",
    Type.String()
  ),
  request: Type.Optional(RequestRules),
  response: Optional.Unknown(
    'A JSON Schema of the response (`type` with `properties` or `items`), or a mapping with templates.',
    { text: 'request' }
  ),
  softDelete: Type.Optional(ClosedObject({
    enabled: Type.Boolean({ description: 'Mark the row as deleted instead of removing it.' }),
    allowHardDelete: Optional.Boolean('`?hard=true` removes the row. Default: false.')
  }, { description: 'The effect of a `delete` of this route.' })),
  transform: Type.Optional(Transform),
  integrations: Type.Optional(Integrations),
  workflow: Type.Optional(RouteWorkflow),
  realtime: Type.Optional(RouteRealtime),
  multipart: Optional.Boolean(
    'The body is a form, `multipart/form-data`, with the files of `request.files`, or else one in the part `file`. Its other fields are the body, with the types of `request.body`. Default: false.'
  ),
  webhook: Type.Optional(RouteWebhook),
  resourceLimit: Type.Optional(RouteResourceLimit),
  mcp: Optional.Union(
    'Makes the route a tool that language models can call with the permissions of their caller. Default: not a tool.',
    [Type.Literal(true), RouteTool]
  )
}, { description: 'A route.' })
export type Route = Static<typeof Route>
