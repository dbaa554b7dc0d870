/**
 * Cursors mark the position of the next page. A cursor holds the order's column values of one row, in PostgreSQL's text form; its
 * caller has seen them in that row (`checkVisible`). A cursor only adds conditions to the query. Even a forged one gives only
 * rows that the query gives this caller anyway.
 */
import { hash } from 'node:crypto'
import type { Scope } from '../expressions/types.js'
import { tenantOrPlatform } from '../identity/tenant-ref.js'
import { jsonIn } from '../json/plain-value.js'
import { isStorable } from '../json/storable.js'
import type { Query } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import type { QueryContext } from './context.js'
import type { RowOrder } from './order.js'

/** Characters of a cursor: together with the rest of the URL they fit Node.js's 16 KB for headers. */
export const maxCursorLength = 4096
const tagLength = 16 // characters of the hash that identifies the cursor's list
const maxTags = 1000 // per list
const path = '/query/cursor'

/** The maximum columns of an order besides the primary key; each may add a part to the statement. */
const maxKeys = 5

/** Reports the faults that lists of rows and of documents share. `nouns`: a record, and the keys of an order. */
export function checkCursorQuery (
  { limit, order }: Pick<Query, 'limit' | 'order'>,
  [record, keys]: readonly [string, string],
  pointer: string,
  { faults, listRoute }: QueryContext
): void {
  if (listRoute === undefined) faults.add(pointer, 'the query string of a route can have only one `cursor`: use it in a route with one query')
  if (limit === 0) faults.add(pointer, `a page with a cursor must have at least one ${record}: set \`limit\``)
  const count = order === undefined ? 0 : [order].flat().length
  if (count > maxKeys) faults.add(pointer, `a cursor can contain at most ${maxKeys} ${keys} of an order, but this order has ${count}`)
}

/** A cursor reveals the values of its order, and a forged one can probe any value. Therefore every record must show these members. */
export function reportHidden (hidden: readonly string[], record: string, keys: string, pointer: string, { faults }: QueryContext): void {
  if (hidden.length === 0) return
  const names = hidden.map((name) => `"${name}"`).join(', ')
  const remedy = `add ${names} to \`select\`, or remove ${names} from \`excludeFields\``
  faults.add(pointer, `a cursor reveals the values of ${keys}, so every ${record} must include them: ${remedy}`)
}

/** The start of a page, and the tag of its list's cursors. */
export interface Position {
  readonly order: RowOrder
  readonly tag: string
  /** The values of the order's columns in the row before the page, with null for a null column; null at the start of the list. */
  readonly after: readonly (string | null)[] | null
}

/** Returns the function that reads a request's position; `list` names the list, such as `GET /articles articles`. */
export function positionReader (list: string, orderOf: (scope: Scope) => RowOrder): (scope: Scope) => Position {
  const known = new WeakMap<Scope, Position>()
  const tags = new Map<string, string>()
  return (scope) => {
    const found = known.get(scope)
    if (found !== undefined) return found
    const order = orderOf(scope)
    const key = `${order.id}\n${tenantOrPlatform(scope.tenant)}`
    // Separates the cursors of different lists, orders and tenants. It is not a secret, and security does not depend on it.
    let tag = tags.get(key)
    if (tag === undefined) {
      if (tags.size >= maxTags) tags.clear()
      tags.set(key, tag = hash('sha256', `${list}\n${key}`, 'base64url').slice(0, tagLength))
    }
    const position = { order, tag, after: Object.hasOwn(scope.query, 'cursor') ? parseCursor(scope.query['cursor'], order, tag) : null }
    known.set(scope, position)
    return position
  }
}

/** Completes the body of a page. The statement writes all but the end: the values of the next cursor follow the last line break. */
export function finishPage (text: string, { tag }: Position): string {
  const end = text.lastIndexOf('\n')
  const values = text.slice(end + 1)
  if (values === '') return `${text.slice(0, end)}null}}`
  const cursor = Buffer.from(tag + values).toString('base64url')
  if (cursor.length > maxCursorLength) {
    throw invalidInput('/query/limit', 'the last row of this page has too long a value for a cursor: use another limit or order', 'maxLength')
  }
  return `${text.slice(0, end)}"${cursor}"}}`
}

function parseCursor (given: unknown, { keys }: RowOrder, tag: string): readonly (string | null)[] {
  if (given === undefined || given === null) throw unknownCursor()
  if (typeof given !== 'string' || given.length > maxCursorLength || !/^[\w-]+$/.test(given)) throw unknownCursor()
  const text = Buffer.from(given, 'base64url').toString()
  if (!text.startsWith(tag)) throw invalidInput(path, 'is not a cursor of this list and this order: start without one', 'format')
  const values = valuesIn(text.slice(tagLength))
  const misfits = values?.length !== keys.length || keys.some(({ operand }, index) => operand.column.notNull && values[index] === null)
  if (misfits) throw unknownCursor()
  return values
}

function valuesIn (text: string): (string | null)[] | null {
  const values = jsonIn(text)
  const isFit = Array.isArray(values) && values.every((value) => value === null || (typeof value === 'string' && isStorable(value)))
  return isFit ? values : null
}

/** The error for a text that is not a cursor of this list. */
export function unknownCursor (): Error {
  return invalidInput(path, 'is not a valid cursor: send `pagination.next` unchanged, or start without one', 'format')
}
