/** Files of deleted rows expire in the statement that deletes them, so no caller reads them. `w` is its part with the deleted rows. */
import { keyColumns, type Table, tenantColumn } from '../database/catalogue.js'
import { literal } from '../database/sql.js'
import { columnOf, type Draft } from './sql.js'

/** `, f as (update ...)`; empty for a table without tenants or without a key. */
export function markFiles (table: Table, draft: Draft): string {
  const keys = keyColumns(table)
  if (!table.tenantScoped || keys.length === 0) return ''
  const [row, file] = [draft.alias(), draft.alias()]
  const id = keys.map((name) => `${columnOf(row, name)}::text`).join(" || ',' || ")
  return `, f as (${markWhere(file, `from w ${row}`, `${columnOf(row, tenantColumn)}::text`, literal(table.name), id)})`
}

/** As `markFiles`, for documents: `w` has their `tenant_id` and `id`. */
export function markDocumentFiles (collection: string, draft: Draft): string {
  const [row, file] = [draft.alias(), draft.alias()]
  return `, f as (${markWhere(file, `from w ${row}`, columnOf(row, tenantColumn), collection, columnOf(row, 'id'))})`
}

function markWhere (file: string, from: string, tenant: string, type: string, id: string): string {
  return `update tenantry.files ${file} set expires_at = now() ${from} ` +
    `where ${file}.tenant_id = ${tenant} and ${file}.entity_type = ${type} and ${file}.entity_id = ${id} and ${file}.status <> 'removed'`
}
