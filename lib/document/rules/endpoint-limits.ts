/** Rules of `rateLimit.perEndpoint`, which name endpoints. A name whose rule would limit nothing is a fault. */
import { type FaultList, nearest, pointerTo } from '../../schema/faults.js'
import type { RateLimit } from '../../schema/limits.js'
import type { Route } from '../../schema/route.js'
import { isTurnedOff, reservedPaths, unlimitedPaths } from '../reserved.js'
import type { Entry } from '../sections.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** The names of routes. The value is the fault of a rule by that name; null if the rule has an effect. */
export type LimitedNames = Map<string, string | null>

/** The routes are the declared ones and those of webhooks. */
export function limitedNames (routes: readonly Entry<Route>[]): LimitedNames {
  const names: LimitedNames = new Map()
  for (const { pointer, value } of routes) {
    const fault = faultOf(value, pointer)
    for (const name of [value.path, `${value.method.toUpperCase()} ${value.path}`]) {
      if (fault === null || !names.has(name)) names.set(name, fault)
    }
  }
  return names
}

/** `off` are the plugins that the document turns off. */
export function checkEndpoints (
  { perEndpoint = {} }: RateLimit,
  routes: readonly Entry<Route>[],
  off: ReadonlySet<string>,
  faults: FaultList
): void {
  const names = limitedNames(routes)
  for (const reserved of reservedPaths) {
    if (isTurnedOff(reserved, off)) continue
    const { path } = reserved
    const fault = unlimitedPaths.has(path) ? 'has no effect: this endpoint has no rate limit' : null
    for (const name of [path, ...methods.map((method) => `${method} ${path}`)]) if (!names.has(name)) names.set(name, fault)
  }
  for (const key of Object.keys(perEndpoint)) {
    const fault = names.get(key)
    if (fault === null) continue
    const at = pointerTo('/rateLimit/perEndpoint', key)
    if (fault !== undefined) faults.add(at, fault)
    else faults.add(at, 'is not a route of this document or a built-in endpoint', nearest(key, names.keys()))
  }
}

function faultOf ({ rateLimit, webhook }: Route, pointer: string): string | null {
  if (rateLimit !== undefined) return 'has no effect: the route has its own `rateLimit`'
  if (webhook === undefined) return null
  return pointer.startsWith('/webhooks/')
    ? 'has no effect: signed calls of an entry of `webhooks` have no rate limit'
    : "has no effect: only the route's own `rateLimit` limits its signed calls"
}
