/** Keys of cached responses: requests with different responses have different keys. */
import type { RouteCache } from '../schema/route.js'
import type { Reference, Scope, TemplateSource } from '../expressions/types.js'
import { createHash } from 'node:crypto'
import { pointerTo } from '../schema/faults.js'
import { stringifyJson } from '../json/stringify.js'
import { compileReader, type Reader, type TemplateContext } from '../expressions/reference.js'
import { compilePieces, compileValue } from '../expressions/template.js'

/** The requested path, and the query string after the question mark. */
export interface CacheTarget {
  readonly method: string
  readonly path: string
  readonly query: string
}

const maxLength = 1024 // characters; a longer key is replaced by its SHA-256

/** The sources of a route that are not part of the tenant's id, the path or the query string. */
const callerSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['auth', 'headers', 'body'])

/** A tenant's settings change with its document, but the key holds only its id. */
function isOfCaller ({ source, path }: Reference): boolean {
  return callerSources.has(source) || (source === 'tenant' && path[0] !== 'id')
}

/** Available before a request's queries run, and equal for equal requests. */
const keySources: readonly TemplateSource[] = ['env', 'body', 'params', 'query', 'headers', 'auth', 'tenant']

/**
 * Compiles the cache key of a route. The key holds the tenant, whether fields are excluded, the method, the path and the sorted
 * query string. It also holds `varyBy`, and the claims, headers and tenant settings that the route's references read. The
 * template `cache.key` replaces path and query string, except `limit`, `offset` and `cursor`, because lists read them. `route`,
 * such as `GET /articles/:id`, separates the keys of different routes.
 */
export function compileCacheKey (
  cache: RouteCache,
  references: readonly Reference[],
  pointer: string,
  context: TemplateContext,
  route = ''
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
    let key = (scope.fullAccess ? 'f' : 'r') + part(scope.tenant?.id) + part(target.method)
    if (custom === undefined) key += part(target.path) + part(sortedQuery(target.query))
    else {
      key += part(route)
      for (const read of custom) key += part(read(scope))
    }
    for (const read of readers) key += part(read(scope))
    return key.length <= maxLength ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`
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
  let isSorted = true
  let last = ''
  for (const pair of pairs) {
    const name = nameOf(pair)
    // An encoded name has several spellings, and sorting by spelling could reorder the values of one name.
    if (name.includes('%') || name.includes('+')) return query
    if (name < last) isSorted = false
    last = name
  }
  if (isSorted) return query
  return pairs.sort((left, right) => nameOf(left) < nameOf(right) ? -1 : nameOf(left) > nameOf(right) ? 1 : 0).join('&')
}

function nameOf (pair: string): string {
  const end = pair.indexOf('=')
  return end === -1 ? pair : pair.slice(0, end)
}
