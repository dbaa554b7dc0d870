/** SQL for review: the tables and columns that a migration would add, in one transaction. */
import type { ColumnDefinition, TableDefinition } from '../../schema/table.js'
import type { Table } from '../catalogue.js'
import { type WantedTable, wantedTables } from '../declared-tables.js'
import { identifier, qualified } from '../sql.js'
import { noSecurity, policyStatements } from './policies.js'
import { difference } from './tables.js'

/** Creates the table, with its schema if that is missing, and with policies if it is tenant-scoped. */
export function tableProposal (
  { schema, hasSchema }: { readonly schema: string, readonly hasSchema: boolean },
  name: string,
  definition: TableDefinition
): string {
  const wanted = wantedTable(name, definition)
  return script([
    ...hasSchema ? [] : [`create schema ${identifier(schema)}`],
    ...statementsFor(schema, wanted, undefined),
    ...wanted.tenantScoped ? policyStatements(qualified(schema, name), 'text', noSecurity) : []
  ])
}

/** Adds the missing columns. */
export function columnsProposal (schema: string, table: Table, columns: Readonly<Record<string, ColumnDefinition>>): string {
  return script(statementsFor(schema, wantedTable(table.name, { columns }), table))
}

function statementsFor (schema: string, wanted: WantedTable, existing: Table | undefined): readonly string[] {
  const { made, changes } = difference(wanted, { schema, existing, state: undefined, hasRows: false, concurrent: false })
  return [...made, ...changes.flatMap(({ statements }) => statements)]
}

function wantedTable (name: string, definition: TableDefinition): WantedTable {
  const wanted = wantedTables({ [name]: definition }).get(name)
  if (wanted === undefined) throw new Error(`the table ${name} is not declared`)
  return wanted
}

function script (statements: readonly string[]): string {
  return `begin;\n${statements.map((statement) => `${statement};\n`).join('')}commit;\n`
}
