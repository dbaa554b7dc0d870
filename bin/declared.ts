/** The tables that a document uses without declaring them. */
import type { Config } from '../lib/configuration/index.js'
import { wantedTables, withDeclared } from '../lib/database/declared-tables.js'
import { type QueriedTables, unknownTables } from '../lib/queries/index.js'
import { pointerTo } from '../lib/schema/faults.js'
import { everyStep } from '../lib/workflows/flow.js'

export interface UndeclaredTable {
  readonly pointer: string
  readonly table: string
}

/** Tables of workflows, then tables of routes. The embedded engine has only declared tables. */
export function undeclaredTables ({ database, tables, workflows, routes }: Config): UndeclaredTable[] {
  if (database.provider === 'embedded') return []
  const catalogue = withDeclared({ schema: '', tables: new Map(), partial: true }, wantedTables(tables))
  const at = (pointer: string, queries: readonly QueriedTables[]) =>
    [...new Set(queries.flatMap((query) => unknownTables(query, catalogue)))].map((table) => ({ pointer, table }))
  return [
    ...workflows.flatMap(({ steps }, index) => at(pointerTo('/workflows', index), [...everyStep(steps)])),
    ...routes.flatMap(({ queries = [], workflow }, index) =>
      at(pointerTo('/routes', index), [...queries, ...everyStep(workflow?.steps ?? [])])
    )
  ]
}
