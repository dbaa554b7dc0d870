/**
 * What tenants pay the platform: `app.billing`, their subscriptions and how they change them, and the webhooks of the
 * payment providers (DESIGN 8). A service plugin (fp); its endpoints stay in contexts of their own. Needs the plugins
 * database, auth, tenancy and queue; without the plugin plans the plans are the built-in ones.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../queue/index.js'
import type {} from '../rate-limit/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import type { BillingSettings } from '../../lib/config/meaning/billing.js'
import fp from 'fastify-plugin'
import { FaultList } from '../../lib/config/faults.js'
import { checkBilling } from '../../lib/config/meaning/billing.js'
import conventions from '../conventions/index.js'
import { plansOf } from '../plans/plans-of.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { emitterOf } from '../webhooks/emitter.js'
import { openAdapters } from './adapters.js'
import { cancelForDeleted } from './departure.js'
import { providerNames } from './providers/provider.js'
import { billingRoutes } from './routes.js'
import { createBilling, type Billing } from './service.js'
import { createProductMap } from './settings.js'
import { createUpgrade } from './upgrade.js'
import { webhookRoutes } from './webhooks.js'

export type { BillingSettings, ProviderAccount } from '../../lib/config/meaning/billing.js'
export type { Cycle, ProviderName, SubscriptionStatus } from './providers/provider.js'
export type { Billing, InForce, Outcome, Subscription } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    billing: Billing
  }
}

export interface BillingOptions extends BillingSettings {
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

const settleJob = 'billing.settle'
const settleEvery = 60 // s

/** Rejects with a ConfigError that names every fault of the options, and where the package of a provider is not installed. */
export async function billing (app: FastifyInstance, { now = Date.now, ...settings }: BillingOptions): Promise<void> {
  requireDecorator(app, 'db', 'database', 'billing')
  requireDecorator(app, 'auth', 'auth', 'billing')
  requireDecorator(app, 'tenants', 'tenancy', 'billing')
  requireDecorator(app, 'queue', 'queue', 'billing')
  const { db, engine, events, queue, tenants, log } = app
  const plans = plansOf(app, 'billing')
  const faults = new FaultList()
  checkBilling(settings, plans.tiers, faults)
  faults.throwIfAny()

  const products = createProductMap(settings, plans.tiers)
  const { provider, providers, receivers } = await openAdapters(settings)
  if (provider !== null && !receivers.has(provider.name)) log.warn({ provider: provider.name }, 'the payment provider has no signing secret: its webhooks are refused, and only a sync tells what became of a subscription')
  const unused = provider !== null ? [] : providerNames.filter((name) => settings[name]?.apiKey !== undefined || settings[name]?.productMap !== undefined)
  if (unused.length > 0) log.warn({ providers: unused }, 'there are settings of a payment provider, and none is chosen (PAYMENT_PROVIDER): nothing is sold')
  const service = createBilling({ db, engine, events, plans, provider, providers, productPlans: products.saleOf, log, now, emitter: emitterOf(app, 'billing') })
  app.decorate('billing', service)
  queue.define(settleJob, { retryLimit: 0, concurrency: 1 }, async ({ signal }) => { await service.settleDue(signal) })
  queue.every(settleJob, settleEvery)
  cancelForDeleted({ db, queue, tenants, providers, now })

  const dbFor = (tenant: string) => engine.kyselyFor(tenant)
  const appUrl = (settings.appUrl ?? '').replace(/\/+$/, '')
  const upgrade = createUpgrade({ billing: service, provider, providers, products, plans, appUrl, dbFor, log, now })
  await app.register(async (group) => {
    await group.register(conventions)
    billingRoutes(group, { billing: service, upgrade, plans })
  })
  await app.register(async (group) => {
    await group.register(conventions)
    webhookRoutes(group, { billing: service, receivers, now })
  })
}

export default fp(billing, { name: 'tenantry-billing', fastify: '5.x' })
