/** Compiles routes against the hand-written library schema, without a server. */
import { documentRoute, type RouteDocumentation } from '../../../lib/compiler/documentation.js'
import { type CompiledRoute, compileRoute } from '../../../lib/compiler/route.js'
import type { RouteContext } from '../../../lib/compiler/route-context.js'
import { FaultList, formatFault } from '../../../lib/schema/faults.js'
import type { Route } from '../../../lib/schema/route.js'
import { library } from '../queries/tables.js'

/** The compiled route. Throws if it has faults. */
export function compile (route: Route, changes: Partial<RouteContext> = {}): CompiledRoute {
  const faults = new FaultList()
  const compiled = compileRoute(route, '/routes/0', contextOf(faults, changes))
  if (compiled === null) throw new Error(faults.faults.map(formatFault).join('\n'))
  return compiled
}

/** The route's entry in `/doc`. */
export function documented (route: Route, changes?: Partial<RouteContext>): RouteDocumentation {
  return documentRoute(route, compile(route, changes))
}

/** The faults of a route, as lines. */
export function faultsOf (route: Route, changes: Partial<RouteContext> = {}): string[] {
  const faults = new FaultList()
  const compiled = compileRoute(route, '/routes/0', contextOf(faults, changes))
  if ((compiled === null) !== (faults.faults.length > 0)) throw new Error('a route is null exactly if it has faults')
  return faults.faults.map(formatFault)
}

function contextOf (faults: FaultList, changes: Partial<RouteContext>): RouteContext {
  return {
    faults,
    catalogue: library(),
    env: {},
    pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 },
    sharedTables: new Set(),
    origin: 'platform',
    cache: { enabled: true, ttl: 60 },
    ...changes
  }
}
