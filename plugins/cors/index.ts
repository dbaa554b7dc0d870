/**
 * Calls from pages of other origins: the document's `cors`, on @fastify/cors. Register it before the plugins whose refusals pages should
 * read. Preflights are answered before identity and limits. The platform's origins may call everything; a tenant's origins may read
 * responses to calls of this tenant.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { reservedBy } from '../../lib/document/reserved.js'
import { checkCors } from '../../lib/document/rules/sections.js'
import { addVary } from '../../lib/http/caching.js'
import { createOriginMatch } from '../../lib/http/origins.js'
import { isPreflight, routePathsOf } from '../../lib/http/route-paths.js'
import { isTenantId, type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { listen } from '../../lib/plugin/lifecycle.js'
import { membersOf, required } from '../../lib/plugin/options.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { type Cors, Cors as CorsSection } from '../../lib/schema/server.js'
import { createTenantOrigins, type TenantOrigins } from './tenant-origins.js'

declare module 'fastify' {
  interface FastifyInstance {
    origins: AllowedOrigins
  }
  interface FastifyContextConfig {
    /** Further response headers that pages may read, separated by commas. Default: none. */
    exposedHeaders?: string
  }
}

/** The document's section `cors`. */
export type CorsOptions = Pick<Cors, 'origins'> & Partial<Cors>

const exposed = [
  'etag', 'idempotency-replayed', 'location', 'retry-after', 'x-cache', 'x-ratelimit-limit', 'x-ratelimit-remaining',
  'x-ratelimit-reset', 'x-request-id'
]
const allMethods = ['DELETE', 'GET', 'HEAD', 'PATCH', 'POST', 'PUT']

/** The type of `app.origins`: for responses that Fastify does not send, and connections without CORS headers, such as websockets. */
export interface AllowedOrigins {
  /** Adds the headers for the tenant's origins, which `onSend` adds to other responses, to a response that a handler sends itself. */
  allow(request: FastifyRequest, reply: FastifyReply): void
  /** The platform's origins may connect for every tenant. */
  isPlatforms(origin: string): boolean
  /** The tenant lists the origin. */
  isTenants(tenant: Owner, origin: string): Promise<boolean>
}

export default definePlugin<CorsOptions>({
  name: 'cors',
  optional: ['auth', 'database', 'tenancy', 'tenant-config'],
  observesRoutes: true,
  options: { ...membersOf(CorsSection), origins: required(CorsSection.properties.origins) },
  async setup (app, options) {
    // It would throw outside of any promise.
    if (app.hasPlugin('@fastify/cors')) {
      throw new Error('the app has registered @fastify/cors: remove it, or register it and "tenantry/plugins/cors" in separate contexts')
    }
    const section = completed(options)
    const isPlatforms = createOriginMatch(section.origins)
    const paths = routePathsOf(app)
    const exposedHeaders = [...exposed, ...section.exposedHeaders].join(', ')
    let tenants: TenantOrigins | null = null
    // Fastify creates `request.routeOptions` at each access. Few apps have routes with further headers.
    let hasFurtherHeaders = false
    app.addHook('onRoute', ({ config }) => {
      if (config?.exposedHeaders !== undefined) hasFurtherHeaders = true
    })
    app.addHook('onReady', async () => {
      if (!app.hasPlugin('tenantry-tenant-config')) return
      const own = tenants = createTenantOrigins(app.db, app.log)
      listen(app, app.events, { config: own.changed, tenant: own.changed, gap: own.reset })
      app.addHook('onClose', async () => own.close())
    })

    app.decorate('origins', {
      allow: allowTenants,
      isPlatforms,
      async isTenants (tenant: Owner, origin: string) {
        await tenants?.ready()
        return tenants?.isListedBy(tenant, origin) === true
      }
    })

    // Done here, since @fastify/cors takes microseconds of every request, including those without an origin.
    app.addHook('onRequest', (request, reply, done) => {
      if (section.origins !== '*') addVary(reply, 'origin')
      const { origin } = request.headers
      if (origin === undefined) return done()
      if (isPlatforms(origin)) {
        allow(request, reply, section.origins === '*' ? '*' : origin)
        if (section.credentials) reply.header('access-control-allow-credentials', 'true')
        return done()
      }
      const reading = tenants?.ready()
      if (reading === undefined) judged()
      else reading.then(judged, done)

      // Paths with their own OPTIONS route, which answers preflights too.
      function judged (): void {
        if (isPreflight(request) && tenants?.isListed(origin ?? '') === true) reply.header('access-control-allow-origin', origin)
        done()
      }
    })

    await answerPreflights(app, section, isPlatforms, (origin) => tenants?.isListed(origin) === true, methodsOf)

    function allow (request: FastifyRequest, reply: FastifyReply, origin: string): void {
      const further = hasFurtherHeaders ? request.routeOptions.config.exposedHeaders : undefined
      reply.header('access-control-allow-origin', origin)
        .header('access-control-expose-headers', further === undefined ? exposedHeaders : `${exposedHeaders}, ${further}`)
    }

    /**
     * The preflight of an unknown path allows every method, so that a page can see the 404. So does that of paths with possible tenants'
     * routes.
     */
    function methodsOf (url: string): string {
      const methods = paths.methodsOf(url)
      return (methods.length > 0 && (!paths.hasFallback || isReserved(url)) ? methods : allMethods).join(', ')
    }

    // The platform's origins are allowed by now. The tenant of the call is known when its response is sent.
    function allowTenants (request: FastifyRequest, reply: FastifyReply): void {
      if (tenants === null) return
      const { origin } = request.headers
      if (origin !== undefined && !isPlatforms(origin) && !isPreflight(request) && isTenants(tenants, request, origin, reply.statusCode)) {
        allow(request, reply, origin)
      }
    }

    app.addHook('onSend', (request, reply, payload, done) => {
      allowTenants(request, reply)
      done(null, payload)
    })
  }
})

/** Adds the route of @fastify/cors, which takes the preflights of all paths without an OPTIONS route of their own. */
async function answerPreflights (
  app: FastifyInstance,
  { origins, credentials, maxAge }: Cors,
  isPlatforms: (origin: string) => boolean,
  isListed: (origin: string) => boolean,
  methodsOf: (url: string) => string
): Promise<void> {
  // In a context of its own: there, the hook of @fastify/cors runs for no other route.
  await app.register(async (preflights) => {
    const { default: fastifyCors } = await import('@fastify/cors')
    // The route of @fastify/cors needs no body, so it reads none.
    preflights.removeAllContentTypeParsers()
    preflights.addContentTypeParser('*', (_request, _payload, done) => done(null))
    await preflights.register(fastifyCors, {
      delegator (request, done) {
        const { origin } = request.headers
        const isOfPlatform = origin !== undefined && isPlatforms(origin)
        if (origin === undefined || !isPreflight(request) || !(isOfPlatform || isListed(origin))) return done(null, { origin: false })
        done(null, {
          origin: isOfPlatform && origins === '*' ? '*' : true,
          credentials: isOfPlatform && credentials,
          maxAge,
          methods: methodsOf(request.url)
        })
      }
    })
  })
}

function completed (options: CorsOptions): Cors {
  const { origins, credentials = false, maxAge = 600, exposedHeaders = [] } = options
  const section = { origins, credentials, maxAge, exposedHeaders }
  withoutFaults((faults) => checkCors(section, faults))
  return section
}

/**
 * The tenant of the call lists the origin. A refusal before the tenant is known reveals nothing about a tenant: every listed origin may
 * read it.
 */
function isTenants (
  tenants: TenantOrigins,
  { tenant = null, auth = null, headers }: FastifyRequest,
  origin: string,
  status: number
): boolean {
  const named = headers['x-tenant-id']
  const id = tenant?.id ?? auth?.tenant_id ?? (auth === null && isTenantId(named) ? named : undefined)
  if (id !== undefined) return tenants.isListedBy(tenantRef(id), origin)
  return auth === null && status >= 400 && tenants.isListed(origin)
}

function isReserved (url: string): boolean {
  const path = url.split('?', 1)[0] ?? ''
  return reservedBy(path.slice(1).split('/').map((text) => ({ kind: 'text' as const, text }))) !== undefined
}
