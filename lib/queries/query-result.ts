/** The JSON Schemas of a query's result, and its members for templates and expressions. */
import type { KnownResult } from '../expressions/known-members.js'
import type { ResultKind } from '../expressions/result.js'
import type { JsonSchema } from '../expressions/types.js'
import { named, namedAfter } from '../validation/named-schema.js'
import type { RouteQuery } from './compiled-query.js'
import { objectOf } from './schema-members.js'

/** One form of a result: a list wraps its records, and a write that creates records has both forms. */
interface QueryForm {
  readonly kind: ResultKind
  readonly schema: JsonSchema
}

const none: ReadonlySet<string> = new Set()

/** The result of the query, for templates at a place where the value must not depend on the caller. */
export function knownResultOf (query: RouteQuery): KnownResult {
  return { schema: () => anyOf(formsOfQuery(query).map(({ schema }) => schema)), hidden: none, excluded: query.excluded }
}

export function formsOfQuery ({ resultKind, record, bulk }: RouteQuery): QueryForm[] {
  const kinds: ResultKind[] = bulk ? [resultKind, 'records'] : [resultKind]
  return kinds.map((kind) => ({ kind, schema: schemaOfKind(kind, record) }))
}

const paginationSchema = named(
  'Pagination',
  objectOf({ limit: { type: 'integer' }, offset: { type: 'integer' }, total: { type: 'integer' } })
)

const cursorPaginationSchema = named(
  'CursorPagination',
  objectOf({
    limit: { type: 'integer' },
    next: { type: ['string', 'null'], description: 'The `cursor` of the next page; null on the last page.' }
  })
)

const deletionSchema = named('Deletion', {
  ...objectOf({ success: { type: 'boolean' }, softDeleted: { type: 'boolean' } }),
  required: ['success']
})

function schemaOfKind (kind: ResultKind, record: JsonSchema): JsonSchema {
  switch (kind) {
    case 'record':
      return record
    case 'records':
      return listOf(record)
    case 'page':
      return listOf(record, paginationSchema)
    case 'cursorPage':
      return listOf(record, cursorPaginationSchema, 'CursorPage')
    case 'deletion':
      return deletionSchema
  }
}

export function listOf (
  record: JsonSchema,
  pagination?: JsonSchema,
  name: 'List' | 'Page' | 'CursorPage' = pagination === undefined ? 'List' : 'Page'
): JsonSchema {
  const data = { type: 'array', items: record }
  return namedAfter(record, name, objectOf(pagination === undefined ? { data } : { data, pagination }))
}

export function anyOf (schemas: readonly JsonSchema[]): JsonSchema {
  const [first] = schemas
  return first !== undefined && schemas.length === 1 ? first : { anyOf: schemas }
}
