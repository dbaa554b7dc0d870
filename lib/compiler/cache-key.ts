/** Keys of cached answers: requests with different answers have different keys. */
import type { RouteCache } from '../schema/route.js'
import type { Reader, TemplateContext } from '../expressions/reference.js'
import type { Reference, Scope, TemplateSource } from '../expressions/types.js'
import { createHash } from 'node:crypto'
import { pointerTo } from '../schema/faults.js'
import { stringifyJson } from '../json/stringify.js'
import { compileReader } from '../expressions/reference.js'
import { compilePieces, compileValue } from '../expressions/template.js'

/** What is asked for: the path without and the query string after the question mark. */
export interface CacheTarget {
  readonly method: string
  readonly path: string
  readonly query: string
}

const maxLength = 1024 // characters; a longer key is its SHA-256

/** What a route can read that neither tenant, path nor query string tells. */
const callerSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['auth', 'headers', 'body'])

/** The settings of a tenant change with its document, while the key holds its id alone. */
function isOfCaller ({ source, path }: Reference): boolean {
  return callerSources.has(source) || (source === 'tenant' && path[0] !== 'id')
}

/** Known before a request's queries run, and the same for the same request. */
const keySources: readonly TemplateSource[] = ['env', 'body', 'params', 'query', 'headers', 'auth', 'tenant']

/**
 * Makes the key of a route. It holds the tenant, whether fields are excluded, the method, path and sorted query
 * string, the claims, headers and settings of the tenant that the route's references read, and `varyBy`. `cache.key`, a
 * template, replaces path and query string; `limit`, `offset` and `cursor` stay, since lists read them. `route`, such as
 * `GET /articles/:id`, keeps the keys of two routes apart.
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

/** One part of a key: its kind and length come first, so that no two lists of parts have one text. */
function part (value: unknown): string {
  if (typeof value === 'string') return `"${value.length}:${value}`
  if (value === undefined) return '-'
  const text = stringifyJson(value)
  return `=${text.length}:${text}`
}

/** Sorted by name; equal names keep their order, which a list of values depends on. */
function sortedQuery (query: string): string {
  if (!query.includes('&')) return query
  const pairs = query.split('&')
  let isSorted = true
  let last = ''
  for (const pair of pairs) {
    const name = nameOf(pair)
    // Such a name can be written in several ways, and sorting could put two of one name in another order.
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
