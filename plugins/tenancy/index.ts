/**
 * Tenants: `app.tenants`, and the tenant of a request, `request.tenant`. It applies to routes with `config: { access }`, except
 * `public` ones. The plugin tenants has the endpoints.
 */
import { everyTenant } from '../../lib/cache/store.js'
import { failure } from '../../lib/errors.js'
import { guardRoutes } from '../../lib/http/guards.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { listen, sweepHourly, whenStopping } from '../../lib/plugin/lifecycle.js'
import { callback, membersOf, whole } from '../../lib/plugin/options.js'
import { addStep } from '../../lib/plugin/pipeline.js'
import { Tenancy as TenancySchema, type Tenancy as TenancySection } from '../../lib/schema/tenancy.js'
import { plansOf } from '../plans/plans-of.js'
import { createErasure } from './erasure.js'
import { createTenantMemory } from './memory.js'
import { createProvisioning } from './provisioning.js'
import { type Admission, createAdmission, createCallerStep, createUnauthenticatedStep } from './resolution.js'
import { createTenants, type Tenants } from './service.js'
import { createTenantStore, forgetDeleted } from './store.js'
import type { Tenant } from './tenant.js'

export type { Tenants } from './service.js'
export type { Tenant, TenantRecord, TenantStatus } from './tenant.js'

const minRemembered = 10_000

declare module 'fastify' {
  interface FastifyInstance {
    tenancy: Tenancy
    tenants: Tenants
  }
  interface FastifyRequest {
    /** The active tenant of the request; null for requests of the platform. */
    tenant: Tenant | null
  }
  interface FastifyContextConfig {
    /** A caller without a token may name the tenant by header on this `open` route. Default: true. */
    publicTenant?: boolean
    /** The caller may also name it by the query parameter `tenant`, for webhooks and for routes that may be webhooks. Default: false. */
    tenantInQuery?: boolean
  }
}

/** The document's `tenancy` section, and the limits of this process. */
export interface TenancyOptions extends Partial<TenancySection> {
  /**
   * The maximum number of tenants whose identity, `settings`, roles, keys and secrets this process caches. Default:
   * `maxLoadedTenants`, and at least 10,000.
   */
  readonly maxRemembered?: number | undefined
  /** The clock of cached data, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/** The type of `app.tenancy`. */
export interface Tenancy {
  readonly trustHeader: boolean
  /** Sets the tenant of a caller whose token was not in the header, such as that of a websocket. */
  readonly admit: Admission
  /** The number of tenants in each cache of this process, if they are not too large. */
  readonly maxRemembered: number
  /** The document's section, for the plugins that compile documents. */
  readonly section: Partial<TenancySection>
}

export default definePlugin<TenancyOptions>({
  name: 'tenancy',
  dependencies: ['database', 'auth'],
  optional: ['cache'],
  after: ['plans'],
  observesRoutes: true,
  options: { ...membersOf(TenancySchema), maxRemembered: whole(1, 2 ** 31 - 1), now: callback },
  setup (
    app,
    { maxRemembered: ownMaxRemembered, now, ...section }
  ) {
    const { provisioning = 'auto', trustHeader = false, maxLoadedTenants = 0 } = section
    const maxRemembered = ownMaxRemembered ?? Math.max(minRemembered, maxLoadedTenants)
    const { db, events, log } = app
    const store = createTenantStore(db)
    const memory = createTenantMemory((id) => store.find(id), maxRemembered, now)
    const plans = plansOf(app)
    const stopped = new AbortController()
    whenStopping(app, async () => stopped.abort(failure('stopping')))
    const erasure = createErasure(app, plans, stopped.signal)
    const parts = { store, memory, events, erasure }
    const tenants = createTenants(parts, plans, log)
    app.decorate('tenants', tenants)
    app.decorateRequest('tenant', null)

    const cache = optional(app, 'cache')
    // The deletion of a tenant removes its cached responses. A later tenant with the id has other keys.
    const clearResponses = (tenant: Owner | typeof everyTenant): void => {
      Promise.resolve(cache()?.clear(tenant)).catch((err: unknown) =>
        log.error({ err, tenant }, 'the cached responses of a tenant could not be cleared')
      )
    }
    listen(app, events, {
      tenant (tenant) {
        memory.forget(tenant)
        clearResponses(tenant)
      },
      config: memory.forget,
      gap () {
        memory.clear()
        // Tenants may have been deleted meanwhile. The server that deleted them has cleared a shared store.
        if (cache()?.shared === false) clearResponses(everyTenant)
      }
    })

    sweepHourly(app, 'data of deleted tenants', tenants.continueDeletions)
    const { maxLifetime } = app.auth
    if (maxLifetime !== Infinity) sweepHourly(app, 'ids of deleted tenants', () => forgetDeleted(store, erasure, maxLifetime, Date.now()))

    const provision = createProvisioning(parts, provisioning === 'auto')
    const resolution = { provision, lookup: tenants.get, trustHeader }
    app.decorate('tenancy', Object.freeze({ trustHeader, maxRemembered, admit: createAdmission(resolution), section }))
    const [named, unnamed, unauthenticated, sender] = [
      createCallerStep(resolution, true),
      createCallerStep(resolution, false),
      createUnauthenticatedStep(resolution, false),
      createUnauthenticatedStep(resolution, true)
    ]
    guardRoutes(app, 'tenancy', (route) => {
      const { access, publicTenant = true, tenantInQuery = false } = route.config ?? {}
      if (access === undefined || access === 'public') return
      addStep(route, 'tenant', publicTenant ? named : unnamed)
      if (access === 'open' && publicTenant && (tenantInQuery || !trustHeader)) {
        addStep(route, 'public-tenant', tenantInQuery ? sender : unauthenticated)
      }
    })
  }
})
