/** Compiles the lifetime and the key of a route's cached responses. */
import type { Route } from '../schema/route.js'
import type { TemplateContext } from '../expressions/reference.js'
import type { Reference, Scope } from '../expressions/types.js'
import type { Pagination } from '../schema/root.js'
import { createHash } from 'node:crypto'
import { setting } from '../expressions/environment.js'
import { stringifyJson } from '../json/stringify.js'
import { version } from '../version.js'
import { compileCacheKey, type CacheTarget } from './cache-key.js'
import { methodOf } from './route-parts.js'

export interface CompiledCache {
  readonly ttlMs: number
  readonly key: (scope: Scope, target: CacheTarget) => string
}

/** The document's cache settings, and other settings that a response depends on. */
export interface CacheContext {
  readonly cache: { readonly enabled: boolean, readonly ttl: number }
  readonly pagination: Pagination
}

/**
 * Compiles a route's `cache`. Returns null if the route has none, if the route or the document disables it, or after faults.
 * Disabled members are checked too, so that enabling them finds no new faults.
 */
export function compileCache (
  route: Route,
  references: readonly Reference[],
  pointer: string,
  { cache: document, pagination }: CacheContext,
  context: TemplateContext
): CompiledCache | null {
  const { cache } = route
  if (cache === undefined) return null
  const method = methodOf(route)
  if (method !== 'GET') {
    context.faults.add(`${pointer}/cache`, 'only a `get` route can be cached')
    return null
  }
  if (writes(route)) context.faults.add(`${pointer}/cache`, 'a route that writes cannot be cached: a cached response would skip the write')
  const key = compileCacheKey(cache, references, `${pointer}/cache`, context, `${method} ${route.path}`)
  if (!cache.enabled || !document.enabled) return null
  // Computed for the first request, because not every compiled route serves one.
  let print: string | undefined
  return {
    ttlMs: (cache.ttl ?? document.ttl) * 1000,
    key: (scope, target) => (print ??= fingerprint(route, pagination, context)) + key(scope, target)
  }
}

function writes ({ queries = [], firebaseQueries = [] }: Route): boolean {
  return queries.some(({ operation }) => operation !== 'select' && operation !== 'call') ||
    firebaseQueries.some(({ operation }) => operation !== 'get' && operation !== 'query')
}

/**
 * Identifies the settings that determine a route's responses. A cache outlives the process: without the fingerprint, a new
 * process whose route hides a field would serve the old responses.
 */
function fingerprint (route: Route, pagination: Pagination, { env }: TemplateContext): string {
  const text = stringifyJson(route)
  const settings = [...text.matchAll(/\benv\.(\w+)/g)].map(([, name = '']) => [name, setting(env, name)])
  return createHash('sha256').update(stringifyJson([version, text, pagination, settings])).digest('base64url').slice(0, 16)
}
