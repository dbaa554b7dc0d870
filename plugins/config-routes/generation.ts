/**
 * The compiled routes that serve at this moment. When the database's tables change they are compiled anew off the
 * request path and swapped in one step; a request that has begun finishes on the routes it began with.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Route } from '../../lib/config/schema/route.js'
import type { RouteDocumentation } from '../../lib/compiler/documentation.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import type { Engine } from '../../lib/database/engine.js'
import { FaultList, formatFault } from '../../lib/config/faults.js'
import { compileRoute, type CompiledRoute, type RouteContext } from '../../lib/compiler/route.js'

export type GenerationContext = Omit<RouteContext, 'faults' | 'catalogue'>

/** The routes of one document against one database. */
export interface Generation {
  /** The routes as they were compiled first, in the order of the document. */
  readonly routes: readonly CompiledRoute[]
  /** The route that serves now; null for one that the database no longer fits. */
  route (index: number): CompiledRoute | null
  /** The documentation of the route that serves now, or served last where the database no longer fits it. */
  documentation (index: number): RouteDocumentation | undefined
  close (): void
}

/** Compiles every route; a ConfigError holds the faults of all of them. */
export function createGeneration (declared: readonly Route[], context: GenerationContext, engine: Engine, log: FastifyBaseLogger): Generation {
  const faults = new FaultList()
  const compile = (route: Route, index: number, catalogue: Catalogue, list: FaultList) =>
    compileRoute(route, `/routes/${index}`, { ...context, catalogue, faults: list })

  let current = declared.map((route, index) => compile(route, index, engine.catalogue, faults))
  faults.throwIfAny()
  const routes = current.filter((route) => route !== null)
  const latest = [...routes]

  const end = engine.onCatalogue((catalogue) => {
    current = declared.map((route, index) => {
      const list = new FaultList()
      const compiled = compile(route, index, catalogue, list)
      if (compiled !== null) latest[index] = compiled
      for (const fault of list.faults) log.error(`the database no longer fits a route: ${formatFault(fault)}`)
      return compiled
    })
  })

  return {
    routes,
    route: (index) => current[index] ?? null,
    documentation: (index) => latest[index]?.documentation,
    close: end
  }
}
