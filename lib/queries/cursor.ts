/**
 * Cursors: where a list goes on. A cursor holds the values of the order's columns of one row, as PostgreSQL writes them,
 * which its caller has seen in that row (`checkVisible`). It adds conditions to those of the query and never takes any
 * away: whatever a caller makes of it, the rows are those that the query gives this caller anyway.
 */
import type { Scope } from '../expressions/types.js'
import type { RowOrder } from './order.js'
import { createHash } from 'node:crypto'
import { isStorable } from '../json/storable.js'
import { refuse } from './request-path.js'
import { tenantOrPlatform } from '../identity/tenant-ref.js'

/** Characters of a cursor: with the rest of a URL they fit the 16 KB that Node.js takes of headers. */
export const maxCursorLength = 4096
const tagLength = 16 // characters of the hash of what the cursor is for
const maxTags = 1000 // of one list
const path = '/query/cursor'

/** Where a page starts, and what marks the cursors of its list. */
export interface Position {
  readonly order: RowOrder
  readonly tag: string
  /** The values of the order's columns in the row before the page, null for none; null at the start of the list. */
  readonly after: readonly (string | null)[] | null
}

/** The function that reads the position of a request; `list` names the list, such as `GET /articles articles`. */
export function positionReader (list: string, orderOf: (scope: Scope) => RowOrder): (scope: Scope) => Position {
  const known = new WeakMap<Scope, Position>()
  const tags = new Map<string, string>()
  return (scope) => {
    const found = known.get(scope)
    if (found !== undefined) return found
    const order = orderOf(scope)
    const key = `${order.id}\n${tenantOrPlatform(scope.tenant)}`
    let tag = tags.get(key)
    if (tag === undefined) {
      if (tags.size >= maxTags) tags.clear()
      tags.set(key, tag = tagOf(`${list}\n${key}`))
    }
    const position = { order, tag, after: Object.hasOwn(scope.query, 'cursor') ? parseCursor(scope.query['cursor'], order, tag) : null }
    known.set(scope, position)
    return position
  }
}

/** The body of a page, of which the statement wrote all but the end: after the last line break stand the values of the next cursor. */
export function finishPage (text: string, { tag }: Position): string {
  const end = text.lastIndexOf('\n')
  const values = text.slice(end + 1)
  if (values === '') return `${text.slice(0, end)}null}}`
  const cursor = Buffer.from(tag + values).toString('base64url')
  if (cursor.length > maxCursorLength) {
    throw refuse({
      path: '/query/limit',
      message: 'the last row of this page has too long a value to continue after it: ask for another limit or order',
      keyword: 'maxLength'
    })
  }
  return `${text.slice(0, end)}"${cursor}"}}`
}

/** Keeps the cursors of two lists, orders and tenants apart. It is no secret, and nothing depends on that. */
function tagOf (text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, tagLength)
}

function parseCursor (given: unknown, { keys }: RowOrder, tag: string): readonly (string | null)[] {
  if (given === undefined || given === null) throw unknownCursor()
  if (typeof given !== 'string' || given.length > maxCursorLength || !/^[\w-]+$/.test(given)) throw unknownCursor()
  const text = Buffer.from(given, 'base64url').toString()
  if (!text.startsWith(tag)) {
    throw refuse({ path, message: 'is no cursor of this list and this order: start without one', keyword: 'format' })
  }
  const values = valuesIn(text.slice(tagLength))
  const misfits = values?.length !== keys.length || keys.some(({ operand }, index) => operand.column.notNull && values[index] === null)
  if (misfits) throw unknownCursor()
  return values
}

function valuesIn (text: string): (string | null)[] | null {
  try {
    const values: unknown = JSON.parse(text)
    return Array.isArray(values) && values.every((value) => value === null || (typeof value === 'string' && isStorable(value)))
      ? values
      : null
  } catch {
    return null
  }
}

/** The answer to a text that no page gave as its cursor. */
export function unknownCursor (): Error {
  return refuse({ path, message: 'is no cursor: send the text of `pagination.next` as it is, or start without one', keyword: 'format' })
}
