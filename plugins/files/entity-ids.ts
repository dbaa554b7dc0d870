/** The ids of rows in the text that PostgreSQL prints, by which a deleted row finds its files (lib/queries/row-files.ts). */
import { type Catalogue, type Column, keyColumns } from '../../lib/database/catalogue.js'
import { encoderOf, unfit } from '../../lib/queries/column-value.js'
import type { Entity } from './types.js'

/** The id as given, unless the entity is a row whose key PostgreSQL reads in several spellings: a UUID or an integer. */
export function printedId ({ tables }: Catalogue, { type, id }: Entity): string {
  const table = tables.get(type)
  const [key, ...others] = table === undefined ? [] : keyColumns(table)
  const column = key === undefined || others.length > 0 ? undefined : table?.columns.get(key)
  return column === undefined ? id : printed(column, id)
}

function printed (column: Column, id: string): string {
  const isFit = () => encoderOf(column)(id) !== unfit
  switch (column.type) {
    case 'uuid':
      return isFit() ? id.toLowerCase().replaceAll(/[{}-]/g, '').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-') : id
    case 'smallint':
    case 'integer':
    case 'bigint':
      return isFit() ? String(BigInt(id)) : id
    default:
      return id
  }
}
