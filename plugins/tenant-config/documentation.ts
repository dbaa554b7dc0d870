/** A tenant's routes in `/doc`: all routes for the tenant's callers, only the public ones for other callers. */
import type { FastifyRequest } from 'fastify'
import { methodOf } from '../../lib/compiler/route-parts.js'
import { catalogue } from '../../lib/errors.js'
import type { DocumentedRoute } from '../openapi/documentation.js'
import type { FurtherRoutes } from '../openapi/index.js'
import type { LoadedDocuments } from './loaded-documents.js'
import { asksForToken } from './serve.js'
import type { TenantRoute } from './tenant-routes.js'

/**
 * null if the request has no tenant, or the tenant has no route that the caller may see.
 * @param prefix the prefix of the paths of tenants' routes; empty or beginning with "/"
 * @param limitStatuses the statuses of responses beyond the server's own limits
 */
export async function documentedRoutes (
  { tenant, auth }: FastifyRequest,
  loaded: LoadedDocuments,
  prefix: string,
  limitStatuses: readonly number[]
): Promise<FurtherRoutes | null> {
  if (tenant === null) return null
  const { routes } = await loaded.get(tenant.id)
  const audience = auth === null ? 'strangers' : 'callers'
  const shown = auth === null ? routes.filter(({ declared }) => !asksForToken(declared)) : routes
  const [first] = shown
  if (first === undefined) return null
  // The generation and not the version: versions start again at 1 if a tenant is deleted and created again.
  return {
    tenant: tenant.id,
    key: `${tenant.id} ${first.generation} ${audience}`,
    routes: () => documented(shown, prefix, limitStatuses)
  }
}

/** Compiles one route at a time, and keeps none, to save memory. */
function * documented (routes: readonly TenantRoute[], prefix: string, limitStatuses: readonly number[]): Generator<DocumentedRoute> {
  for (const route of routes) {
    const { declared, limit } = route
    const own = limit === null ? [] : [limit.rule.statusCode ?? catalogue.rateLimited.status]
    const openapi = route.documentation()
    if (openapi === undefined) continue
    yield {
      methods: [methodOf(declared)],
      url: prefix + declared.path,
      config: { access: asksForToken(declared) ? 'user' : 'open', openapi, limitStatuses: [...limitStatuses, ...own] },
      schema: undefined
    }
  }
}
