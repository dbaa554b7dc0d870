/**
 * The compiled routes that serve now. When the database's tables change, all routes are recompiled off the request path and
 * swapped in one step. A request in progress finishes on the routes it started with.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Route } from '../../lib/schema/route.js'
import type { Engine } from '../../lib/database/engine.js'
import type { CompiledRoute, RouteContext } from '../../lib/compiler/route.js'
import { FaultList, formatFault } from '../../lib/schema/faults.js'
import { compileDocument, type CompiledParts } from '../../lib/compiler/document.js'
import { readsByPath } from '../../lib/compiler/precondition.js'
import { documentRoute, type RouteDocumentation } from '../../lib/compiler/documentation.js'

/** The routes of one document, compiled against one database. */
export interface Generation {
  /** Each route's declaration and its first compilation, in the order of the document. */
  readonly routes: ReadonlyArray<{ readonly declared: Route, readonly compiled: CompiledRoute }>
  /** The route that serves now; null if it no longer fits the database. */
  route(index: number): CompiledRoute | null
  /** The `GET` route that serves now on the same path; null if there is none. */
  readOnPath(index: number): CompiledRoute | null
  /** The documentation of the route that serves now. If the route no longer fits the database, that of its last working version. */
  documentation(index: number): RouteDocumentation | undefined
  close(): void
}

/** Compiles every route. Throws one ConfigError with the faults of all routes. */
export function createGeneration (
  document: CompiledParts,
  context: Omit<RouteContext, 'faults' | 'catalogue' | 'workflows'>,
  engine: Engine,
  log: FastifyBaseLogger
): Generation {
  const faults = new FaultList()
  let current = compileDocument(document, { ...context, catalogue: engine.catalogue, faults })
  faults.throwIfAny()
  const routes = document.routes.flatMap(({ value }, index) => {
    const compiled = current[index]
    return compiled === null || compiled === undefined ? [] : [{ declared: value, compiled }]
  })
  const latest = [...routes]

  const end = engine.onCatalogue((catalogue) => {
    const found = new FaultList()
    current = compileDocument(document, { ...context, catalogue, faults: found })
    for (const [index, compiled] of current.entries()) if (compiled !== null) latest[index] = { ...routes[index]!, compiled }
    for (const fault of found.faults) log.error(`the database no longer fits the document: ${formatFault(fault)}`)
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
