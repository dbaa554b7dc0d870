/**
 * The texts of batches of changes. SQL writes them, and processes with watches read them. They are not JSON: escaping the JSON of each
 * row would cost more than reading it. Separators are control characters, which JSON does not contain.
 */
import { tenantRef } from '../../lib/identity/tenant-ref.js'
import type { StoredChange } from '../../lib/realtime/changes.js'

const parts = '\u001f' // of a change
const changes = '\u001e' // of a batch
const fields = '\u001d' // of a batch that was read
const batches = '\u001c'

const chr = (separator: string): string => `chr(${separator.charCodeAt(0)})`

/** SQL for the text of a batch. `nth` orders its changes; `record` and `before` are JSON, `before` may be null. */
export const batchSql = `string_agg(concat_ws(${chr(parts)}, kind, to_json(table_name), cut::int, record, before), ${chr(changes)} order by nth)`

/** SQL for the text of several batches. `more`: whether the range holds further batches of the tenant. */
export const batchesSql = `string_agg(concat_ws(${chr(fields)}, tenant, position, first, more::int, changes), ${chr(batches)} order by tenant, position)`

/** Batches of the changes of tenants. */
export function batchesIn (text: string) {
  return text.split(batches).map((batch) => {
    const [tenant = '', position, first, more, list = ''] = batch.split(fields)
    return {
      tenant: tenantRef(tenant),
      position: Number(position),
      more: more === '1',
      /** Those after a position, up to another. */
      changesBetween: (after: number, head: number): StoredChange[] => changesIn(list, Number(first), after, head)
    }
  })
}

function changesIn (text: string, first: number, after: number, head: number): StoredChange[] {
  const found: StoredChange[] = []
  for (const [index, change] of text.split(changes).entries()) {
    const position = first + index
    if (position <= after) continue
    if (position > head) break
    const [kind, table = '""', cut, record = '{}', before = null] = change.split(parts)
    found.push({ position, table: String(JSON.parse(table)), kind: kind === 'U' || kind === 'D' ? kind : 'I', record, before, cut: cut === '1' })
  }
  return found
}
