/**
 * Tenants: `app.tenants`, and which one a request belongs to, `request.tenant` (DESIGN 5). A service plugin (fp). Needs
 * the plugins database and auth; without the plugin plans the plans are the built-in ones. Acts on routes that declare `config: { access }`, `public` ones excepted.
 * `tenantRoutes`, beside it, are its endpoints.
 */
import type {} from '../cache/store.js'
import type {} from '../database/index.js'
import type { FastifyInstance } from 'fastify'
import type { Tenant } from './tenant.js'
import fp from 'fastify-plugin'
import { everyTenant } from '../cache/store.js'
import { guardRoutes } from '../../lib/plugin/guards.js'
import { addStep } from '../../lib/plugin/pipeline.js'
import { plansOf } from '../plans/plans-of.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { createErasure } from './erasure.js'
import { createTenantMemory } from './memory.js'
import { createProvisioning } from './provisioning.js'
import { createCallerStep, createStrangerStep } from './resolution.js'
import { createTenants, type Tenants } from './service.js'
import { createTenantStore } from './store.js'

export { default as tenantRoutes } from './routes.js'
export type { Tenants } from './service.js'
export type { Tenant, TenantRecord, TenantStatus } from './tenant.js'

const minRemembered = 10_000

declare module 'fastify' {
  interface FastifyInstance {
    tenancy: Tenancy
    tenants: Tenants
  }
  interface FastifyRequest {
    /** The tenant of the request, which is active; null for the platform's own. */
    tenant: Tenant | null
  }
  interface FastifyContextConfig {
    /** A caller without a token may name the tenant by header on this `open` route. Default: true. */
    publicTenant?: boolean
    /** Such a caller may name it by the query parameter `tenant`, too: the route is a webhook, or stands for some. Default: false. */
    tenantInQuery?: boolean
  }
}

/** The document's `tenancy` section, as far as this plugin reads it. */
export interface TenancyOptions {
  /** Whether a tenant that a verified token names for the first time is made, or answered 404. Default: `auto`. */
  readonly provisioning?: 'auto' | 'explicit' | undefined
  /** `X-Tenant-ID` is set by a gateway and decides where the token names no tenant. Default: false. */
  readonly trustHeader?: boolean | undefined
  /** Tenants whose routes this process has at hand. It remembers more, see `maxRemembered`. */
  readonly maxLoadedTenants?: number | undefined
  /**
   * Tenants of which this process remembers at most who they are, with the `settings` of their documents, and what their
   * roles, keys and secrets are. Default: `maxLoadedTenants`, and 10,000 at least.
   */
  readonly maxRemembered?: number | undefined
  /** The clock of what is remembered, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/** What `app.tenancy` is. */
export interface Tenancy {
  readonly trustHeader: boolean
  /** Tenants that any memory of this process has room for, unless they weigh too much. */
  readonly maxRemembered: number
}

export async function tenancy (app: FastifyInstance, { provisioning = 'auto', trustHeader = false, maxLoadedTenants = 0, maxRemembered = Math.max(minRemembered, maxLoadedTenants), now }: TenancyOptions): Promise<void> {
  requireDecorator(app, 'events', 'database', 'tenancy')
  requireDecorator(app, 'auth', 'auth', 'tenancy')
  const { db, engine, events, log } = app
  const store = createTenantStore(db)
  const memory = createTenantMemory((id) => store.find(id), maxRemembered, now)
  const plans = plansOf(app, 'tenancy')
  const erasure = createErasure(engine, db, plans, events)
  const tenants = createTenants({ store, plans, memory, events, erasure, log })
  app.decorate('tenants', tenants)
  app.decorate('tenancy', Object.freeze({ trustHeader, maxRemembered }))
  app.decorateRequest('tenant', null)

  // Answers that were cached for a tenant outlive it, and another of the same id must not get them.
  const clearAnswers = (tenant: string): void => {
    if (!app.hasDecorator('cache')) return
    Promise.resolve(app.cache.clear(tenant)).catch((err: unknown) => log.error({ err, tenant }, 'the cached answers of a tenant could not be cleared'))
  }
  const ends = [
    events.on('tenant', (tenant) => {
      memory.forget(tenant)
      clearAnswers(tenant)
    }),
    events.on('config', (tenant) => memory.forget(tenant)),
    events.onGap(() => {
      memory.clear()
      // Of a tenant that was deleted meanwhile; in a store that all share, whoever deleted it has cleared them.
      if (app.hasDecorator('cache') && !app.cache.shared) clearAnswers(everyTenant)
    })
  ]
  app.addHook('onClose', async () => { for (const end of ends) end() })

  const provision = createProvisioning({ store, memory, events, erasure, makes: provisioning === 'auto' })
  const resolution = { provision, lookup: tenants.get, trustHeader }
  const [named, unnamed, stranger, sender] = [createCallerStep(resolution, true), createCallerStep(resolution, false), createStrangerStep(resolution, false), createStrangerStep(resolution, true)]
  guardRoutes(app, 'tenancy', (route) => {
    const { access, publicTenant = true, tenantInQuery = false } = route.config ?? {}
    if (access === undefined || access === 'public') return
    addStep(route, 'tenant', publicTenant ? named : unnamed)
    if (access === 'open' && publicTenant && (tenantInQuery || !trustHeader)) addStep(route, 'public-tenant', tenantInQuery ? sender : stranger)
  })
}

export default fp(tenancy, { name: 'tenantry-tenancy', fastify: '5.x' })
