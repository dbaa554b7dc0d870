/** The subscriptions of tenants: `app.billing`, its endpoints, and the webhooks of the payment providers. */
import { type BillingSettings, checkBilling } from '../../lib/document/rules/billing.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { callback, type ClockOption, record, text } from '../../lib/plugin/options.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { plansOf } from '../plans/plans-of.js'
import { cancelForDeleted } from './cancel-on-delete.js'
import { loadProvider } from './providers/index.js'
import { type PaymentProvider, type ProviderName, providerNames } from './providers/provider.js'
import { billingRoutes } from './routes.js'
import { type Billing, createBilling } from './service.js'
import { createProductMap } from './settings.js'
import { createUpgrade } from './upgrade.js'
import { webhookRoutes } from './webhooks.js'

/** An endpoint makes at most two calls, one after the other: 10 s together. */
const timeoutMs = 5000

/** Loads the packages of the providers with a key, which can be called, or with a signing secret. Rejects if one is not installed. */
async function openAdapters (settings: BillingSettings) {
  const providers = new Map<ProviderName, PaymentProvider>()
  const receivers = new Map<ProviderName, PaymentProvider>()
  for (const name of providerNames) {
    const { apiKey, webhookSecret, previousWebhookSecrets = [], organizationId, baseUrl } = settings[name] ?? {}
    if (apiKey === undefined && webhookSecret === undefined) continue
    const webhookSecrets = webhookSecret === undefined ? [] : [webhookSecret, ...previousWebhookSecrets]
    const adapter = await loadProvider(name, { apiKey: apiKey ?? '', organizationId, webhookSecrets, baseUrl, timeoutMs })
    if (apiKey !== undefined) providers.set(name, adapter)
    if (webhookSecret !== undefined) receivers.set(name, adapter)
  }
  return { provider: settings.provider === undefined ? null : providers.get(settings.provider) ?? null, providers, receivers }
}

export type { BillingSettings, ProviderAccount } from '../../lib/document/rules/billing.js'
export type { Cycle, ProviderName, SubscriptionStatus } from './providers/provider.js'
export type { Billing, InForce, Subscription } from './service.js'
export type { Outcome } from './subscription-changes.js'

declare module 'fastify' {
  interface FastifyInstance {
    billing: Billing
  }
}

export type BillingOptions = BillingSettings & ClockOption

const settleJob = 'billing.settle'
const settleEvery = 60 // s

export default definePlugin<BillingOptions>({
  name: 'billing',
  dependencies: ['database', 'tenancy', 'queue'],
  optional: ['webhooks'],
  after: ['plans'],
  routeDependencies: ['auth'],
  options: { provider: text, appUrl: text, payprov: record, altprov: record, now: callback },
  async setup (app, { now = Date.now, ...settings }) {
    const { db, engine, events, queue, tenants, log } = app
    const plans = plansOf(app)
    withoutFaults((faults) => checkBilling(settings, plans.tiers, faults))
    const products = createProductMap(settings, plans.tiers)
    const { provider, providers, receivers } = await openAdapters(settings)
    if (provider !== null && !receivers.has(provider.name)) {
      log.warn(
        { provider: provider.name },
        'the payment provider has no signing secret: its webhooks are rejected, and subscriptions are updated only by a sync'
      )
    }
    const unused = provider !== null
      ? []
      : providerNames.filter((name) => settings[name]?.apiKey !== undefined || settings[name]?.productMap !== undefined)
    if (unused.length > 0) {
      log.warn({ providers: unused }, 'there are settings of a payment provider, but none is selected (PAYMENT_PROVIDER): plans cannot be bought')
    }
    const parts = { db, engine, events, plans, provider, providers, products, log, now, emitter: optional(app, 'webhooks') }
    const service = createBilling(parts)
    app.decorate('billing', service)
    queue.define(settleJob, { retryLimit: 0, concurrency: 1 }, async ({ signal }) => {
      await service.settleDue(signal)
    })
    queue.every(settleJob, settleEvery)
    cancelForDeleted(app, providers, now)

    const appUrl = (settings.appUrl ?? '').replace(/\/+$/, '')
    const upgrade = createUpgrade({ ...parts, billing: service, tenants, appUrl })
    return (group) => {
      billingRoutes(group, service, upgrade, plans)
      // In a separate context, which parses bodies as bytes.
      group.register(async (signed) => webhookRoutes(signed, service, receivers, now))
    }
  }
})
