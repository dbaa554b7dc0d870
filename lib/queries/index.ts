/** Compiles a route's queries to SQL. PostgreSQL builds the JSON: a statement returns at most one row with one text, the whole body. */
import { keyColumns } from '../database/catalogue.js'
import type { CompiledQuery } from '../expressions/types.js'
import type { Query, TableOperation } from '../schema/query.js'
import { compileCall } from './call.js'
import { findTable, type QueryContext, uniqueReferences } from './context.js'
import { namesOf } from './field.js'
import { compileInsert } from './insert-operation.js'
import { checkMembers, type CompiledOperation } from './operation.js'
import { recordSchema, tableInput } from './record-schema.js'
import { compileSelect } from './select-operation.js'
import { compileSubject, type Subject } from './subject.js'
import { readsOf, writesOf } from './table-use.js'
import { checkQueryTexts, unknownTables } from './unknown-tables.js'
import { compileDelete, compileUpdate } from './update.js'

export type { FirestoreRules, QueryContext } from './context.js'
export { compileDocumentQuery } from './document.js'
export { unknownTables, type QueriedTables } from './unknown-tables.js'

const operations = {
  select: compileSelect,
  insert: compileInsert,
  update: compileUpdate,
  upsert: compileInsert,
  delete: compileDelete
} as const satisfies Record<TableOperation, (subject: Subject) => CompiledOperation | undefined>

/** Compiles a query on a table; null after faults, or if its table is unknown. */
export function compileQuery (query: Query, pointer: string, context: QueryContext): CompiledQuery | null {
  const { faults } = context
  const before = faults.faults.length
  checkMembers(query, pointer, context)
  const { operation: kind } = query
  if (!isKnown(query, context)) {
    checkQueryTexts(query, pointer, context)
    return null
  }
  if (kind === 'call') return compileCall(query, pointer, context)
  if (query.table === undefined) {
    faults.add(pointer, 'a query requires a `table`')
    return null
  }
  const table = findTable(query.table, `${pointer}/table`, context, kind)
  if (table === undefined) checkQueryTexts(query, pointer, context)
  const subject = table === undefined ? undefined : compileSubject(query, table, pointer, context)
  const operation = subject === undefined ? undefined : operations[kind](subject)
  if (table === undefined || subject === undefined || operation === undefined || faults.faults.length > before) return null
  return Object.freeze({
    store: 'sql',
    key: query.alias ?? query.table,
    table: query.table,
    write: query.operation !== 'select',
    tenantScoped: subject.tenantScoped || operation.tenantScoped === true,
    reads: readsOf(subject.full, context.catalogue),
    writes: query.operation === 'select' ? [] : writesOf(table, query.operation === 'delete' ? 'delete' : 'update', context.catalogue),
    missing: operation.missing,
    status: query.operation === 'insert' ? 201 : 200,
    resultKind: operation.resultKind,
    references: Object.freeze(uniqueReferences(operation.references)),
    inputPointers: operation.inputPointers ?? new Map(),
    // Members for the documentation and for faults only are computed on demand.
    get record () {
      return recordSchema(subject.reduced)
    },
    get input () {
      return tableInput(subject).input
    },
    get bulk () {
      return tableInput(subject).bulk
    },
    parameters: operation.parameters ?? {},
    cursorMembers: operation.cursorMembers ?? [],
    get rowKey () {
      return rowKeyOf(subject)
    },
    get fields () {
      return namesOf(subject.full)
    },
    bind: operation.bind
  })
}

/** Whether the catalogue has the query's tables, or is complete, so that a missing table does not exist. */
function isKnown (query: Query, { catalogue }: QueryContext): boolean {
  if (query.operation === 'call') return catalogue.functions !== undefined
  return catalogue.partial !== true || (query.table !== undefined && unknownTables(query, catalogue).length === 0)
}

function rowKeyOf ({ table, full }: Subject): CompiledQuery['rowKey'] {
  const [column, ...others] = keyColumns(table)
  const field = others.length > 0 || full.grouped === true
    ? undefined
    : full.fields.find((each) => each.kind === 'column' && each.column.name === column)
  return column === undefined || field === undefined ? null : { column, member: field.name }
}
