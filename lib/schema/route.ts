/** A declared route. */
import { type Static, Type } from 'typebox'
import { Section } from './annotations.js'
import { RouteFile } from './files.js'
import { Integrations } from './integrations.js'
import { RouteRateLimit, RouteResourceLimit } from './limits.js'
import { DocumentQuery, Query } from './query.js'
import { RouteWebhook } from './webhook.js'
import { RouteWorkflow } from './workflow.js'

const RouteRealtime = Section({
  room: Type.String({ text: 'request', minLength: 1, maxLength: 1000, description: 'The room, such as `chat-{{params.id}}`.' }),
  event: Type.Optional(
    Type.String({ text: 'request', minLength: 1, maxLength: 1000, description: 'The name of the event. Default: none.' })
  ),
  data: Type.Unknown({ text: 'request', description: 'The data of the message, with templates.' })
}, {
  description:
    'Sends a message to the members of a room of the tenant, after the commit, at most once. Not on `get` routes. A failed request sends nothing; a message that cannot be sent is logged.'
})

/** The rules of one field of a body, of the path parameters or of the query string. */
export const Field = Type.Cyclic({
  Field: Type.Object({
    type: Type.Optional(
      Type.Enum(['string', 'number', 'integer', 'boolean', 'array', 'object'], { description: 'The type. Default: any.' })
    ),
    required: Type.Optional(Type.Boolean({ description: 'The field is required. Default: false.' })),
    nullable: Type.Optional(Type.Boolean({ description: 'Also accept null. Default: false.' })),
    minLength: Type.Optional(
      Type.Integer({ minimum: 0, description: 'The minimum number of characters of a string, or items of an array.' })
    ),
    maxLength: Type.Optional(
      Type.Integer({ minimum: 0, description: 'The maximum number of characters of a string, or items of an array.' })
    ),
    minimum: Type.Optional(Type.Number({ description: 'The minimum of a number.' })),
    maximum: Type.Optional(Type.Number({ description: 'The maximum of a number.' })),
    enum: Type.Optional(Type.Array(Type.Unknown({ text: 'literal' }), { minItems: 1, description: 'The accepted values.' })),
    format: Type.Optional(Type.Enum(['email', 'uuid', 'date-time', 'date', 'uri'], { description: 'The format of a string.' })),
    pattern: Type.Optional(Type.String({ text: 'literal', description: 'A regular expression that the string must match.' })),
    items: Type.Optional(Type.Ref('Field', { description: 'The rules of each item of an array.' })),
    properties: Type.Optional(Type.Record(Type.String(), Type.Ref('Field'), { description: 'The fields of an object.' })),
    additionalFields: Type.Optional(
      Type.Boolean({ description: 'Accept fields of an object beyond `properties`. Default: false.' })
    ),
    description: Type.Optional(Type.String({ description: 'A description for the documentation.' }))
  }, { additionalProperties: false, description: 'The rules of a field.' })
}, 'Field')
export type Field = Static<typeof Field>

const FieldMap = (part: string) =>
  Type.Optional(Type.Record(Type.String(), Field, { description: `The fields of the ${part}. Other fields are rejected.` }))

export const RequestRules = Type.Object({
  body: FieldMap('body'),
  params: FieldMap('path parameters'),
  query: FieldMap('query string'),
  files: Type.Optional(
    Type.Record(Type.String(), RouteFile, {
      description:
        'The files of the form by the names of their parts, at most 10. Templates read them as `{{files.avatar.id}}`. Only with `multipart`.'
    })
  ),
  additionalFields: Type.Optional(Type.Boolean({ description: 'Accept undeclared fields. Default: false.' }))
}, {
  additionalProperties: false,
  description: 'The accepted fields of a request. Default: all fields; a write rejects fields that are not columns of its table.'
})
export type RequestRules = Static<typeof RequestRules>

export const RouteCache = Type.Object({
  enabled: Type.Boolean({ description: 'Enables the cache of the route.' }),
  ttl: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 31_536_000,
      unit: 's',
      description: "The time for which a response is cached. Default: the document's `cache.ttl`."
    })
  ),
  varyBy: Type.Optional(
    Type.Array(Type.String({ text: 'request' }), {
      description: 'Additional template paths for the cache key, such as `query.lang` or `headers.accept-language`.'
    })
  ),
  key: Type.Optional(
    Type.String({
      text: 'request',
      description:
        'A template that replaces path and query string in the cache key. Tenant, field exclusion, `limit`, `offset` and `cursor` remain in the key.'
    })
  )
}, { additionalProperties: false, description: 'Caches the responses of a `get` route.' })
export type RouteCache = Static<typeof RouteCache>

export const Transform = Type.Object({
  fields: Type.Optional(
    Type.Record(Type.String(), Type.String({ text: 'request' }), {
      description: 'Computed fields: CEL over `item` (each record) or `result`.'
    })
  ),
  operations: Type.Optional(Type.Array(
    Type.Object({
      type: Type.Literal('compute', { description: 'Computes fields.' }),
      fields: Type.Record(Type.String(), Type.String({ text: 'request' }), {
        description: 'Computed fields, like `fields` of `transform`.'
      })
    }, { additionalProperties: false }),
    { description: 'Computed fields as steps, run in order.' }
  ))
}, { additionalProperties: false, description: 'Adds computed fields to the response.' })
export type Transform = Static<typeof Transform>

export const RouteTool = Type.Object({
  name: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      expected: '1 to 64 of A-Z a-z 0-9 _ -',
      text: 'literal',
      description: 'The name of the tool. Default: method and path, such as `get_notes_by_id` for `GET /notes/:id`.'
    })
  ),
  description: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 2000,
      text: 'literal',
      description: 'The description of the tool for the model. Default: the description of the route.'
    })
  ),
  readOnly: Type.Optional(Type.Boolean({ description: 'A hint for clients: the tool changes nothing. Default: true for `get`.' })),
  resource: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'For `get`: MCP clients can also read the route as a resource, `tenantry:///notes/{id}` for `/notes/:id`.'
    })
  )
}, { additionalProperties: false, description: 'The name, description and hints of the tool.' })

export const Route = Type.Object({
  path: Type.String({ pattern: '^/', expected: 'a path that starts with `/`', description: 'The path; `:name` is a parameter.' }),
  method: Type.Enum(['get', 'post', 'put', 'patch', 'delete', 'GET', 'POST', 'PUT', 'PATCH', 'DELETE'], {
    description: 'The HTTP method.'
  }),
  description: Type.Optional(Type.String({ description: 'The description of the route for the documentation.' })),
  tags: Type.Optional(
    Type.Array(Type.String(), {
      description: 'The groups of `/doc` and `/ui` that list the route. Default: the first segment of its path.'
    })
  ),
  public: Type.Optional(Type.Boolean({ description: 'If false, a caller without a token cannot choose a tenant. Default: true.' })),
  requireAuth: Type.Optional(
    Type.Boolean({ description: 'A token is required. Default: false, or true with `requiredPermissions`.' })
  ),
  authProvider: Type.Optional(
    Type.String({ description: 'The issuer of accepted tokens: `jwt` for the server itself, or the name of one of `authProviders`. Default: `jwt`.' })
  ),
  requiredPermissions: Type.Optional(Type.Array(Type.String(), { description: 'The permissions that the caller needs, all of them.' })),
  queries: Type.Optional(Type.Array(Query, { minItems: 1, description: 'Database operations, run in order.' })),
  firebaseQueries: Type.Optional(Type.Array(DocumentQuery, { minItems: 1, description: 'Document operations, run in order.' })),
  cache: Type.Optional(RouteCache),
  rateLimit: Type.Optional(RouteRateLimit),
  excludeFields: Type.Optional(
    Type.Array(Type.String(), {
      description: "Fields omitted from results and written values. This does not protect against a tenant's own users."
    })
  ),
  request: Type.Optional(RequestRules),
  response: Type.Optional(
    Type.Unknown({
      text: 'request',
      description: 'A JSON Schema of the response (`type` with `properties` or `items`), or a mapping with templates.'
    })
  ),
  softDelete: Type.Optional(Type.Object({
    enabled: Type.Boolean({ description: 'Mark the row as deleted instead of removing it.' }),
    allowHardDelete: Type.Optional(Type.Boolean({ description: '`?hard=true` removes the row. Default: false.' }))
  }, { additionalProperties: false, description: 'The effect of a `delete` of this route.' })),
  transform: Type.Optional(Transform),
  integrations: Type.Optional(Integrations),
  workflow: Type.Optional(RouteWorkflow),
  realtime: Type.Optional(RouteRealtime),
  multipart: Type.Optional(
    Type.Boolean({
      description:
        'The body is a form, `multipart/form-data`, with the files of `request.files`, or else one in the part `file`. Its other fields are the body, with the types of `request.body`. Default: false.'
    })
  ),
  webhook: Type.Optional(RouteWebhook),
  resourceLimit: Type.Optional(RouteResourceLimit),
  mcp: Type.Optional(
    Type.Union([Type.Literal(true), RouteTool], {
      description: 'Makes the route a tool that language models can call with the permissions of their caller. Default: not a tool.'
    })
  )
}, { additionalProperties: false, description: 'A route.' })
export type Route = Static<typeof Route>
