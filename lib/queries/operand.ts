/** Values of a row that a query can name: columns, and paths in JSON columns. */
import type { Column, Table } from '../database/catalogue.js'
import { literal } from '../database/sql.js'
import { isStorable } from '../json/storable.js'
import { findColumn, type QueryContext } from './context.js'
import { columnOf } from './sql.js'

export interface Operand {
  /** The value as a column: `data->>'city'` is a column of that name and of the type text. */
  readonly column: Column
  /** The table's column that contains it. */
  readonly source: Column
  /** Its SQL for the row of an alias. */
  readonly write: (alias: string) => string
  /** For a path that ends in jsonb: its JSON, or, with `text`, its text. */
  readonly json?: (alias: string, text?: boolean) => string
}

export function operandOf (column: Column): Operand {
  return { column, source: column, write: (alias) => columnOf(alias, column.name) }
}

/** The value at a path in a column; undefined after a fault. */
export function pathOperand (
  source: Column,
  path: JsonPath,
  text: string,
  table: Table,
  pointer: string,
  { faults }: QueryContext
): Operand | undefined {
  if (source.type !== 'json' && source.type !== 'jsonb') {
    faults.add(
      pointer,
      `\`${text}\` is a path in JSON, but the column "${source.name}" of "${table.name}" has the type ${source.type}: paths require json or jsonb`
    )
    return undefined
  }
  const steps = writePath(path)
  const type = path.text ? 'text' : source.type
  const column: Column = { name: text, type, notNull: false, hasDefault: false, generated: false }
  const write = (alias: string): string => `(${columnOf(alias, source.name)}${steps})`
  if (type !== 'jsonb') return { column, source, write }
  const textSteps = writePath({ ...path, text: true })
  return { column, source, write, json: (alias, text) => text === true ? `(${columnOf(alias, source.name)}${textSteps})` : write(alias) }
}

/** The column or path of that text; undefined after a fault. A column takes precedence, even if its name looks like a path. */
export function findOperand (table: Table, text: string, pointer: string, context: QueryContext): Operand | undefined {
  const start = text.indexOf('->')
  if (start === -1 || table.columns.has(text)) {
    const column = findColumn(table, text, pointer, context)
    return column === undefined ? undefined : operandOf(column)
  }
  const column = findColumn(table, text.slice(0, start).trim(), pointer, context)
  const read = readPath(text, start)
  if ('expected' in read) context.faults.add(pointer, `expected ${read.expected} at character ${read.position + 1}`)
  else if (read.end < text.length) {
    context.faults.add(
      pointer,
      startsPath(text, read.end)
        ? '`->>` returns text, which has no members: write `->` before it'
        : `expected \`->\`, \`->>\` or the end at character ${read.end + 1}`
    )
  } else if (column !== undefined) return pathOperand(column, read.path, text, table, pointer, context)
  return undefined
}

/** Paths into a JSON column, in PostgreSQL's syntax: `->'address'->'lines'->0` is JSON, and a final `->>'city'` is text. */
export interface JsonPath {
  /** Names of object members and indexes of array items; negative indexes count from the end. */
  readonly keys: readonly (string | number)[]
  /** The value is text, not JSON. */
  readonly text: boolean
}

const maxKeys = 10
const arrow = /\s*->(>?)\s*/y
const quotedKey = /'((?:[^']|'')*)'(?!')/y
const index = /-?\d{1,9}(?![\p{L}\p{N}_$'])/uy

export function startsPath (text: string, position: number): boolean {
  return match(arrow, text, position) !== null
}

/** The path, with the position after it; for a text that is not a path, the expectation and its position. */
export function readPath (
  text: string,
  position: number
): { readonly path: JsonPath, readonly end: number } | { readonly expected: string, readonly position: number } {
  const keys: (string | number)[] = []
  let end = position
  for (;;) {
    const step = match(arrow, text, end)
    if (step === null) return { path: { keys, text: false }, end }
    if (keys.length === maxKeys) return { expected: `at most ${maxKeys} keys in a path`, position: end }
    const at = end + step[0].length
    const quoted = match(quotedKey, text, at)
    const place = quoted === null ? match(index, text, at) : null
    const found = quoted ?? place
    if (found === null) {
      return { expected: "a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0`", position: at }
    }
    if (!isStorable(found[0])) return { expected: 'a key without the character NUL (U+0000) or half of a surrogate pair', position: at }
    keys.push(quoted === null ? Number(found[0]) : quoted[1]!.replaceAll("''", "'"))
    end = at + found[0].length
    if (step[1] === '>') return { path: { keys, text: true }, end }
  }
}

/** Appends the path to an expression of a JSON type. */
function writePath ({ keys, text }: JsonPath): string {
  return keys.map((key, index) => `${text && index === keys.length - 1 ? ' ->> ' : ' -> '}${typeof key === 'number' ? key : literal(key)}`)
    .join('')
}

/** The last key that is a name: the default name of the value. */
export function nameOf ({ keys }: JsonPath): string | undefined {
  return keys.findLast((key) => typeof key === 'string')
}

function match (pattern: RegExp, text: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position
  return pattern.exec(text)
}
