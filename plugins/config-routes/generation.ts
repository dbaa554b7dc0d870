/**
 * The compiled routes that serve at this moment. When the database's tables change they are compiled anew off the
 * request path and swapped in one step; a request that has begun finishes on the routes it began with.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Route } from '../../lib/schema/route.js'
import type { Workflow } from '../../lib/schema/workflow.js'
import type { Entry } from '../../lib/document/sections.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import type { Engine } from '../../lib/database/engine.js'
import type { WorkflowSet } from '../../lib/workflows/index.js'
import { FaultList, formatFault } from '../../lib/schema/faults.js'
import { rowPathsOf } from '../../lib/compiler/location.js'
import { checkFunctions } from '../../lib/queries/function.js'
import { readsByPath } from '../../lib/compiler/precondition.js'
import { documentRoute, type RouteDocumentation } from '../../lib/compiler/documentation.js'
import { compileRoute, type CompiledRoute, type RouteContext } from '../../lib/compiler/route.js'
import { createWorkflowSet, workflowsOf } from '../../lib/workflows/index.js'

export interface GenerationContext extends Omit<RouteContext, 'faults' | 'catalogue' | 'workflows'> {
  /** Those of the document. */
  readonly declaredWorkflows: readonly Workflow[]
}

/** The routes of one document against one database. */
export interface Generation {
  /** The routes as they were compiled first, with what was declared, in the order of the document. */
  readonly routes: ReadonlyArray<{ readonly declared: Route, readonly compiled: CompiledRoute }>
  /** The route that serves now; null for one that the database no longer fits. */
  route(index: number): CompiledRoute | null
  /** The `GET` route that serves now on the path of the route; null without one. */
  readOnPath(index: number): CompiledRoute | null
  /** The documentation of the route that serves now, or served last where the database no longer fits it. */
  documentation(index: number): RouteDocumentation | undefined
  close(): void
}

/** Compiles every route; a ConfigError holds the faults of all of them. */
export function createGeneration (
  declared: ReadonlyArray<Pick<Entry<Route>, 'pointer' | 'value'>>,
  context: GenerationContext,
  engine: Engine,
  log: FastifyBaseLogger
): Generation {
  const faults = new FaultList()
  const { declaredWorkflows, ...given } = context
  const routeContext = { ...given, rowPaths: rowPathsOf(declared.map(({ value }) => value)) }
  const setOf = (catalogue: Catalogue, list: FaultList) =>
    createWorkflowSet(workflowsOf(declaredWorkflows), { ...routeContext, catalogue, faults: list })
  const compile = (
    { pointer, value }: Pick<Entry<Route>, 'pointer' | 'value'>,
    catalogue: Catalogue,
    list: FaultList,
    workflows: WorkflowSet
  ) => compileRoute(value, pointer, { ...routeContext, catalogue, faults: list, workflows })

  checkFunctions(given.functions ?? {}, engine.catalogue, faults)
  const workflows = setOf(engine.catalogue, faults)
  for (const id of workflows.ids) {
    const index = declaredWorkflows.findIndex((each) => each.id === id && each.schedule !== undefined)
    if (workflows.get(id)?.tenantScoped === true && index !== -1) {
      faults.add(
        `/workflows/${index}/schedule`,
        'a run by schedule has no tenant here, and the workflow works with rows of tenants: give it a schedule in documents of tenants'
      )
    }
  }
  let current = declared.map((route) => compile(route, engine.catalogue, faults, workflows))
  faults.throwIfAny()
  const routes = declared.flatMap(({ value }, index) => {
    const compiled = current[index]
    return compiled === null || compiled === undefined ? [] : [{ declared: value, compiled }]
  })
  const latest = [...routes]

  const end = engine.onCatalogue((catalogue) => {
    const workflows = setOf(catalogue, new FaultList())
    current = declared.map((route, index) => {
      const list = new FaultList()
      const compiled = compile(route, catalogue, list, workflows)
      if (compiled !== null) latest[index] = { declared: route.value, compiled }
      for (const fault of list.faults) log.error(`the database no longer fits a route: ${formatFault(fault)}`)
      return compiled
    })
  })

  const reads = readsByPath(routes.keys(), (index) => routes[index]!.declared)
  const readOf = (index: number) => reads.get(routes[index]!.declared.path) ?? -1

  return {
    routes,
    route: (index) => current[index] ?? null,
    readOnPath: (index) => current[readOf(index)] ?? null,
    documentation (index) {
      const route = latest[index]
      return route === undefined ? undefined : documentRoute(route.declared, route.compiled, latest[readOf(index)]?.compiled)
    },
    close: end
  }
}
