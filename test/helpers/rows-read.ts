/** The number of rows that statements read: a statement whose cost is bounded reads few of a large table. */
import { CompiledQuery, type Kysely, type RootOperationNode } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'

interface Node {
  readonly 'Relation Name'?: string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly Plans?: readonly Node[]
}

/**
 * Runs the work, then each of its statements once more under `explain analyze`, except inserts. Resolves with the most rows of tables that
 * one statement read, with those that it dropped.
 */
export async function rowsRead (db: Kysely<SystemTables>, work: (db: Kysely<SystemTables>) => Promise<unknown>): Promise<number> {
  const nodes: RootOperationNode[] = []
  await work(db.withPlugin({
    transformQuery ({ node }) {
      nodes.push(node)
      return node
    },
    transformResult: async ({ result }) => result
  }))
  let most = 0
  for (const node of nodes) {
    const { sql, parameters } = db.getExecutor().compileQuery(node, { queryId: '' })
    if (sql.startsWith('insert')) continue
    const { rows: [row] } = await db.executeQuery<{ 'QUERY PLAN': [{ Plan: Node }] }>(
      CompiledQuery.raw(`explain (analyze, format json) ${sql}`, [...parameters])
    )
    if (row !== undefined) most = Math.max(most, rowsOf(row['QUERY PLAN'][0].Plan))
  }
  return most
}

function rowsOf (node: Node): number {
  const { 'Actual Rows': rows = 0, 'Actual Loops': loops = 1, Plans = [] } = node
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  const own = node['Relation Name'] === undefined ? 0 : (rows + removed) * loops
  return Plans.reduce((sum, plan) => sum + rowsOf(plan), own)
}
