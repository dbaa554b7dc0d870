/**
 * The compiled routes that serve at this moment. When the database's tables change they are compiled anew off the
 * request path and swapped in one step; a request that has begun finishes on the routes it began with.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Route } from '../../lib/schema/route.js'
import type { Engine } from '../../lib/database/engine.js'
import type { CompiledRoute, RouteContext } from '../../lib/compiler/route.js'
import { FaultList, formatFault } from '../../lib/schema/faults.js'
import { compileDocument, type CompiledParts } from '../../lib/compiler/document.js'
import { readsByPath } from '../../lib/compiler/precondition.js'
import { documentRoute, type RouteDocumentation } from '../../lib/compiler/documentation.js'

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
