/** The orders of a list: its own, and the orders that its caller can choose. */
import { type Table, tenantColumn } from '../database/catalogue.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { Order, Query } from '../schema/query.js'
import type { Field } from '../schema/route.js'
import { invalidInput } from '../validation/detail.js'
import { isOrdered, orderedInstead } from './column-value.js'
import type { QueryContext } from './context.js'
import { findOperand, type Operand, operandOf } from './operand.js'
import { requestPath } from './request-value.js'
import { quote } from './sql.js'

export interface OrderKey {
  readonly operand: Operand
  readonly ascending: boolean
  readonly nullsFirst: boolean
}

export interface RowOrder {
  /** Identifies this order among the orders of its query. */
  readonly id: string
  /** The primary key comes last, so that pages never overlap. */
  readonly keys: readonly OrderKey[]
  /** ` order by ...` for an alias. */
  readonly write: (alias: string) => string
}

/** The orders of a query. */
export interface Orders {
  /** The order without a choice of the caller. */
  readonly usual: RowOrder
  readonly all: readonly RowOrder[]
  readonly choose: (scope: Scope) => RowOrder
  readonly references: readonly Reference[]
  /** The query string field of the choice, if there is one. */
  readonly parameters: Readonly<Record<string, Field>>
}

/** Compiles the orders of a query and reports their faults. The default is the query's own order, or the first allowed one. */
export function compileOrders (query: Pick<Query, 'order' | 'orderBy'>, table: Table, pointer: string, context: QueryContext): Orders {
  const { order, orderBy } = query
  const own = compileOrder(order, table, pointerTo(pointer, 'order'), context)
  if (orderBy === undefined) return { usual: own, all: [own], choose: () => own, references: [], parameters: {} }

  const at = pointerTo(pointer, 'orderBy')
  const from = compileFrom(orderBy.from, pointerTo(at, 'from'), context)
  const byText = new Map<string, RowOrder>()
  const all: RowOrder[] = order === undefined ? [] : [own]
  for (const [index, name] of orderBy.allow.entries()) {
    const place = pointerTo(at, 'allow', index)
    if (byText.has(name) || name.includes('.')) {
      context.faults.add(
        place,
        name.includes('.')
          ? 'a caller sends the direction after a dot, so a column with a dot in its name cannot be chosen'
          : `"${name}" is listed twice`
      )
      continue
    }
    const before = context.faults.faults.length
    const ascending = rowOrder([{ column: name }], table, () => place, context)
    if (context.faults.faults.length > before) continue
    const descending = rowOrder([{ column: name, ascending: false }], table, () => place, context)
    byText.set(name, ascending).set(`${name}.asc`, ascending).set(`${name}.desc`, descending)
    all.push(ascending, descending)
  }
  const usual = all[0] ?? own
  const texts = [...byText.keys()]
  const message = `must be one of ${texts.join(', ')}`
  const path = from === undefined ? '' : requestPath(from, '/query')
  const choose = (scope: Scope): RowOrder => {
    const given = from?.evaluate(scope) ?? null
    if (given === null) return usual
    const chosen = typeof given === 'string' ? byText.get(given) : undefined
    if (chosen === undefined) throw invalidInput(path, message, 'enum')
    return chosen
  }
  const field = fieldOf(from)
  const description = `The order of the list. Default: ${order === undefined ? texts[0] : 'that of the route'}.`
  return {
    usual,
    all,
    choose,
    references: from?.references ?? [],
    parameters: field === undefined ? {} : { [field]: { type: 'string', enum: texts, description } }
  }
}

/** The template of an `orderBy`; undefined after a fault. */
export function compileFrom (from: string, pointer: string, context: QueryContext): CompiledValue | undefined {
  const before = context.faults.faults.length
  const value = compileValue(from, pointer, { ...context, secretsRefusedIn: 'an `orderBy`' })
  if (context.faults.faults.length > before) return undefined
  if (!value.constant) return value
  context.faults.add(
    pointer,
    'the order would be the same for all callers: expected a template such as {{query.sort}}, or `order` instead of `orderBy`'
  )
  return undefined
}

/** The query string field, if the template reads only one. */
function fieldOf (value: CompiledValue | undefined): string | undefined {
  const [reference] = value?.references ?? []
  const [field] = reference?.path ?? []
  return value?.references.length === 1 && reference?.source === 'query' && reference.path.length === 1 && typeof field === 'string'
    ? field
    : undefined
}

export function compileOrder (order: Query['order'], table: Table, pointer: string, context: QueryContext): RowOrder {
  const keys = order === undefined ? [] : [order].flat()
  return rowOrder(
    keys,
    table,
    (index) => Array.isArray(order) ? pointerTo(pointer, index, 'column') : pointerTo(pointer, 'column'),
    context
  )
}

/** `placeOf`: the pointer for faults of a key. */
function rowOrder (order: readonly Order[], table: Table, placeOf: (index: number) => string, context: QueryContext): RowOrder {
  const own = order.flatMap(({ column: name, ascending = true, nullsFirst = !ascending }, index): OrderKey[] => {
    const operand = findOperand(table, name, placeOf(index), context)
    if (operand === undefined) return []
    const { type } = operand.column
    if (!isOrdered(type)) {
      context.faults.add(placeOf(index), `the column "${name}" has the type ${type}, which PostgreSQL cannot order${orderedInstead(type)}`)
    }
    return [{ operand, ascending, nullsFirst }]
  })
  const named = new Set(own.map(({ operand }) => operand.column.name))
  // The primary key follows the direction of the last key, so that one index serves the whole order, forwards or backwards.
  const ascending = own.at(-1)?.ascending ?? true
  const rest = table.primaryKey.filter((name) => !named.has(name) && !(table.tenantScoped && name === tenantColumn))
  const keys = [
    ...own,
    ...rest.map((name): OrderKey => ({ operand: operandOf(table.columns.get(name)!), ascending, nullsFirst: !ascending }))
  ]
  return {
    id: keys.map((key) => `${quote(key.operand.column.name)}${direction(key)}`).join(', '),
    keys,
    write: (alias) => keys.length === 0 ? '' : writeOrder(keys, alias)
  }
}

/** ` order by ...` */
export function writeOrder (keys: readonly OrderKey[], alias: string): string {
  return ` order by ${keys.map((key) => `${key.operand.write(alias)}${direction(key)}`).join(', ')}`
}

/** `desc`, and the position of nulls unless it is PostgreSQL's default. */
export function direction ({ ascending = true, nullsFirst }: Pick<Order, 'ascending' | 'nullsFirst'>): string {
  const nulls = nullsFirst === undefined || nullsFirst === !ascending ? '' : nullsFirst ? ' nulls first' : ' nulls last'
  return `${ascending ? '' : ' desc'}${nulls}`
}
