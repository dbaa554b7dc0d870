/** A database operation of a route. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

export const Operator = Type.Enum(
  [
    'eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'like', 'ilike', 'is', 'in', 'contains', 'overlaps', 'array-contains',
    'array-contains-any', 'fts'
  ],
  { description: 'The comparison of the column with the value. `array-contains` and `array-contains-any` are for documents.' }
)
export type Operator = Static<typeof Operator>

/** A comparison, or a group of them; a list of filters is combined with AND. */
export const Filter = Type.Cyclic({
  Filter: Type.Union([
    ClosedObject({
      column: Type.String({ description: "A column of the table, or a path in a JSON column such as `data->>'city'`." }),
      operator: Type.Optional(Operator),
      value: Optional.Unknown('The value, or a template. If the template has no value, the filter matches nothing.', { text: 'request' }),
      config: Optional.String(
        'For `fts`: the text search configuration of the database, such as `english`. Default: `simple`, which compares words as they are.',
        { pattern: '^[a-z_][a-z0-9_]{0,62}$', expected: 'the name of a text search configuration, such as "english"' }
      ),
      optional: Optional.Boolean('Ignore the filter if its template has no value. Default: false.')
    }),
    ClosedObject({ or: Type.Array(Type.Ref('Filter'), { minItems: 1, description: 'At least one of these filters must match.' }) }),
    ClosedObject({ and: Type.Array(Type.Ref('Filter'), { minItems: 1, description: 'All of these filters must match.' }) }),
    ClosedObject({ not: Type.Ref('Filter', { description: 'This filter must not match.' }) })
  ], { description: 'A comparison of a column with a value, or a group of filters.' })
}, 'Filter')
export type Filter = Static<typeof Filter>

export const Order = ClosedObject({
  column: Type.String({
    description: "A column of the table, or a path in a JSON column such as `data->>'city'`. In grouped queries: a member of the groups."
  }),
  ascending: Optional.Boolean('Sort in ascending order. Default: true.'),
  nullsFirst: Optional.Boolean('Sort rows without a value first. Default: false in ascending order, true in descending order.')
}, { description: 'A sort key.' })
export type Order = Static<typeof Order>

export const Orders = (description: string, bounds: { maxItems?: number } = {}) =>
  Optional.Union(description, [Order, Type.Array(Order, { minItems: 1, ...bounds })])

export const OrderBy = ClosedObject({
  from: Type.String({
    text: 'request',
    maxLength: 1000,
    description:
      'A template such as `{{query.sort}}`. The caller sends `name`, `name.asc` or `name.desc`; any other text is rejected with 400.'
  }),
  allow: Type.Array(Type.String(), {
    minItems: 1,
    maxItems: 20,
    description: 'The columns that a caller can choose. Without a choice, `order` applies, or the first of these columns.'
  })
}, { description: 'The order of a list, chosen by the caller.' })

const Count = (description: string) => Optional.Union(description, [Type.Integer({ minimum: 0 }), Type.String({ text: 'request' })])

const pagesOf = (items: string) => ({
  pagination: Optional.Enum(
    'The kind of pages: by `?offset=`, with a `total`; or by `?cursor=`, with `pagination.next` of the previous page. Default: `offset`.',
    ['offset', 'cursor']
  ),
  limit: Count(`The number of ${items} per page without \`limit\` in the query string; at most \`pagination.maxLimit\`.`),
  offset: Count(`The number of skipped ${items} without \`offset\` in the query string.`)
})
const excludeFields = Optional.Array('Fields omitted from results and written values, in addition to those of the route.', Type.String())

const Filters = Type.Array(Filter, { description: 'Filters of the rows, combined with AND.' })

/** The rows of an embedded table in a record. */
export const Embed = Type.Cyclic({
  Embed: ClosedObject({
    filters: Type.Optional(Filters),
    order: Orders('The order of the rows. The primary key is always the last sort key.'),
    limit: Count('The maximum number of rows, at most 1,000. Default: all rows.'),
    embeds: Optional.Map('Options for the tables embedded in this one.', Type.Ref('Embed'))
  }, { description: 'The rows of an embedded table in a record, and their order.' })
}, 'Embed')
export type Embed = Static<typeof Embed>

const tableOperations = ['select', 'insert', 'update', 'upsert', 'delete'] as const
export const queryOperations = [...tableOperations, 'call'] as const

export const Query = ClosedObject({
  table: Optional.String('The name of a table or view of the application.'),
  operation: Type.Enum([...queryOperations], { description: 'The operation on the table; `call` calls an SQL function.' }),
  function: Optional.String(
    "For `call`: the name of one of the document's `functions`; in a tenant's document, of a function that the platform allows."
  ),
  arguments: Optional.Map('For `call`: the arguments by name, as values or templates.', Type.Unknown({ text: 'request' })),
  filters: Type.Optional(Filters),
  embeds: Optional.Map('Filters, order and limit of the tables that `select` embeds, by the names of their members.', Embed),
  data: Optional.Unknown(
    'The values to write, by column. A member without a value is omitted. Default: the validated body.',
    { text: 'request' }
  ),
  select: Optional.String(
    "The returned columns, embedded tables, aggregates and values of JSON columns, such as `id, title, reviews(*, users(name))`, `kind, qty.sum(), count()` or `id, data->>'city'`. `users!inner(name)` omits records without a matching row. Default: `*`."
  ),
  single: Optional.Boolean('Return one record instead of a list. Without a matching record the request fails with 404. Default: false.'),
  order: Orders('The order of the list. The primary key is always the last sort key.'),
  orderBy: Type.Optional(OrderBy),
  ...pagesOf('rows'),
  id: Optional.Unknown('The primary key of one row, equivalent to a filter on it together with `single`.', { text: 'request' }),
  onConflict: Optional.Array(
    'The unique columns by which an `upsert` finds an existing row. Default: the primary key.',
    Type.String(),
    { minItems: 1 }
  ),
  alias: Optional.String('The name of the result, for `{{results.<alias>}}` and for responses of several queries. Default: the table.'),
  excludeFields
}, { description: 'An operation on a table.' })
export type Query = Static<typeof Query>
export type TableOperation = typeof tableOperations[number]

export const DocumentQuery = ClosedObject({
  collection: Optional.String('The name of the collection.'),
  store: Optional.Enum(
    'The store of the documents: the SQL database, or Firestore, which requires the section `firebase`. Default: `firestore` with `databaseProvider: "firebase"`, otherwise `sql`.',
    ['sql', 'firestore']
  ),
  operation: Type.Enum(['get', 'query', 'create', 'add', 'set', 'update', 'delete'], { description: 'The operation on the collection.' }),
  docId: Optional.Unknown('The id of one document. `create` without an id generates one.', { text: 'request' }),
  filters: Optional.Array('Filters of the documents by their fields, combined with AND.', Filter),
  data: Optional.Unknown('The fields to write. Default: the validated body.', { text: 'request' }),
  merge: Optional.Boolean('For `set`: keep fields that are not written. Default: false.'),
  select: Optional.String(
    'For `get` and `query`: the returned fields, such as `title, owner`, in addition to the id. Default: all fields.'
  ),
  order: Orders('The order of the list. The id is always the last sort key.'),
  ...pagesOf('documents'),
  alias: Optional.String('The name of the result. Default: the collection.'),
  excludeFields
}, { description: 'An operation on documents.' })
export type DocumentQuery = Static<typeof DocumentQuery>
