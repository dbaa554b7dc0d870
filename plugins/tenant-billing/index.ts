/**
 * Tenants bill their own customers through their own accounts at payprov: the endpoints under `/billing/tenant` (SPEC
 * "Tenant billing", DESIGN 8). A route group. Needs the plugins database, auth, tenancy and secrets, and for its calls the
 * package @polar-sh/sdk, which is loaded when the first is made.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../secrets/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { failure } from '../../lib/errors.js'
import { createPlaces } from '../../lib/places.js'
import conventions from '../conventions/index.js'
import { requireDecorator, requireWhole } from '../../lib/plugin/requirement.js'
import { createAccounts } from './account.js'
import { tenantBillingRoutes } from './routes.js'
import { createTenantBilling } from './service.js'

const maxOfTenant = 10 // requests under way at payprov
const maxInAll = 100
const retryAfter = 1 // s

export interface TenantBillingOptions {
  /** The address of payprov, such as that of a proxy: absolute, http or https. The platform says it, and no tenant. Default: payprov's own. */
  readonly baseUrl?: string | undefined
  /** Milliseconds that payprov may take for all calls of one request. Default: 10,000. */
  readonly timeoutMs?: number | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function tenantBilling (app: FastifyInstance, { baseUrl, timeoutMs, now = Date.now }: TenantBillingOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'tenant-billing')
  requireDecorator(app, 'auth', 'auth', 'tenant-billing')
  requireDecorator(app, 'tenancy', 'tenancy', 'tenant-billing')
  requireDecorator(app, 'secrets', 'secrets', 'tenant-billing')
  if (baseUrl !== undefined && !(/^https?:\/\//i.test(baseUrl) && URL.canParse(baseUrl))) throw new Error('baseUrl is no absolute address of http or https')
  if (timeoutMs !== undefined) requireWhole('timeoutMs', timeoutMs, 1, 2 ** 31 - 1)
  const { engine, log, secrets } = app
  const places = createPlaces({
    maxOfTenant,
    maxInAll,
    tooManyOfTenant: () => failure('rateLimited', { message: `At most ${maxOfTenant} requests of a tenant wait for its payment provider at a time: try again when one of them is answered`, ...later }),
    tooManyInAll: () => failure('providerBusy', { message: 'Too many requests wait for payment providers; try again', ...later })
  })
  app.addHook('onClose', async () => places.close())

  await app.register(conventions)
  tenantBillingRoutes(app, createTenantBilling({ accounts: createAccounts(secrets, { baseUrl, timeoutMs }), places, dbFor: (tenant) => engine.kyselyFor(tenant), log, now }))
}

const later = { extras: { retryAfter }, headers: { 'retry-after': String(retryAfter) } }

export default fp(tenantBilling, { name: 'tenantry-tenant-billing', fastify: '5.x', encapsulate: true })
