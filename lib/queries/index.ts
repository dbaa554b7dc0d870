/** Compiles a route's queries to SQL. PostgreSQL builds the JSON: a statement returns at most one row with one text, the whole body. */
import { keyColumns } from '../database/catalogue.js'
import type { Query, TableOperation } from '../schema/query.js'
import { compileCall } from './call.js'
import type { CompiledQuery } from './compiled-query.js'
import { findTable, type QueryContext, uniqueReferences } from './context.js'
import { hasEmbeds } from './embed.js'
import { excludedMembers, namesOf } from './field.js'
import { compileInsert } from './insert-operation.js'
import { checkMembers, type CompiledOperation } from './operation.js'
import { recordSchema, tableInput } from './record-schema.js'
import { isOneRow } from './row-key.js'
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
  return Object.freeze(new TableQuery(query, subject, operation))
}

/** Members for the documentation and for faults only are computed on demand. */
class TableQuery implements CompiledQuery {
  readonly store = 'sql'
  readonly key: string
  readonly table: string
  readonly write: boolean
  readonly tenantScoped: boolean
  readonly reads: CompiledQuery['reads']
  readonly writes: CompiledQuery['writes']
  readonly missing: CompiledQuery['missing']
  readonly status: CompiledQuery['status']
  readonly resultKind: CompiledQuery['resultKind']
  readonly ofOneRow: boolean
  readonly references: CompiledQuery['references']
  readonly inputPointers: CompiledQuery['inputPointers']
  readonly checkedColumns: NonNullable<CompiledQuery['checkedColumns']>
  readonly parameters: CompiledQuery['parameters']
  readonly cursorMembers: CompiledQuery['cursorMembers']
  readonly bind: CompiledQuery['bind']
  readonly #subject: Subject

  constructor ({ alias, operation: kind }: Query, subject: Subject, operation: CompiledOperation) {
    const { table, full, filters, context: { catalogue } } = subject
    this.key = alias ?? table.name
    this.table = table.name
    this.write = kind !== 'select'
    this.tenantScoped = subject.tenantScoped || (operation.tenantKeys ?? []).length > 0
    this.reads = readsOf(full, catalogue)
    this.writes = kind === 'select' ? [] : writesOf(table, kind === 'delete' ? 'delete' : 'update', catalogue)
    this.missing = operation.missing
    this.status = kind === 'insert' ? 201 : 200
    this.resultKind = operation.resultKind
    this.ofOneRow = kind === 'select' && operation.resultKind === 'record' && full.grouped !== true && isOneRow(filters, table) &&
      !hasEmbeds(full) && !table.view
    this.references = Object.freeze(uniqueReferences(operation.references))
    this.inputPointers = operation.inputPointers ?? new Map()
    this.checkedColumns = operation.tenantKeys?.map(({ columns }) => columns) ?? []
    this.parameters = operation.parameters ?? {}
    this.cursorMembers = operation.cursorMembers ?? []
    this.bind = operation.bind
    this.#subject = subject
  }

  get record () {
    return recordSchema(this.#subject.reduced)
  }

  get input () {
    return tableInput(this.#subject).input
  }

  get bulk () {
    return tableInput(this.#subject).bulk
  }

  get excluded () {
    const { full, excluded } = this.#subject
    return excluded.size === 0 ? excluded : new Set([...excluded, ...excludedMembers(full, excluded)])
  }

  get rowKey () {
    return rowKeyOf(this.#subject)
  }

  get fields () {
    return namesOf(this.#subject.full)
  }
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
