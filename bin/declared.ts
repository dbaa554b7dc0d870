/** Compiles the routes and workflows of a document against the tables that it declares, without a database. */
import type { Config } from '../lib/configuration/index.js'
import type { FurtherCheck } from '../lib/configuration/normalize.js'
import type { Query } from '../lib/schema/query.js'
import type { Route } from '../lib/schema/route.js'
import type { Step } from '../lib/schema/workflow.js'
import type { QueryContext } from '../lib/queries/index.js'
import type { Catalogue } from '../lib/database/catalogue.js'
import { compileQuery } from '../lib/queries/index.js'
import { pathParameters, sourcesOf } from '../lib/compiler/route-parts.js'
import { compileRoute } from '../lib/compiler/route.js'
import { FaultList, pointerTo } from '../lib/schema/faults.js'
import { unknownConnectors } from '../lib/connectors/index.js'
import { fileRulesOf } from '../lib/files/rules.js'
import { storageStep } from '../lib/workflows/storage-step.js'
import { wantedTables, withDeclared } from '../lib/database/declared-tables.js'
import { everyStep } from '../lib/workflows/every-step.js'
import { llmStep } from '../lib/workflows/llm-step.js'
import { createWorkflowSet, workflowsOf } from '../lib/workflows/index.js'

/** A table that a route names and the document does not declare. */
export interface UndeclaredTable {
  readonly pointer: string
  readonly table: string
}

/**
 * A check that adds the faults of every route on declared tables to those of its document. Queries on other tables
 * cannot be judged here: those tables are in `undeclared` after it. The embedded engine has no tables but declared ones.
 * Nor can calls of functions, whose results only the database knows.
 */
export function declaredCheck (): { undeclared: readonly UndeclaredTable[], further: FurtherCheck } {
  const undeclared: UndeclaredTable[] = []
  return {
    undeclared,
    further (config, routes, { faults, env }) {
      // Of a table whose declaration is wrong nothing is known.
      if (faults.faults.some(({ pointer }) => pointer.startsWith('/tables'))) return
      const catalogue = withDeclared(
        { schema: config.database.postgres?.schema ?? 'public', tables: new Map() },
        wantedTables(config.tables)
      )
      const found = new FaultList()
      const fileRules = fileRulesOf(config.files, config.plugins.files === false)
      // What they call was judged with the rest of their texts.
      const context = {
        faults: found,
        catalogue,
        env,
        pagination: config.pagination,
        sharedTables: new Set(config.tenancy.sharedTables),
        overridableEnv: new Set(config.tenancy.overridableEnv),
        origin: 'platform' as const,
        connectors: unknownConnectors,
        fileRules,
        stepKinds: { ...fileRules !== null && { storage: storageStep }, ...config.agent?.llm !== undefined && { llm: llmStep } }
      }
      const workflows = createWorkflowSet(workflowsOf(config.workflows), context)
      for (const [index, { id, steps }] of config.workflows.entries()) {
        const unknown = unknownTables(tableSteps(steps), catalogue, config)
        undeclared.push(...unknown.map((table) => ({ pointer: pointerTo('/workflows', index), table })))
        if (unknown.length === 0 && !hasCall([...everyStep(steps)])) workflows.get(id)
      }
      for (const { pointer, value: route } of routes) {
        const named = config.workflows.find(({ id }) => id === route.workflow?.ref)
        const own = unknownTables([...route.queries ?? [], ...tableSteps(route.workflow?.steps ?? [])], catalogue, config)
        undeclared.push(...own.map((table) => ({ pointer, table })))
        const unknown = [...own, ...unknownTables(tableSteps(named?.steps ?? []), catalogue, config)]
        const steps = [...everyStep([...route.workflow?.steps ?? [], ...named?.steps ?? []])]
        const isKnown = unknown.length === 0 && !hasCall([...route.queries ?? [], ...steps])
        if (isKnown) compileRoute(route, pointer, { ...context, cache: config.cache, workflows })
        else {
          compileKnown(route, pointer, config, {
            ...context,
            sources: sourcesOf(route),
            params: new Set(pathParameters(route.path)),
            excludeFields: route.excludeFields ?? [],
            softDelete: route.softDelete
          })
        }
      }
      const reported = new Set(faults.faults.map(({ pointer, message }) => `${pointer} ${message}`))
      for (const fault of found.faults) {
        if (!reported.has(`${fault.pointer} ${fault.message}`)) faults.add(fault.pointer, fault.message, fault.suggestion)
      }
    }
  }
}

function hasCall (queries: ReadonlyArray<{ readonly operation?: string | undefined }>): boolean {
  return queries.some(({ operation }) => operation === 'call')
}

/** The queries that are on declared tables only; any name of a result is accepted, since the others make some. */
function compileKnown (route: Route, pointer: string, config: Config, context: QueryContext): void {
  for (const [index, query] of (route.queries ?? []).entries()) {
    if (!hasCall([query]) && unknownTables([query], context.catalogue, config).length === 0) compileQuery(query, pointerTo(pointer, 'queries', index), context)
  }
}

const embed = /([A-Za-z_]\w*)\s*(?:![A-Za-z_]\w*\s*)*\(/g

/** The steps of a workflow that are on tables. */
function tableSteps (steps: readonly Step[]): Pick<Query, 'table' | 'select'>[] {
  return [...everyStep(steps)].flatMap(({ table, select }) => table === undefined ? [] : [{ table, ...select !== undefined && { select } }])
}

/** Tables that queries read or write and the document does not declare, those that `select` embeds among them. */
function unknownTables (queries: ReadonlyArray<Pick<Query, 'table' | 'select'>>, catalogue: Catalogue, { database }: Config): string[] {
  if (database.provider === 'embedded') return []
  const names = queries.flatMap((
    { table, select = '' }
  ) => [...table === undefined ? [] : [table], ...[...select.matchAll(embed)].map(([, name = '']) => name)])
  return [...new Set(names)].filter((table) => !catalogue.tables.has(table))
}
