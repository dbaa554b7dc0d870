/** `pagination: "cursor"` of documents, on both stores. Its keys are fields as JSON, the id last; a cursor holds their JSON texts. */
import type { Scope } from '../expressions/types.js'
import { parseJson } from '../json/parse.js'
import { isStorableJson } from '../json/storable.js'
import { type TypedFault, withNormalTypes } from '../json/typed-values.js'
import { pointerTo } from '../schema/faults.js'
import type { DocumentQuery } from '../schema/query.js'
import type { QueryContext } from './context.js'
import { checkCursorQuery, type Position, positionReader, reportHidden, unknownCursor } from './cursor.js'
import { fieldOf, idOperand } from './document-field.js'
import { direction, type OrderKey, type RowOrder, writeOrder } from './order.js'

/** Compiles a list's cursors; undefined for offset pages. A cursor reveals the values of `members`. `read` throws `validationFailed`. */
export function compileDocumentCursors (
  query: DocumentQuery,
  order: RowOrder,
  pointer: string,
  context: QueryContext,
  { select, excluded }: { readonly select: readonly string[] | null, readonly excluded: readonly string[] }
) {
  if (query.operation !== 'query' || query.pagination !== 'cursor') return undefined
  const at = pointerTo(pointer, 'pagination')
  checkCursorQuery(query, ['document', 'fields'], at, context)
  const members = [...new Set(order.keys.map(({ operand }) => operand.column.name.split('.')[0]!))]
  const hidden = members.filter((name) => excluded.includes(name) || (name !== 'id' && select !== null && !select.includes(name)))
  reportHidden(hidden, 'document', 'the order and the id', at, context)
  const read = positionReader(`${context.listRoute ?? ''} ${query.alias ?? query.collection ?? ''}`, () => order)
  return {
    members,
    read: (scope: Scope): Position => {
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

/** The order of a list, with the id last. */
export function compileDocumentOrder (order: DocumentQuery['order'], pointer: string, context: QueryContext): RowOrder {
  const given = order === undefined ? [] : [order].flat()
  const own = given.flatMap(({ column, ascending = true, nullsFirst = !ascending }, index): OrderKey[] => {
    if (column === 'id') return [{ operand: idOperand, ascending, nullsFirst }]
    const field = fieldOf(column, Array.isArray(order) ? pointerTo(pointer, index, 'column') : pointerTo(pointer, 'column'), context)
    if (field === undefined) return []
    const json = { name: column, type: 'jsonb', notNull: false, hasDefault: false, generated: false }
    return [{ operand: { column: json, source: json, write: (alias) => `(${field(alias)})` }, ascending, nullsFirst }]
  })
  const ascending = own.at(-1)?.ascending ?? true
  const keys = own.some(({ operand }) => operand === idOperand) ? own : [...own, { operand: idOperand, ascending, nullsFirst: !ascending }]
  return {
    id: keys.map((key) => `${key.operand.column.name}${direction(key)}`).join(', '),
    keys,
    write: (alias) => writeOrder(keys, alias)
  }
}
