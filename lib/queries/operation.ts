/** The result of compiling an operation, and the members that each operation accepts. */
import type { CompiledQuery, Missing, Reference, ResultKind } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { Query, TableOperation } from '../schema/query.js'
import type { QueryContext } from './context.js'

/** The part of a compiled query that depends on its operation. */
export interface CompiledOperation {
  readonly resultKind: ResultKind
  readonly missing: Missing
  readonly references: readonly Reference[]
  /** Default: nothing is written. */
  readonly inputPointers?: CompiledQuery['inputPointers']
  /** The write reads tenants' rows in other tables than its own. */
  readonly tenantScoped?: boolean
  /** Default: none. */
  readonly parameters?: CompiledQuery['parameters']
  /** Default: none. */
  readonly cursorMembers?: readonly string[]
  readonly bind: CompiledQuery['bind']
}

/** The members without a use for an operation, with the reason. A member without effect is never ignored silently. */
const refused = {
  select: { data: 'a `select` does not write', onConflict: 'only an `upsert` has conflicts' },
  insert: {
    embeds: 'only a `select` can filter embedded rows',
    filters: 'an `insert` has no rows to filter',
    order: 'an `insert` has no order',
    orderBy: 'an `insert` has no order',
    pagination: 'an `insert` has no pages',
    limit: 'an `insert` has no pages',
    offset: 'an `insert` has no pages',
    onConflict: 'only an `upsert` has conflicts: change the operation'
  },
  update: {
    embeds: 'only a `select` can filter embedded rows',
    order: 'an `update` has no order',
    orderBy: 'an `update` has no order',
    pagination: 'an `update` has no pages',
    limit: 'an `update` changes all matching rows',
    offset: 'an `update` changes all matching rows',
    onConflict: 'only an `upsert` has conflicts'
  },
  upsert: {
    embeds: 'only a `select` can filter embedded rows',
    order: 'an `upsert` has no order',
    orderBy: 'an `upsert` has no order',
    pagination: 'an `upsert` has no pages',
    limit: 'an `upsert` has no pages',
    offset: 'an `upsert` has no pages'
  },
  delete: {
    embeds: 'a `delete` returns no records',
    data: 'a `delete` does not write values',
    select: 'a `delete` returns no records',
    order: 'a `delete` has no order',
    orderBy: 'a `delete` has no order',
    pagination: 'a `delete` has no pages',
    limit: 'a `delete` removes all matching rows',
    offset: 'a `delete` removes all matching rows',
    onConflict: 'only an `upsert` has conflicts'
  }
} as const satisfies Record<TableOperation, Partial<Record<keyof Query, string>>>

const ofFunction = 'the result of a `call` depends on its function'
const refusedInCall = {
  embeds: ofFunction,
  table: 'a `call` does not use a table',
  filters: ofFunction,
  order: ofFunction,
  orderBy: ofFunction,
  id: ofFunction,
  data: 'a `call` uses `arguments`',
  onConflict: 'only an `upsert` has conflicts'
} as const satisfies Partial<Record<keyof Query, string>>
const ofCall = { function: 'only a `call` has a function', arguments: 'only a `call` has arguments' } as const satisfies Partial<
  Record<keyof Query, string>
>

const listed = (members: object) => Object.entries(members).map(([member, reason]: [string, string]) => ({ member, reason }))
const reasons = {
  select: listed({ ...refused.select, ...ofCall }),
  insert: listed({ ...refused.insert, ...ofCall }),
  update: listed({ ...refused.update, ...ofCall }),
  upsert: listed({ ...refused.upsert, ...ofCall }),
  delete: listed({ ...refused.delete, ...ofCall }),
  call: listed(refusedInCall)
} as const satisfies Record<Query['operation'], readonly { member: string, reason: string }[]>

/** Adds a fault for each such member. */
export function checkMembers (query: Query, pointer: string, { faults }: QueryContext): void {
  for (const { member, reason } of reasons[query.operation]) {
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
