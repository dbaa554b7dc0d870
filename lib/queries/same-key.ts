/** Rejects an upsert with two records for the same row. PostgreSQL would reject it too, but without the record or the key. */
import type { FixedColumn } from './insert.js'
import type { InputRow, WriteInput } from './write-input.js'
import { pointerTo } from '../schema/faults.js'
import { tenantColumn } from '../database/catalogue.js'
import { refuse } from './request-path.js'

/** Compares the values as sent; the database rejects values that only it considers equal. */
export function refuseSameKeys (
  rows: readonly InputRow[],
  conflict: readonly string[],
  { columns, path }: WriteInput,
  fixed: readonly FixedColumn[]
): void {
  const names = conflict.filter((name) => name !== tenantColumn && !fixed.some(({ column }) => column.name === name))
  const indexes = names.map((name) => columns.findIndex(({ column }) => column.name === name))
  const seen = new Map<string, number>()
  for (const [index, { bound }] of rows.entries()) {
    const values = indexes.map((each) => bound[each])
    // A row without a value takes its default, and null equals nothing.
    if (values.some((value) => value === undefined || value === null)) continue
    const key = JSON.stringify(values.map((value, place) => comparable(value, columns[indexes[place]!]?.column.type)))
    const first = seen.get(key)
    if (first === undefined) {
      seen.set(key, index)
      continue
    }
    const message = names.length === 0
      ? 'all records of the request have the same key from the route: send one record'
      : `record ${first} of this request has the same ${names.join(', ')}: send each key once`
    throw refuse(...(names.length === 0 ? [undefined] : names).map((name) => ({
      path: name === undefined ? pointerTo(path, index) : pointerTo(path, index, name),
      message,
      keyword: 'uniqueItems'
    })))
  }
}

function comparable (value: unknown, type: string | undefined): string {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return type === 'uuid' ? text.toLowerCase().replace(/[{}-]/g, '') : text
}
