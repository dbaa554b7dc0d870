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
import { failure } from '../../lib/errors.js'

const recheckAfter = 1000 // ms between looks at a database whose migration is pending, or that a route does not fit
const retryAfter = { 'retry-after': String(recheckAfter / 1000) }

export type GenerationContext = Omit<RouteContext, 'faults' | 'catalogue'>

/** The routes of one document against one database. */
export interface Generation {
  /** The routes as they were compiled first, in the order of the document. */
  readonly routes: readonly CompiledRoute[]
  /** The route that serves now; throws `schemaChanged` for one that the database no longer fits. */
  route (index: number): CompiledRoute
  /** The documentation of the route that serves now, or served last where the database no longer fits it. */
  documentation (index: number): RouteDocumentation | undefined
  /** Resolves at once on a migrated database; throws `migrationPending` on another, looking again once a second. */
  migrated (): true | Promise<true>
  close (): void
}

/** Compiles every route; a ConfigError holds the faults of all of them. */
export async function createGeneration (declared: readonly Route[], context: GenerationContext, engine: Engine, log: FastifyBaseLogger): Promise<Generation> {
  const faults = new FaultList()
  const compile = (route: Route, index: number, catalogue: Catalogue, list: FaultList) =>
    compileRoute(route, `/routes/${index}`, { ...context, catalogue, faults: list })

  let current = declared.map((route, index) => compile(route, index, engine.catalogue, faults))
  faults.throwIfAny()
  const routes = current.filter((route) => route !== null)
  const documentations = routes.map(({ documentation }) => documentation)
  let pending = (await engine.pendingMigrations()).length > 0
  let lookedAt = Date.now()

  const end = engine.onCatalogue((catalogue) => {
    current = declared.map((route, index) => {
      const list = new FaultList()
      const compiled = compile(route, index, catalogue, list)
      if (compiled !== null) documentations[index] = compiled.documentation
      for (const fault of list.faults) log.error(`the database no longer fits a route: ${formatFault(fault)}`)
      return compiled
    })
  })

  async function lookAgain (): Promise<true> {
    if (Date.now() - lookedAt < recheckAfter) throw failure('migrationPending', { headers: retryAfter })
    lookedAt = Date.now()
    if ((await engine.pendingMigrations()).length > 0) throw failure('migrationPending', { headers: retryAfter })
    await engine.refresh()
    pending = false
    return true
  }

  let refreshedAt = 0
  /** The tables may fit again, and no statement of the route runs that would tell. */
  function lookForTables (): void {
    if (Date.now() - refreshedAt < recheckAfter) return
    refreshedAt = Date.now()
    engine.refresh().catch((err: unknown) => log.warn({ err }, 'the tables of the database could not be read again'))
  }

  return {
    routes,
    route (index) {
      const route = current[index]
      if (route === null || route === undefined) {
        lookForTables()
        throw failure('schemaChanged', { headers: retryAfter })
      }
      return route
    },
    documentation: (index) => documentations[index],
    migrated: () => pending ? lookAgain() : true,
    close: end
  }
}
