/** How long and under which key a route's answers are kept. */
import type { Route } from '../config/schema/route.js'
import type { CacheTarget } from './cache-key.js'
import type { TemplateContext } from './reference.js'
import type { Reference, Scope } from './types.js'
import { compileCacheKey } from './cache-key.js'
import { methodOf } from './route-parts.js'

export interface CompiledCache {
  readonly ttlMs: number
  readonly key: (scope: Scope, target: CacheTarget) => string
}

/**
 * Compiles a route's `cache`; null where nothing is kept: it has none, the route or the document turns it off, or
 * faults were added. What is turned off is checked too, so that nobody finds its faults by turning it on.
 */
export function compileCache (route: Route, references: readonly Reference[], pointer: string, document: { readonly enabled: boolean, readonly ttl: number }, context: TemplateContext): CompiledCache | null {
  const { cache } = route
  if (cache === undefined) return null
  const method = methodOf(route)
  if (method !== 'GET') {
    context.faults.add(`${pointer}/cache`, 'only a `get` route can be cached')
    return null
  }
  const key = compileCacheKey(cache, references, `${pointer}/cache`, context, `${method} ${route.path}`)
  return cache.enabled && document.enabled ? { ttlMs: (cache.ttl ?? document.ttl) * 1000, key } : null
}
