/** Compiles the routes of a document against the tables that it declares, without a database. */
import type { Config } from '../lib/config/index.js'
import { compileRoute } from '../lib/compiler/route.js'
import { FaultList } from '../lib/config/faults.js'
import { environmentOf } from '../lib/config/index.js'
import { wantedTables, withDeclared } from '../lib/database/declared-tables.js'

/** A table that a route names and the document does not declare. */
export interface UndeclaredTable {
  readonly pointer: string
  readonly table: string
}

/**
 * Throws a ConfigError that holds the faults of every route on declared tables. Routes on others cannot be judged here:
 * those tables are returned. The embedded engine has no tables but declared ones.
 */
export function checkAgainstDeclared (config: Config): UndeclaredTable[] {
  const faults = new FaultList()
  const catalogue = withDeclared({ schema: config.database.postgres?.schema ?? 'public', tables: new Map() }, wantedTables(config.tables))
  const undeclared: UndeclaredTable[] = []
  for (const [index, route] of config.routes.entries()) {
    const pointer = `/routes/${index}`
    const unknown = config.database.provider === 'embedded' ? [] : tablesOf(route).filter((table) => !catalogue.tables.has(table))
    undeclared.push(...unknown.map((table) => ({ pointer, table })))
    if (unknown.length > 0) continue
    compileRoute(route, pointer, {
      faults,
      catalogue,
      env: environmentOf(config),
      pagination: config.pagination,
      sharedTables: new Set(config.tenancy.sharedTables),
      origin: 'platform',
      cache: config.cache
    })
  }
  faults.throwIfAny()
  return undeclared
}

const embed = /([A-Za-z_]\w*)\s*(?:![A-Za-z_]\w*\s*)*\(/g

/** Tables that a route reads or writes, those that `select` embeds among them. */
function tablesOf ({ queries = [] }: Config['routes'][number]): string[] {
  const names = queries.flatMap(({ table, select = '' }) => [...table === undefined ? [] : [table], ...[...select.matchAll(embed)].map(([, name = '']) => name)])
  return [...new Set(names)]
}
