/** A declared route. */
import { Type, type Static } from 'typebox'
import { RouteFile } from './files.js'
import { DocumentQuery, Query } from './query.js'
import { Integrations } from './integration.js'
import { RouteRateLimit } from './rate-limit.js'
import { RouteResourceLimit } from './resource-limit.js'
import { RouteWebhook } from './route-webhook.js'
import { RouteWorkflow } from './workflow.js'
import { Section } from './annotations.js'

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
    minLength: Type.Optional(Type.Integer({ minimum: 0, description: 'Characters of a string, items of an array.' })),
    maxLength: Type.Optional(Type.Integer({ minimum: 0, description: 'Characters of a string, items of an array.' })),
    minimum: Type.Optional(Type.Number({ description: 'The smallest accepted number.' })),
    maximum: Type.Optional(Type.Number({ description: 'The largest accepted number.' })),
    enum: Type.Optional(Type.Array(Type.Unknown({ text: 'literal' }), { minItems: 1, description: 'The accepted values.' })),
    format: Type.Optional(Type.Enum(['email', 'uuid', 'date-time', 'date', 'uri'], { description: 'The form of a string.' })),
    pattern: Type.Optional(Type.String({ text: 'literal', description: 'A regular expression that the string matches.' })),
    items: Type.Optional(Type.Ref('Field', { description: 'The rules of each item of an array.' })),
    properties: Type.Optional(Type.Record(Type.String(), Type.Ref('Field'), { description: 'The fields of an object.' })),
    additionalFields: Type.Optional(
      Type.Boolean({ description: 'Accept fields of an object beyond `properties`. Default: false.' })
    ),
    description: Type.Optional(Type.String({ description: 'For the documentation.' }))
  }, { additionalProperties: false, description: 'The rules of a field.' })
}, 'Field')
export type Field = Static<typeof Field>

const FieldMap = (part: string) =>
  Type.Optional(Type.Record(Type.String(), Field, { description: `The fields of the ${part}; others are refused.` }))

export const RequestRules = Type.Object({
  body: FieldMap('body'),
  params: FieldMap('path parameters'),
  query: FieldMap('query string'),
  files: Type.Optional(
    Type.Record(Type.String(), RouteFile, {
      description:
        'The files of the form, by the names of their parts, 10 at most; templates read them as `{{files.avatar.id}}`. Only with `multipart`.'
    })
  ),
  additionalFields: Type.Optional(Type.Boolean({ description: 'Accept undeclared fields. Default: false.' }))
}, {
  additionalProperties: false,
  description: 'The accepted fields of a request. Default: all; a write then refuses fields that are not columns of its table.'
})
export type RequestRules = Static<typeof RequestRules>

export const RouteCache = Type.Object({
  enabled: Type.Boolean({ description: 'Turns the cache of the route on or off.' }),
  ttl: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 31_536_000,
      unit: 's',
      description: "The time that a response is kept. Default: the document's `cache.ttl`."
    })
  ),
  varyBy: Type.Optional(
    Type.Array(Type.String({ text: 'request' }), {
      description: 'Further template paths for the key, such as `query.lang` or `headers.accept-language`.'
    })
  ),
  key: Type.Optional(
    Type.String({
      text: 'request',
      description:
        'A template that replaces path and query string in the key; tenant, field exclusion, `limit`, `offset` and `cursor` stay in it.'
    })
  )
}, { additionalProperties: false, description: 'Keeps the responses of a `get` route.' })
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
      fields: Type.Record(Type.String(), Type.String({ text: 'request' }), { description: 'As `fields` of `transform`.' })
    }, { additionalProperties: false }),
    { description: 'The same in the form of steps, run in order.' }
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
      description: 'What the tool does, for the model. Default: that of the route.'
    })
  ),
  readOnly: Type.Optional(Type.Boolean({ description: 'A hint for clients: the tool changes nothing. Default: true for a `get`.' })),
  resource: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'For a `get`: MCP clients can also read it as a resource, `tenantry:///notes/{id}` for `/notes/:id`.'
    })
  )
}, { additionalProperties: false, description: 'The name, description and hints of the tool.' })

export const Route = Type.Object({
  path: Type.String({ pattern: '^/', expected: 'a path that starts with `/`', description: 'The path; `:name` is a parameter.' }),
  method: Type.Enum(['get', 'post', 'put', 'patch', 'delete', 'GET', 'POST', 'PUT', 'PATCH', 'DELETE'], {
    description: 'The HTTP method.'
  }),
  description: Type.Optional(Type.String({ description: 'For the documentation.' })),
  tags: Type.Optional(
    Type.Array(Type.String(), {
      description: 'The groups of `/doc` and `/ui` that list the route. Default: the first segment of its path.'
    })
  ),
  public: Type.Optional(Type.Boolean({ description: 'false: a caller without a token may not name a tenant here. Default: true.' })),
  requireAuth: Type.Optional(
    Type.Boolean({ description: 'A token is required. Default: false, or true with `requiredPermissions`.' })
  ),
  authProvider: Type.Optional(
    Type.String({ description: 'The issuer of accepted tokens: `jwt` for the server itself, or the name of one of `authProviders`. Default: `jwt`.' })
  ),
  requiredPermissions: Type.Optional(Type.Array(Type.String(), { description: 'The caller must hold all of them.' })),
  queries: Type.Optional(Type.Array(Query, { minItems: 1, description: 'Database operations, run in order.' })),
  firebaseQueries: Type.Optional(Type.Array(DocumentQuery, { minItems: 1, description: 'Document operations, run in order.' })),
  cache: Type.Optional(RouteCache),
  rateLimit: Type.Optional(RouteRateLimit),
  excludeFields: Type.Optional(
    Type.Array(Type.String(), {
      description: "Fields left out of reads and of write inputs; not a protection against a tenant's own users."
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
    enabled: Type.Boolean({ description: 'A `delete` marks the row instead of removing it.' }),
    allowHardDelete: Type.Optional(Type.Boolean({ description: '`?hard=true` removes the row. Default: false.' }))
  }, { additionalProperties: false, description: 'The effect of a `delete` of this route.' })),
  transform: Type.Optional(Transform),
  integrations: Type.Optional(Integrations),
  workflow: Type.Optional(RouteWorkflow),
  realtime: Type.Optional(RouteRealtime),
  multipart: Type.Optional(
    Type.Boolean({
      description:
        'The body is a form, `multipart/form-data`, with the files of `request.files`. Its other fields are the body; their texts become the types of `request.body`. Default: false.'
    })
  ),
  webhook: Type.Optional(RouteWebhook),
  resourceLimit: Type.Optional(RouteResourceLimit),
  mcp: Type.Optional(
    Type.Union([Type.Literal(true), RouteTool], {
      description: 'Makes the route a tool that language models call with the rights of their caller. Default: not a tool.'
    })
  )
}, { additionalProperties: false, description: 'An endpoint.' })
export type Route = Static<typeof Route>
