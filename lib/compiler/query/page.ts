/** Which part of a list is answered: order, limit and offset. */
import type { Order, Query } from '../../config/schema/query.js'
import type { Table } from '../../database/catalogue.js'
import type { Reference, Scope } from '../types.js'
import { pointerTo } from '../../config/faults.js'
import { compileValue } from '../template.js'
import { type QueryContext, findColumn } from './context.js'
import { noScope } from './filter-value.js'
import { columnOf } from './identifiers.js'
import { refuse, requestPath } from './request-path.js'
import { tenantColumn } from './scope.js'
import type { Binder } from './sql.js'

export interface Page {
  readonly limit: Binder
  readonly offset: Binder
  readonly references: readonly Reference[]
}

/** The limit and offset of a list: the query string's, else the query's own, else the document's. */
export function compilePage (query: Pick<Query, 'limit' | 'offset'>, pointer: string, context: QueryContext): Page {
  const { defaultLimit, maxLimit, defaultOffset } = context.pagination
  const limit = compileCount(query.limit, pointerTo(pointer, 'limit'), context)
  const offset = compileCount(query.offset, pointerTo(pointer, 'offset'), context)
  return {
    limit: (scope) => Math.min(given(scope, 'limit') ?? limit.read(scope) ?? defaultLimit, maxLimit),
    offset: (scope) => given(scope, 'offset') ?? offset.read(scope) ?? defaultOffset,
    references: [...limit.references, ...offset.references]
  }
}

/** The `order by` list of a table's rows; the primary key is the last key, so that pages never overlap. */
export function compileOrder (order: Query['order'], table: Table, pointer: string, context: QueryContext): (alias: string) => string {
  const keys: Order[] = order === undefined ? [] : Array.isArray(order) ? order : [order]
  for (const [index, key] of keys.entries()) {
    findColumn(table, key.column, Array.isArray(order) ? pointerTo(pointer, index, 'column') : pointerTo(pointer, 'column'), context)
  }
  const named = new Set(keys.map(({ column }) => column))
  // The direction of the last key: one index then serves the whole order, forwards or backwards.
  const ascending = keys.at(-1)?.ascending ?? true
  const rest = table.primaryKey.filter((column) => !named.has(column) && !(table.tenantScoped && column === tenantColumn))
  return (alias) => {
    const texts = [
      ...keys.map((key) => `${columnOf(alias, key.column)}${direction(key)}`),
      ...rest.map((column) => `${columnOf(alias, column)}${ascending ? '' : ' desc'}`)
    ]
    return texts.length === 0 ? '' : ` order by ${texts.join(', ')}`
  }
}

/** `desc`, and where nulls stand; PostgreSQL's default is not repeated. */
export function direction ({ ascending = true, nullsFirst }: Pick<Order, 'ascending' | 'nullsFirst'>): string {
  const nulls = nullsFirst === undefined || nullsFirst === !ascending ? '' : nullsFirst ? ' nulls first' : ' nulls last'
  return `${ascending ? '' : ' desc'}${nulls}`
}

interface Count {
  readonly read: (scope: Scope) => number | undefined
  readonly references: readonly Reference[]
}

function compileCount (configured: number | string | undefined, pointer: string, context: QueryContext): Count {
  if (configured === undefined) return { read: () => undefined, references: [] }
  const value = compileValue(configured, pointer, context)
  if (!value.constant) return { read: (scope) => countOf(value.evaluate(scope), requestPath(value, pointer)), references: value.references }
  const constant = asCount(value.evaluate(noScope))
  if (constant === undefined) context.faults.add(pointer, 'expected a whole number from 0, or a template that gives one')
  return { read: () => constant, references: [] }
}

function given (scope: Scope, name: 'limit' | 'offset'): number | undefined {
  return Object.hasOwn(scope.query, name) ? countOf(scope.query[name], `/query/${name}`) : undefined
}

function countOf (value: unknown, path: string): number | undefined {
  if (value === undefined || value === null) return undefined
  const count = asCount(value)
  if (count === undefined) throw refuse({ path, message: 'must be a whole number from 0', keyword: 'type' })
  return count
}

function asCount (value: unknown): number | undefined {
  const count = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  return typeof count === 'number' && Number.isSafeInteger(count) && count >= 0 ? count : undefined
}
