/** Values of a row that a query can name: columns, and paths in JSON columns. */
import type { Column, Table } from '../database/catalogue.js'
import { type QueryContext, findColumn } from './context.js'
import { columnOf } from './identifiers.js'
import { type JsonPath, readPath, startsPath, writePath } from './json-path.js'

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

/** The column or path of that text; undefined after a fault. A column takes precedence, whatever characters its name has. */
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
