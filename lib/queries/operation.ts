/** The result of compiling an operation, and the members that each operation accepts. */
import type { ForeignKey } from '../database/catalogue.js'
import { pointerTo } from '../schema/faults.js'
import type { Query } from '../schema/query.js'
import type { CompiledQuery } from './compiled-query.js'
import type { QueryContext } from './context.js'

/** The part of a compiled query that depends on its operation. */
export interface CompiledOperation extends
  Pick<CompiledQuery, 'resultKind' | 'missing' | 'references' | 'bind'>,
  Partial<Pick<CompiledQuery, 'inputPointers' | 'parameters' | 'cursorMembers'>> {
  /** The references whose tenant the write checks: it reads these tables too. Default: none. */
  readonly tenantKeys?: readonly ForeignKey[]
}

/** The reasons of the members of a `select`'s rows; `operation` is one with its article. */
const withoutOrder = (operation: string, ofLimit = `${operation} has no pages`) => ({
  order: `${operation} has no order`,
  orderBy: `${operation} has no order`,
  pagination: `${operation} has no pages`,
  limit: ofLimit,
  offset: ofLimit
})
const ofEmbeds = 'only a `select` can filter embedded rows'
const ofConflict = 'only an `upsert` has conflicts'
const ofCall = { function: 'only a `call` has a function', arguments: 'only a `call` has arguments' }
const ofFunction = 'the result of a `call` depends on its function'

/** The members without a use for an operation, with the reason. A member without effect is never ignored silently. */
const refused = {
  select: { data: 'a `select` does not write', onConflict: ofConflict, ...ofCall },
  insert: {
    embeds: ofEmbeds,
    filters: 'an `insert` has no rows to filter',
    ...withoutOrder('an `insert`'),
    onConflict: `${ofConflict}: change the operation`,
    ...ofCall
  },
  update: {
    embeds: ofEmbeds,
    ...withoutOrder('an `update`', 'an `update` changes all matching rows'),
    onConflict: ofConflict,
    ...ofCall
  },
  upsert: { embeds: ofEmbeds, ...withoutOrder('an `upsert`'), ...ofCall },
  delete: {
    embeds: 'a `delete` returns no records',
    data: 'a `delete` does not write values',
    select: 'a `delete` returns no records',
    ...withoutOrder('a `delete`', 'a `delete` removes all matching rows'),
    onConflict: ofConflict,
    ...ofCall
  },
  call: {
    embeds: ofFunction,
    table: 'a `call` does not use a table',
    filters: ofFunction,
    order: ofFunction,
    orderBy: ofFunction,
    id: ofFunction,
    data: 'a `call` uses `arguments`',
    onConflict: ofConflict
  }
} satisfies Record<Query['operation'], Partial<Record<keyof Query, string>>>

/** Adds a fault for each such member. */
export function checkMembers (query: Query, pointer: string, { faults }: QueryContext): void {
  for (const [member, reason] of Object.entries(refused[query.operation])) {
    if (Object.hasOwn(query, member)) faults.add(pointerTo(pointer, member), reason)
  }
  if (query.operation === 'call' && query.pagination === 'cursor') {
    faults.add(pointerTo(pointer, 'pagination'), 'the rows of a function have pages by offset, not by cursor')
  }
  const isOne = query.single === true || query.id !== undefined
  if (query.operation === 'select' && isOne) {
    for (const member of ['limit', 'offset', 'pagination'] as const) {
      if (query[member] !== undefined) faults.add(pointerTo(pointer, member), 'a `select` of one record has no pages')
    }
    if (query.orderBy !== undefined) {
      faults.add(pointerTo(pointer, 'orderBy'), 'a `select` of one record has no order for the caller to choose')
    }
    if (query.id !== undefined && query.order !== undefined) {
      faults.add(pointerTo(pointer, 'order'), '`id` selects one row, which has no order')
    }
  }
  if (query.pagination === 'cursor' && query.offset !== undefined) {
    faults.add(pointerTo(pointer, 'offset'), 'pages with a cursor have no offset')
  }
  const changes = query.operation === 'update' || query.operation === 'delete'
  if (changes && query.id === undefined && (query.filters ?? []).length === 0) {
    faults.add(
      pointer,
      `\`${query.operation}\` without \`filters\` or \`id\` would ${query.operation === 'update' ? 'change' : 'delete'} every row: say which rows`
    )
  }
}
