/** Values that a route writes from secrets and never returns: not from the write, not from other queries, not in their `results`. */
import { type Catalogue, keyColumns } from '../database/catalogue.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import { isRecord, mentions } from '../json/plain-value.js'
import { FaultList } from '../schema/faults.js'
import type { DocumentQuery, Query } from '../schema/query.js'
import type { Withheld } from './context.js'
import { columnShownBy, keptFields, type Selection } from './field.js'

const nothingWithheld: Withheld = Object.freeze({ columns: new Map(), fields: new Map() })

/** The columns and fields that the route's queries fill, wholly or in part, from a secret. */
export function withheldBy (
  { queries = [], firebaseQueries = [] }: { readonly queries?: readonly Query[], readonly firebaseQueries?: readonly DocumentQuery[] },
  catalogue: Catalogue,
  context: TemplateContext
): Withheld {
  if (!mayReadSecrets([queries, firebaseQueries], context)) return nothingWithheld
  // Faults are reported when the queries are compiled.
  const within: TemplateContext = { ...context, faults: new FaultList() }
  const isSecret = (value: unknown): boolean => compileValue(value, '', within).references.some(({ source }) => source === 'secret')
  const columns = new Map<string, Set<string>>()
  const fields = new Map<string, Set<string>>()
  for (const query of queries) {
    if (query.table !== undefined) add(columns, query.table, columnsOf(query, catalogue, isSecret))
  }
  for (const { collection, data } of firebaseQueries) {
    if (collection !== undefined) add(fields, collection, membersOf(data, isSecret))
  }
  return { columns, fields }
}

/** Removes the withheld columns at every level, and values that the database may derive from them. */
export function withoutWithheld (selection: Selection, withheld: Withheld | undefined): Selection {
  if (withheld === undefined || withheld.columns.size === 0) return selection
  return keptFields(selection, (field, table) => {
    const held = withheld.columns.get(table.name)
    const column = columnShownBy(field)
    return held === undefined || column === undefined ||
      !(held.has(column.name) || (column.generated && !table.primaryKey.includes(column.name)))
  })
}

/** Most routes refer to no secrets and skip the search. */
function mayReadSecrets (queries: unknown, { overridableEnv }: TemplateContext): boolean {
  return mentions(queries, overridableEnv !== undefined && overridableEnv.size > 0 ? /\b(?:secret|env)\b|\$\{/ : /\bsecret\b/)
}

function columnsOf (
  { table, operation, id, filters = [], data }: Query,
  { tables }: Catalogue,
  isSecret: (value: unknown) => boolean
): string[] {
  const known = tables.get(table ?? '')
  const key = known === undefined || id === undefined ? [] : keyColumns(known)
  return [
    ...operation === 'insert' || operation === 'update' || operation === 'upsert' ? membersOf(data, isSecret) : [],
    ...isRecord(id) ? membersOf(id, isSecret) : id !== undefined && isSecret(id) ? key : [],
    // The filters of an upsert are values of its row; other filters only select rows.
    ...operation === 'upsert' ? filters.flatMap((filter) => 'column' in filter && isSecret(filter.value) ? [filter.column] : []) : []
  ]
}

function membersOf (data: unknown, isSecret: (value: unknown) => boolean): string[] {
  if (Array.isArray(data)) return data.flatMap((item) => membersOf(item, isSecret))
  return isRecord(data) ? Object.entries(data).filter(([, value]) => isSecret(value)).map(([name]) => name) : []
}

function add (map: Map<string, Set<string>>, key: string, names: readonly string[]): void {
  if (names.length > 0) map.set(key, new Set([...map.get(key) ?? [], ...names]))
}
