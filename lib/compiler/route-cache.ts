/** Compiles the lifetime and the key of a route's cached responses. Requests with different responses have different keys. */
import { hash } from 'node:crypto'
import type { CompiledCall } from '../connectors/types.js'
import { setting, settingsIn } from '../expressions/environment.js'
import { compileReader, type Reader, type TemplateContext } from '../expressions/reference.js'
import { compilePieces, compileValue } from '../expressions/template.js'
import type { Reference, Scope, TemplateSource } from '../expressions/types.js'
import { stringifyJson } from '../json/stringify.js'
import { pointerTo } from '../schema/faults.js'
import type { Functions } from '../schema/function.js'
import type { Pagination } from '../schema/pagination.js'
import type { Route, RouteCache } from '../schema/route.js'
import { version } from '../version.js'
import { methodOf } from './route-parts.js'

export interface CompiledCache {
  readonly ttlMs: number
  readonly key: (scope: Scope, target: CacheTarget) => string
}

/** The document's settings that a cached response depends on. */
export interface CacheContext {
  /** If disabled, no route is cached. `ttl` is the default of routes, in seconds. */
  readonly cache: { readonly enabled: boolean, readonly ttl: number }
  readonly pagination: Pagination
  /** The SQL functions that the document may call. Default: none. */
  readonly functions?: Functions | undefined
}

/** The compiled parts of a route that its cached responses depend on. */
interface CachedParts {
  readonly references: readonly Reference[]
  readonly integrations: readonly { readonly call: Pick<CompiledCall, 'declared'> }[]
}

/** Compiles a route's `cache`; null for none, if it is disabled, and after faults. Disabled members are checked too. */
export function compileCache (
  route: Route,
  { references, integrations }: CachedParts,
  pointer: string,
  { cache: document, pagination, functions = {} }: CacheContext,
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
    key: (scope, target) => (print ??= fingerprint(declaredOf(route, integrations, functions), pagination, context)) + key(scope, target)
  }
}

function writes ({ queries = [], firebaseQueries = [] }: Route): boolean {
  return queries.some(({ operation }) => operation !== 'select' && operation !== 'call') ||
    firebaseQueries.some(({ operation }) => operation !== 'get' && operation !== 'query')
}

/**
 * Identifies the declarations and settings of a route's responses: a cache outlives the process, and would serve a field that the route
 * or a connector now hides. Being a hash, it shows no credentials.
 */
function fingerprint (declared: readonly unknown[], pagination: Pagination, { env }: TemplateContext): string {
  const text = stringifyJson(declared)
  const settings = settingsIn(text).map((name) => [name, setting(env, name)])
  return hash('sha256', stringifyJson([version, text, pagination, settings]), 'base64url').slice(0, 16)
}

/** The route, its connectors, and the SQL functions that it calls. */
function declaredOf (route: Route, integrations: CachedParts['integrations'], functions: Functions): unknown[] {
  const names = (route.queries ?? []).flatMap(({ function: name }) => name ?? [])
  const called = names.filter((name) => Object.hasOwn(functions, name)).map((name) => [name, functions[name]])
  return [route, ...integrations.map(({ call }) => call.declared), ...called]
}

/** The requested path, and the query string after the question mark. */
export interface CacheTarget {
  readonly method: string
  readonly path: string
  readonly query: string
}

const maxLength = 1024 // characters; a longer key is replaced by its SHA-256

/** The sources of a route that are not part of the tenant's id, the path or the query string. */
const callerSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['auth', 'headers', 'body'])

/** A tenant's settings change with its document, but the key holds only its id and the time of its creation. */
function isOfCaller ({ source, path }: Reference): boolean {
  return callerSources.has(source) || (source === 'tenant' && path[0] !== 'id')
}

/** Available before a request's queries run, and equal for equal requests. */
const keySources: readonly TemplateSource[] = ['env', 'body', 'params', 'query', 'headers', 'auth', 'tenant']

/**
 * Compiles the cache key of a route. The key holds the life of the tenant, whether fields are excluded, the method, the path and the sorted
 * query string. It also holds `varyBy`, and the claims, headers and tenant settings that the route's references read. The
 * template `cache.key` replaces path and query string, except `limit`, `offset` and `cursor`, because lists read them. `route`,
 * such as `GET /articles/:id`, separates the keys of different routes.
 */
export function compileCacheKey (
  cache: RouteCache,
  references: readonly Reference[],
  pointer: string,
  context: TemplateContext,
  route: string
): (scope: Scope, target: CacheTarget) => string {
  const within: TemplateContext = {
    ...context,
    sources: new Set(keySources.filter((source) => context.sources.has(source))),
    secretsRefusedIn: 'a cache key'
  }
  const readers: Reader[] = references.filter(isOfCaller).map(compileReader)
  for (const [index, path] of (cache.varyBy ?? []).entries()) {
    const template = path.includes('{{') ? path : `{{${path}}}`
    readers.push(compileValue(template, pointerTo(pointer, 'varyBy', index), within).evaluate)
  }
  const custom = cache.key === undefined ? undefined : [...compilePieces(cache.key, `${pointer}/key`, within), ...pageReaders]

  return (scope, target) => {
    // A store may have missed the deletion of an earlier tenant with the id.
    let key = (scope.fullAccess ? 'f' : 'r') + part(scope.tenant?.life) + part(target.method)
    if (custom === undefined) key += part(target.path) + part(sortedQuery(target.query))
    else {
      key += part(route)
      for (const read of custom) key += part(read(scope))
    }
    for (const read of readers) key += part(read(scope))
    return key.length <= maxLength ? key : `sha256:${hash('sha256', key)}`
  }
}

const pageReaders: readonly Reader[] = (['limit', 'offset', 'cursor'] as const).map((name) => ({ query }: Scope) =>
  Object.hasOwn(query, name) ? query[name] : undefined
)

/** One part of a key. It begins with kind and length, so that different lists of parts never give the same text. */
function part (value: unknown): string {
  if (typeof value === 'string') return `"${value.length}:${value}`
  if (value === undefined) return '-'
  const text = stringifyJson(value)
  return `=${text.length}:${text}`
}

/** Sorted by name. Equal names keep their order, because it is the order of a list's values. */
function sortedQuery (query: string): string {
  if (!query.includes('&')) return query
  const pairs = query.split('&')
  // An encoded name has several spellings, and sorting by spelling could reorder the values of one name.
  if (pairs.some((pair) => /[%+]/.test(nameOf(pair)))) return query
  return pairs.sort((left, right) => nameOf(left) < nameOf(right) ? -1 : nameOf(left) > nameOf(right) ? 1 : 0).join('&')
}

function nameOf (pair: string): string {
  const end = pair.indexOf('=')
  return end === -1 ? pair : pair.slice(0, end)
}
