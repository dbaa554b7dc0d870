/** A database operation of a route. */
import { Type, type Static } from 'typebox'
import { MapOf } from './annotations.js'

export const Operator = Type.Enum(
  [
    'eq',
    'neq',
    'gt',
    'gte',
    'lt',
    'lte',
    'like',
    'ilike',
    'is',
    'in',
    'contains',
    'overlaps',
    'array-contains',
    'array-contains-any',
    'fts'
  ],
  { description: 'The comparison of the column with the value. `array-contains` and `array-contains-any` are for documents.' }
)
export type Operator = Static<typeof Operator>

/** A comparison, or a group of them; a list of filters is combined with AND. */
export const Filter = Type.Cyclic({
  Filter: Type.Union([
    Type.Object({
      column: Type.String({ description: "A column of the table, or a path in a JSON column such as `data->>'city'`." }),
      operator: Type.Optional(Operator),
      value: Type.Optional(
        Type.Unknown({
          text: 'request',
          description: 'The value, or a template. A template without a value makes the filter match nothing.'
        })
      ),
      config: Type.Optional(
        Type.String({
          pattern: '^[a-z_][a-z0-9_]{0,62}$',
          expected: 'the name of a text search configuration, such as "english"',
          description:
            'For `fts`: the text search configuration of the database, such as `english`. Default: `simple`, which compares words as they are.'
        })
      ),
      optional: Type.Optional(Type.Boolean({ description: 'Drop the filter if its template has no value. Default: false.' }))
    }, { additionalProperties: false }),
    Type.Object({ or: Type.Array(Type.Ref('Filter'), { minItems: 1, description: 'One of these must hold.' }) }, {
      additionalProperties: false
    }),
    Type.Object({ and: Type.Array(Type.Ref('Filter'), { minItems: 1, description: 'All of these must hold.' }) }, {
      additionalProperties: false
    }),
    Type.Object({ not: Type.Ref('Filter', { description: 'This must not hold.' }) }, { additionalProperties: false })
  ], { description: 'A comparison of a column with a value, or a group of filters.' })
}, 'Filter')
export type Filter = Static<typeof Filter>

export const Order = Type.Object({
  column: Type.String({
    description: "A column of the table, or a path in a JSON column such as `data->>'city'`. In grouped queries: a member of the groups."
  }),
  ascending: Type.Optional(Type.Boolean({ description: 'Small values first. Default: true.' })),
  nullsFirst: Type.Optional(
    Type.Boolean({ description: 'Rows without a value first. Default: false when ascending, true when descending.' })
  )
}, { additionalProperties: false, description: 'One key of the order.' })
export type Order = Static<typeof Order>

export const OrderBy = Type.Object({
  from: Type.String({
    text: 'request',
    maxLength: 1000,
    description:
      'A template such as `{{query.sort}}`. The caller sends `name`, `name.asc` or `name.desc`; any other text is answered with 400.'
  }),
  allow: Type.Array(Type.String(), {
    minItems: 1,
    maxItems: 20,
    description: 'The columns that a caller can choose. Without a choice, `order` applies, or else the first of these.'
  })
}, { additionalProperties: false, description: 'The order of a list, chosen by the caller.' })
export type OrderBy = Static<typeof OrderBy>

const Templated = (description: string, bounds: { minimum: number }) =>
  Type.Union([
    Type.Integer(bounds),
    Type.String({ text: 'request' })
  ], { description })

const Filters = Type.Array(Filter, { description: 'Filters of the rows, combined with AND.' })

/** The rows of an embedded table in a record. */
export const Embed = Type.Cyclic({
  Embed: Type.Object({
    filters: Type.Optional(Filters),
    order: Type.Optional(
      Type.Union([Order, Type.Array(Order, { minItems: 1 })], {
        description: 'The order of the rows; the primary key is always the last key.'
      })
    ),
    limit: Type.Optional(Templated('How many rows, 1,000 at most. Default: all of them.', { minimum: 0 })),
    embeds: Type.Optional(MapOf(Type.Ref('Embed'), { description: 'The same for the embeds within this one.' }))
  }, { additionalProperties: false, description: 'The rows of an embedded table in a record, and their order.' })
}, 'Embed')
export type Embed = Static<typeof Embed>

export const tableOperations = ['select', 'insert', 'update', 'upsert', 'delete'] as const
export const queryOperations = [...tableOperations, 'call'] as const

export const Query = Type.Object({
  table: Type.Optional(Type.String({ description: 'An application table or view.' })),
  operation: Type.Enum([...queryOperations], { description: 'The operation on the table; `call` calls an SQL function.' }),
  function: Type.Optional(
    Type.String({ description: "For `call`: one of the document's `functions`; in a tenant's document, one that the platform allows." })
  ),
  arguments: Type.Optional(
    Type.Record(Type.String(), Type.Unknown({ text: 'request' }), { description: 'For `call`: the arguments by name, values or templates.' })
  ),
  filters: Type.Optional(Filters),
  embeds: Type.Optional(
    MapOf(Embed, { description: 'Filters, order and limit of the tables that `select` embeds, by the names of their members.' })
  ),
  data: Type.Optional(
    Type.Unknown({
      text: 'request',
      description: 'The values to write, by column. Default: the validated body. A member without a value is left out.'
    })
  ),
  select: Type.Optional(
    Type.String({
      description:
        "The returned columns, embedded tables, aggregates and values of JSON columns, such as `id, title, reviews(*, users(name))`, `kind, qty.sum(), count()` or `id, data->>'city'`; `users!inner(name)` leaves out records without a matching row. Default: `*`."
    })
  ),
  single: Type.Optional(Type.Boolean({ description: 'Return one record instead of a list; 404 without a record. Default: false.' })),
  order: Type.Optional(
    Type.Union([Order, Type.Array(Order, { minItems: 1 })], { description: 'The order of a list; the primary key is always the last key.' })
  ),
  orderBy: Type.Optional(OrderBy),
  pagination: Type.Optional(
    Type.Enum(['offset', 'cursor'], {
      description:
        'The pages of a list: by `?offset=`, with a `total`; or by `?cursor=`, with `pagination.next` of the previous page. Default: `offset`.'
    })
  ),
  limit: Type.Optional(Templated('Rows a page when the query string names none; at most `pagination.maxLimit`.', { minimum: 0 })),
  offset: Type.Optional(Templated('Rows to skip when the query string names none.', { minimum: 0 })),
  id: Type.Optional(
    Type.Unknown({ text: 'request', description: 'The primary key of one row: the same as a filter on it together with `single`.' })
  ),
  onConflict: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 1,
      description: 'The unique columns by which an `upsert` finds an existing row. Default: the primary key.'
    })
  ),
  alias: Type.Optional(
    Type.String({
      description: 'The name of the result, for `{{results.<alias>}}` and for responses of several queries. Default: the table.'
    })
  ),
  excludeFields: Type.Optional(
    Type.Array(Type.String(), { description: "Fields left out of reads and of write inputs, together with the route's." })
  )
}, { additionalProperties: false, description: 'An operation on a table.' })
export type Query = Static<typeof Query>
/** Operations on a table. */
export type TableOperation = typeof tableOperations[number]

export const DocumentQuery = Type.Object({
  collection: Type.Optional(Type.String({ description: 'The collection of documents.' })),
  store: Type.Optional(
    Type.Enum(['sql', 'firestore'], {
      description:
        'The store of the documents: the SQL database, or Firestore, which needs the section `firebase`. Default: `firestore` with `databaseProvider: "firebase"`, else `sql`.'
    })
  ),
  operation: Type.Enum(['get', 'query', 'create', 'add', 'set', 'update', 'delete'], { description: 'The operation on the collection.' }),
  docId: Type.Optional(Type.Unknown({ text: 'request', description: 'The id of one document; `create` without it generates one.' })),
  filters: Type.Optional(Type.Array(Filter, { description: 'Filters of the documents by their fields, combined with AND.' })),
  data: Type.Optional(Type.Unknown({ text: 'request', description: 'The fields to write. Default: the validated body.' })),
  merge: Type.Optional(Type.Boolean({ description: 'For `set`: keep unnamed fields. Default: false.' })),
  select: Type.Optional(
    Type.String({ description: 'For `get` and `query`: the returned fields, such as `title, owner`, beside the id. Default: all.' })
  ),
  order: Type.Optional(
    Type.Union([Order, Type.Array(Order, { minItems: 1 })], { description: 'The order of a list; the id is always the last key.' })
  ),
  pagination: Type.Optional(
    Type.Enum(['offset', 'cursor'], {
      description:
        'The pages of a list: by `?offset=`, with a `total`; or by `?cursor=`, with `pagination.next` of the previous page. Default: `offset`.'
    })
  ),
  limit: Type.Optional(Templated('Documents a page when the query string names none; at most `pagination.maxLimit`.', { minimum: 0 })),
  offset: Type.Optional(Templated('Documents to skip when the query string names none.', { minimum: 0 })),
  alias: Type.Optional(Type.String({ description: 'The name of the result. Default: the collection.' })),
  excludeFields: Type.Optional(
    Type.Array(Type.String(), { description: "Fields left out of reads and of write inputs, together with the route's." })
  )
}, { additionalProperties: false, description: 'An operation on documents.' })
export type DocumentQuery = Static<typeof DocumentQuery>
