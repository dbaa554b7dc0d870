/** A tenant's routes in `/doc`: all of them for its own callers, the public ones for others. */
import type { FastifyRequest } from 'fastify'
import type { DocumentedRoute } from '../openapi/documentation.js'
import type { FurtherRoutes } from '../openapi/index.js'
import type { Loaded } from './loaded.js'
import type { TenantRoute } from './tenant-routes.js'
import { methodOf } from '../../lib/compiler/route-parts.js'
import { catalogue } from '../../lib/errors.js'
import { asksForToken } from './serve.js'

/**
 * null where the request has no tenant, or the tenant no routes that the caller may know.
 * @param prefix what stands before the paths of tenants' routes; empty or beginning with "/"
 * @param limitStatuses with which the server's own limits refuse requests of them
 */
export async function documentedRoutes (
  { tenant, auth }: FastifyRequest,
  loaded: Loaded,
  prefix: string,
  limitStatuses: readonly number[]
): Promise<FurtherRoutes | null> {
  if (tenant === null) return null
  const { routes } = await loaded.get(tenant.id)
  const audience = auth === null ? 'strangers' : 'callers'
  const shown = auth === null ? routes.filter(({ declared }) => !asksForToken(declared)) : routes
  const [first] = shown
  if (first === undefined) return null
  // The generation, since the versions of a tenant that was deleted and made again begin anew.
  return { key: `${tenant.id} ${first.generation} ${audience}`, routes: () => documented(shown, prefix, limitStatuses) }
}

/** Each is compiled, and let go again, when it is taken. */
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
