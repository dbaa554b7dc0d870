/** The parts of a declared route that need no tables; check and compilation share them. */
import type { TemplateSource } from '../expressions/types.js'
import type { RequestRules, Route } from '../schema/route.js'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export const routeSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>([
  'env', 'body', 'params', 'query', 'headers', 'auth', 'tenant', 'secret', 'results', 'now', 'uuid'
])

const webhookSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>([...routeSources, 'payload'])

const formSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>([...routeSources, 'files'])

/** The sources of this route: a webhook also has `payload`, and a form may have `files`. */
export function sourcesOf ({ webhook, multipart }: Pick<Route, 'webhook' | 'multipart'>): ReadonlySet<TemplateSource> {
  if (webhook !== undefined) return webhookSources
  return multipart === true ? formSources : routeSources
}

/** The files of a form. A form that declares none has one, `file`, as that of POST /files/upload. */
export function formFilesOf ({ multipart, request }: Pick<Route, 'multipart' | 'request'>): NonNullable<RequestRules['files']> {
  return request?.files ?? (multipart === true ? { file: {} } : {})
}

/** The request rules of the route, with the query string fields that its lists declare. */
export function requestRulesOf ({ request, queries = [] }: Pick<Route, 'request' | 'queries'>): RequestRules | undefined {
  if (request?.query === undefined) return request
  const orders = queries.flatMap(({ orderBy }) => /^\{\{\s*query\.([\w-]+)/.exec(orderBy?.from ?? '')?.[1] ?? [])
  if (orders.length === 0) return request
  const fields = Object.fromEntries(orders.map((name) => [name, { type: 'string' }] as const))
  return { ...request, query: { ...fields, ...request.query } }
}

/** The names of the `:name` parameters of a path, in order. */
export function pathParameters (path: string): string[] {
  return path.split('/').filter((segment) => segment.startsWith(':')).map((segment) => segment.slice(1))
}

/**
 * The parts that determine the compiled route: within one document, routes with equal parts compile to the same route. The path
 * counts only by the names of its parameters, unless responses or deliveries are stored by it, or cursors contain it.
 */
export function compiledParts (route: Route): object {
  const lists = [...route.queries ?? [], ...route.firebaseQueries ?? []]
  if (route.cache !== undefined || route.webhook !== undefined || lists.some(({ pagination }) => pagination === 'cursor')) return route
  return { ...route, path: pathParameters(route.path), description: undefined, tags: undefined, mcp: undefined }
}

/** The name of a query's result: its alias, or else its table, function or collection. */
export function resultKey (
  query: { readonly alias?: string, readonly table?: string, readonly function?: string, readonly collection?: string }
): string | undefined {
  return query.alias ?? query.table ?? query.function ?? query.collection
}

const methods = {
  get: 'GET',
  GET: 'GET',
  post: 'POST',
  POST: 'POST',
  put: 'PUT',
  PUT: 'PUT',
  patch: 'PATCH',
  PATCH: 'PATCH',
  delete: 'DELETE',
  DELETE: 'DELETE'
} as const satisfies Record<Route['method'], Method>

export function methodOf ({ method }: Pick<Route, 'method'>): Method {
  return methods[method]
}
