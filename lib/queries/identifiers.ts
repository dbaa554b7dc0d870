/** Names in SQL: always from the catalogue or the configuration, always quoted. */
import type { Table } from '../database/catalogue.js'

/** PostgreSQL cuts longer names, and would answer a member under another name than the one that was asked for. */
export const maxNameBytes = 63

/** A name as a quoted identifier: `we"ird` is `"we""ird"`. */
export function quote (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** A table with its schema. */
export function tableName (schema: string, table: Table): string {
  return `${quote(schema)}.${quote(table.name)}`
}

/** A name like this one that no column of the table has. */
export function freeName ({ columns }: Table, wanted: string): string {
  let name = wanted
  while (columns.has(name)) name += '_'
  return name
}

/** A column of the row that an alias names. */
export function columnOf (alias: string, name: string): string {
  return `${alias}.${quote(name)}`
}

/** Whether a name can be the name of a member of an answer. */
export function fitsName (name: string): boolean {
  return name.length > 0 && !name.includes('\0') && Buffer.byteLength(name) <= maxNameBytes
}

/**
 * A type to cast to. `format_type` prints some types by the name that has a length of 1 when none is given; a cast to
 * that name would cut the value.
 */
export function castType (type: string): string {
  return type.replace(/^(character|bit)(?=$|\[\])/, (name) => name === 'bit' ? '"bit"' : 'bpchar')
}
