/** `pagination: "cursor"`: pages that start after the last row of the previous page. */
import type { Scope } from '../expressions/types.js'
import type { Field } from '../schema/route.js'
import { invalidInput } from '../validation/detail.js'
import type { BoundQuery } from './compiled-query.js'
import type { QueryContext } from './context.js'
import { checkCursorQuery, finishPage, maxCursorLength, type Position, positionReader, reportHidden } from './cursor.js'
import { type Operand, operandOf } from './operand.js'
import type { CompiledOperation } from './operation.js'
import type { OrderKey, Orders, RowOrder } from './order.js'
import type { Page } from './page.js'
import { type CursorPage, type Part, writeCursorPage } from './read.js'
import { type Binder, compileVariants, type Draft, type Switch } from './sql.js'
import type { Subject } from './subject.js'

/** Compiles cursor pages; after faults, the result is not used. */
export function compileCursorPages (
  subject: Subject,
  orders: Orders,
  page: Page,
  pointer: string
): Omit<CompiledOperation, 'missing' | 'references'> {
  const { query, table, context, switches } = subject
  checkCursorQuery(query, ['row', 'columns'], pointer, context)
  if (table.primaryKey.length === 0) context.faults.add(pointer, `"${table.name}" has no primary key to mark the end of a page`)
  return {
    resultKind: 'cursorPage',
    parameters: { ...orders.parameters, ...cursorParameters },
    cursorMembers: checkVisible(subject, orders, pointer),
    bind: bindCursorPages({
      origin: context.origin,
      switches,
      usual: orders.usual,
      read: positionReader(`${context.listRoute ?? ''} ${query.alias ?? table.name}`, orders.choose),
      page,
      write: (written, draft) => writeCursorPage(subject, written, draft)
    })
  }
}

export function cursorLimit (page: Page, scope: Scope): number {
  const asked = page.limit(scope)
  if (asked === 0) throw invalidInput('/query/limit', 'must be at least 1 with a cursor, which continues after a row', 'minimum')
  return asked
}

interface BindParts {
  readonly origin: QueryContext['origin']
  readonly switches: readonly Switch[]
  readonly usual: RowOrder
  readonly read: (scope: Scope) => Position
  readonly page: Page
  readonly write: (written: CursorPage, draft: Draft) => string
}

/** Binds the statement of a page to the requested position. */
export function bindCursorPages ({ origin, switches, usual, read, page, write }: BindParts): (scope: Scope) => BoundQuery {
  const valueOf = valueBinders((scope) => read(scope).after ?? [])
  const limit: Binder = (scope) => cursorLimit(page, scope)
  const use = { origin, isRead: true }
  const variants = compileVariants<{ position: Position, literal: number | undefined }>(use, switches, (draft, chosen) => {
    const { order, after } = chosen?.position ?? { order: usual, after: null }
    return write({
      order,
      limit: chosen?.literal === undefined ? draft.add(limit, 'bigint') : String(chosen.literal),
      after: after === null ? [() => []] : partsAfter(order.keys, 0, shapeOf(after), valueOf)
    }, draft)
  }, {
    choose: (scope) => ({ position: read(scope), literal: page.usual(scope) }),
    keyOf: ({ position: { order, after }, literal }) => `${order.id} ${after === null ? '' : shapeOf(after)} ${literal ?? ''}`
  })
  return (scope) => {
    const { statement, values } = variants(scope)
    return { statement, values, finish: (text) => finishPage(text, read(scope)) }
  }
}

export const cursorParameters: Readonly<Record<string, Field>> = {
  limit: { type: 'integer', minimum: 1, maximum: 2_147_483_647, description: 'The maximum number of records per page.' },
  cursor: {
    type: 'string',
    minLength: 1,
    maxLength: maxCursorLength,
    description: 'The `pagination.next` of the previous page. Default: the first page.'
  }
}

/** The members that show the columns of the orders. */
function checkVisible ({ reduced, table, context }: Subject, orders: Orders, pointer: string): readonly string[] {
  const shown = new Map(reduced.fields.flatMap((field) => {
    const operand = field.kind === 'column' ? operandOf(field.column) : field.kind === 'path' ? field.operand : undefined
    return operand === undefined ? [] : [[operand.write(''), field.name] as const]
  }))
  const operands = orders.all.flatMap(({ keys }) => keys.map(({ operand }) => operand))
  const memberOf = ({ source, write }: Operand): string | undefined => shown.get(write('')) ?? shown.get(operandOf(source).write(''))
  const hidden = [...new Set(operands.filter((operand) => memberOf(operand) === undefined).map(({ column }) => column.name))]
  reportHidden(hidden, 'record', `the order and of the primary key of "${table.name}"`, pointer, context)
  return [...new Set(operands.flatMap((operand) => memberOf(operand) ?? []))]
}

// Finds the rows after a position in an order by an index. Consecutive parts each have conditions for one range of the order. An order
// with one direction and without nulls needs one part.

/** The nulls of the position, which determine the text of a statement. */
function shapeOf (after: readonly (string | null)[]): string {
  return after.map((value) => value === null ? 'n' : 'v').join('')
}

/** Reads the value of one key. */
type ValueOf = (index: number) => Binder

/** Returns a function with one binder per key, so that a statement has one placeholder for each. */
function valueBinders (read: (scope: Scope) => readonly (string | null)[]): ValueOf {
  const binders: Binder[] = []
  return (index) => {
    binders[index] ??= (scope) => read(scope)[index]
    return binders[index]
  }
}

/** The parts after a position, from the key of the index on, in the order of their rows; empty if no row can follow. */
function partsAfter (keys: readonly OrderKey[], index: number, shape: string, valueOf: ValueOf): Part[] {
  const key = keys[index]
  if (key === undefined) return []
  const { column: { type, notNull }, write: column } = key.operand
  if (shape[index] === 'n') {
    const same = partsAfter(keys, index + 1, shape, valueOf).map(
      (part): Part => (alias, draft) => [`${column(alias)} is null`, ...part(alias, draft)]
    )
    return key.nullsFirst ? [...same, (alias) => [`${column(alias)} is not null`]] : same
  }
  if (isRange(keys, index, shape)) return [(alias, draft) => [compareRest(keys, index, valueOf, alias, draft)]]
  const value = (draft: Draft): string => draft.add(valueOf(index), type)
  const same = partsAfter(keys, index + 1, shape, valueOf).map(
    (part): Part => (alias, draft) => [`${column(alias)} = ${value(draft)}`, ...part(alias, draft)]
  )
  const further: Part = (alias, draft) => [`${column(alias)} ${key.ascending ? '>' : '<'} ${value(draft)}`]
  const nulls: Part[] = notNull || key.nullsFirst ? [] : [(alias) => [`${column(alias)} is null`]]
  return [...same, further, ...nulls]
}

/** Whether one row comparison is enough: all keys have the same direction and a value, and no nulls follow. */
function isRange (keys: readonly OrderKey[], index: number, shape: string): boolean {
  const { ascending } = keys[index]!
  return keys.slice(index).every((key, place) =>
    key.ascending === ascending && shape[index + place] === 'v' && (key.operand.column.notNull || key.nullsFirst)
  )
}

function compareRest (keys: readonly OrderKey[], index: number, valueOf: ValueOf, alias: string, draft: Draft): string {
  const rest = keys.slice(index)
  const columns = rest.map(({ operand }) => operand.write(alias))
  const values = rest.map(({ operand }, place) => draft.add(valueOf(index + place), operand.column.type))
  const sign = rest[0]!.ascending ? '>' : '<'
  return rest.length === 1 ? `${columns[0]} ${sign} ${values[0]}` : `(${columns.join(', ')}) ${sign} (${values.join(', ')})`
}
