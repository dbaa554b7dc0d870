/** Names in SQL: always from the catalogue or the configuration, and always quoted. */
import type { Table } from '../database/catalogue.js'

/** PostgreSQL truncates longer names, and a member would get another name than the requested one. */
export const maxNameBytes = 63

/** A name as a quoted identifier: `we"ird` is `"we""ird"`. */
export function quote (name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function tableName (schema: string, table: Table): string {
  return `${quote(schema)}.${quote(table.name)}`
}

/** A similar name that the table does not use for a column. */
export function freeName ({ columns }: Table, wanted: string): string {
  let name = wanted
  while (columns.has(name)) name += '_'
  return name
}

/** A column of the row of an alias. */
export function columnOf (alias: string, name: string): string {
  return `${alias}.${quote(name)}`
}

/** Whether a member of a response can have the name. */
export function fitsName (name: string): boolean {
  return name.length > 0 && !name.includes('\0') && Buffer.byteLength(name) <= maxNameBytes
}

/**
 * A type to cast to. `format_type` gives some types a name that implies a length of 1, and a cast to that name would truncate the value.
 */
export function castType (type: string): string {
  return type.replace(/^(character|bit)(?=$|\[\])/, (name) => name === 'bit' ? '"bit"' : 'bpchar')
}
