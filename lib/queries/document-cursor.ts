/**
 * `pagination: "cursor"` of documents, on both stores. The keys of the order are fields as JSON, with the id last; a cursor holds
 * their JSON texts.
 */
import type { Scope } from '../expressions/types.js'
import { parseJson } from '../json/parse.js'
import { isStorableJson } from '../json/storable.js'
import { type TypedFault, withNormalTypes } from '../json/typed-values.js'
import { pointerTo } from '../schema/faults.js'
import type { DocumentQuery } from '../schema/query.js'
import type { QueryContext } from './context.js'
import { type Position, positionReader, unknownCursor } from './cursor.js'
import { maxKeys } from './cursor-pages.js'
import { idOperand, isFieldPath, jsonFieldOf } from './document-field.js'
import { direction, type OrderKey, type RowOrder } from './order.js'

export interface DocumentCursors {
  readonly order: RowOrder
  /** Throws `validationFailed` if the text is not a cursor of the list. */
  readonly read: (scope: Scope) => Position
  /** Members of its records whose values a cursor reveals. */
  readonly members: readonly string[]
}

/** Compiles the cursors of a list and reports their faults; undefined for offset pages. */
export function compileDocumentCursors (
  query: DocumentQuery,
  pointer: string,
  context: QueryContext,
  { select, excluded }: { readonly select: readonly string[] | null, readonly excluded: readonly string[] }
): DocumentCursors | undefined {
  if (query.operation !== 'query' || query.pagination !== 'cursor') return undefined
  const { faults, listRoute } = context
  const at = pointerTo(pointer, 'pagination')
  if (listRoute === undefined) faults.add(at, 'the query string of a route can have only one `cursor`: use it in a route with one query')
  if (query.limit === 0) faults.add(at, 'a page with a cursor must have at least one document: set `limit`')
  const given = query.order === undefined ? [] : [query.order].flat()
  if (given.length > maxKeys) faults.add(at, `a cursor can contain at most ${maxKeys} fields of an order, but this order has ${given.length}`)
  const order = orderOf(given)
  const members = [...new Set([...given.map(({ column }) => column.split('.')[0] ?? column), 'id'])]
  const hidden = members.filter((name) => excluded.includes(name) || (name !== 'id' && select !== null && !select.includes(name)))
  if (hidden.length > 0) {
    const names = hidden.map((name) => `"${name}"`).join(', ')
    faults.add(
      at,
      `a cursor reveals the values of the order and the id, so every document must include them: add ${names} to \`select\`, or remove ${names} from \`excludeFields\``
    )
  }
  const read = positionReader(`${listRoute ?? ''} ${query.alias ?? query.collection ?? ''}`, () => order)
  return {
    order,
    members,
    read: (scope) => {
      const position = read(scope)
      for (const [index, { operand }] of order.keys.entries()) {
        const text = position.after?.[index] ?? null
        if (operand !== idOperand && text !== null) cursorValue(text)
      }
      return position
    }
  }
}

/** The JSON value in a cursor. Throws `validationFailed` if the text is not JSON. */
export function cursorValue (text: string): unknown {
  const faults: TypedFault[] = []
  const value = withNormalTypes(parsed(text), faults)
  if (faults.length > 0) throw unknownCursor()
  return value
}

function parsed (text: string): unknown {
  if (!isStorableJson(text)) throw unknownCursor()
  try {
    return parseJson(text)
  } catch {
    throw unknownCursor()
  }
}

function orderOf (given: ReadonlyArray<{ column: string, ascending?: boolean, nullsFirst?: boolean }>): RowOrder {
  const own = given.filter(({ column }) => isFieldPath(column)).map(({ column, ascending = true, nullsFirst = !ascending }): OrderKey => {
    if (column === 'id') return { operand: idOperand, ascending, nullsFirst }
    const field = jsonFieldOf(column)
    const json = { name: column, type: 'jsonb', notNull: false, hasDefault: false, generated: false }
    return { operand: { column: json, source: json, write: (alias) => `(${field(alias)})` }, ascending, nullsFirst }
  })
  const ascending = own.at(-1)?.ascending ?? true
  const keys = own.some(({ operand }) => operand === idOperand) ? own : [...own, { operand: idOperand, ascending, nullsFirst: !ascending }]
  return {
    id: keys.map((key) => `${key.operand.column.name}${direction(key)}`).join(', '),
    keys,
    write: (alias) => ` order by ${keys.map((key) => `${key.operand.write(alias)}${direction(key)}`).join(', ')}`
  }
}
