/**
 * Filters in the form of PostgREST: `filter[title]=eq.Bread`, `filter[id]=in.(1,2)`, `filter[deleted_at]=not.is.null`. The resulting query
 * reads their values by reference; its text contains none.
 */
import type { Column, Table } from '../../lib/database/catalogue.js'
import { parseJson } from '../../lib/json/parse.js'
import { itemType, kindOf } from '../../lib/queries/column-value.js'
import { meant, pointerTo } from '../../lib/schema/faults.js'
import { type Filter, Operator } from '../../lib/schema/query.js'
import { invalidInput } from '../../lib/validation/detail.js'

const maxFilters = 20
const maxLength = 1000 // characters of one
const maxItems = 100 // of a list

/** Parses the filters, one text or several by column; throws `validationFailed` for an invalid one. */
export function readFilters (given: Readonly<Record<string, unknown>>, table: Table) {
  const texts = Object.entries(given).flatMap(([name, texts]) => [texts].flat().map((text) => ({ name, text: String(text) })))
  if (texts.length > maxFilters) throw invalidInput('/query/filter', `must be at most ${maxFilters} filters`, 'maxItems')
  /** Their values are references to `values`, or one of three words. */
  const filters: Filter[] = []
  /** Templates such as `{{body.f0}}` read these. They are parsed already; a template of the query string would parse them again. */
  const values: Record<string, unknown> = {}
  /** The JSON Pointer to each filter, in their order. */
  const places: string[] = []
  /** `title.eq`: the filters without values, for the audit log. */
  const named: string[] = []
  for (const [index, { name, text }] of texts.entries()) {
    const at = placeOf(name)
    const column = columnOf(table, name, at)
    const { operator, negated, value } = partsOf(text, at)
    const read = operator === 'is' ? wordOf(value, at) : `{{body.f${index}}}`
    if (operator !== 'is') values[`f${index}`] = valueOf(operator, column, value, at)
    const filter = { column: name, operator, value: read }
    filters.push(negated ? { not: filter } : filter)
    places.push(at)
    named.push(`${name}.${negated ? 'not.' : ''}${operator}`)
  }
  return { filters, values, places, named }
}

const maxShownName = 100 // characters

function placeOf (name: string): string {
  return pointerTo('', 'query', `filter[${name.length > maxShownName ? `${name.slice(0, maxShownName)}…` : name}]`)
}

function columnOf (table: Table, name: string, at: string): Column {
  const column = table.columns.get(name)
  if (column !== undefined) return column
  throw invalidInput(at, `"${table.name}" has no column with this name${meant(name, table.columns.keys())}`, 'additionalProperties')
}

/** The operators of tables. */
const operators: ReadonlyMap<string, Operator> = new Map(
  Operator.enum.filter((name) => !name.startsWith('array-')).map((name) => [name, name])
)
const form = /^(not\.)?([a-z]+)\.(.*)$/s

function partsOf (text: string, at: string): { operator: Operator, negated: boolean, value: string } {
  if (text.length > maxLength) throw invalidInput(at, `must have at most ${maxLength} characters`, 'maxLength')
  const [, not, name = '', value = ''] = form.exec(text) ?? []
  const operator = operators.get(name)
  if (operator === undefined) {
    throw invalidInput(
      at,
      `must be an operator, a dot and a value, such as "eq.5" or "not.like.a%"; operators are ${[...operators.keys()].join(', ')}`,
      'pattern'
    )
  }
  return { operator, negated: not !== undefined, value }
}

/** Whether it is true for every place of the value. */
export function isFilter (text: unknown): boolean {
  return typeof text === 'string' && operators.has(form.exec(text)?.[2] ?? '')
}

const words: ReadonlyMap<string, boolean | null> = new Map([['null', null], ['true', true], ['false', false]])

function wordOf (text: string, at: string): boolean | null {
  const word = words.get(text)
  if (word === undefined) throw invalidInput(at, `must be one of ${[...words.keys()].map((name) => `"is.${name}"`).join(', ')}`, 'enum')
  return word
}

/** The compared value. A value that does not fit its column is refused when it is bound. */
function valueOf (operator: Exclude<Operator, 'is'>, { name, type }: Column, text: string, at: string): unknown {
  if (operator === 'in') return itemsFor(type, listOf(text, '(', ')', at, `${operator}.(a,"b, with a comma")`), name, at)
  if (operator === 'like' || operator === 'ilike' || operator === 'fts') return text
  if (kindOf(type) === 'array') return itemsFor(itemType(type), listOf(text, '{', '}', at, `${operator}.{a,"b, with a comma"}`), name, at)
  return isJson(type) ? jsonOf(text, name, at) : text
}

function itemsFor (type: string, items: readonly string[], name: string, at: string): readonly unknown[] {
  return isJson(type) ? items.map((item) => jsonOf(item, name, at)) : items
}

/** Whether the values of a column are written as JSON. */
function isJson (type: string): boolean {
  const kind = kindOf(type)
  return kind === 'json' || kind === 'vector'
}

function listOf (text: string, open: string, close: string, at: string, example: string): string[] {
  const items = itemsOf(text, open, close)
  if (items === undefined) throw invalidInput(at, `must be a list, such as ${example}`, 'pattern')
  if (items.length > maxItems) throw invalidInput(at, `must have at most ${maxItems} items`, 'maxItems')
  return items
}

/** The items between the brackets; undefined for no list. Double quotes allow any character, with a backslash before literal ones. */
function itemsOf (text: string, open: string, close: string): string[] | undefined {
  if (text.length < 2 || !text.startsWith(open) || !text.endsWith(close)) return undefined
  const inside = text.slice(1, -1)
  if (inside === '') return []
  const item = /(?:"((?:[^"\\]|\\.)*)"|([^",]*))(,|$)/sy
  const items: string[] = []
  for (;;) {
    const match = item.exec(inside)
    if (match === null) return undefined
    const [, quoted, bare = '', end] = match
    items.push(quoted === undefined ? bare : quoted.replace(/\\(.)/gs, '$1'))
    if (end === '') return items
  }
}

function jsonOf (text: string, name: string, at: string): unknown {
  try {
    return parseJson(text)
  } catch {
    throw invalidInput(at, `the column "${name}" is compared with JSON, such as eq.{"a":1} or eq."text"`, 'pattern')
  }
}
