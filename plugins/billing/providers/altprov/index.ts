/** The payment provider `altprov`: Stripe's API, on its SDK, which is an optional peer. */
import type { Owner } from '../../../../lib/identity/tenant-ref.js'
import { CallTime, orNull } from '../call.js'
import type { Checkout, CheckoutInput, PaymentProvider, ProviderSettings, Snapshot } from '../provider.js'
import { cancel, type Change, changeAtPeriodEnd, changeNow, expanded, priceOf, resume } from './changes.js'
import { type AltprovCall, createAltprovClient, loadAltprov } from './client.js'
import { customerOf, customersOfSubscriptions } from './customers.js'
import { readCheckout, readLaterCheckout, readList } from './documented.js'
import { snapshotOf, subscriptionOf } from './snapshot.js'
import { webhookReader } from './webhook.js'
import { write } from './write.js'

const maxSubscriptions = 100

/**
 * Throws if the package is missing or `baseUrl` is not an origin. Without an API key webhooks are read, and every call fails as
 * `providerFailed`.
 */
export async function createAltprov ({ apiKey, webhookSecrets, baseUrl, timeoutMs }: ProviderSettings): Promise<PaymentProvider> {
  const client = createAltprovClient(await loadAltprov(), apiKey, baseUrl)
  const calls = () => client(new CallTime(timeoutMs))
  const change = (idempotencyKey: string): Change => ({ call: calls(), callAnew: calls, idempotencyKey })
  return {
    name: 'altprov',
    checkout: async (input) => await checkout(calls(), input),
    subscriptions: async (tenant, customers = []) => await subscriptionsOf(calls(), tenant, customers),
    changeProduct: async (id, product, when, key) => await (when === 'now' ? changeNow : changeAtPeriodEnd)(change(key), id, product),
    cancel: async (id, key) => await cancel(change(key), id),
    resume: async (id, key) => await resume(change(key), id),
    readWebhook: webhookReader(webhookSecrets)
  }
}

async function checkout (
  call: AltprovCall,
  { tenant, deletedAt, email, product, successUrl, cancelUrl, idempotencyKey }: CheckoutInput
): Promise<Checkout> {
  const [price, customer] = await Promise.all([priceOf(call, product), customerOf(call, { tenant, deletedAt, email })])
  const metadata = { tenant_id: tenant }
  const { body } = await write(call, {
    read: readCheckout,
    key: [idempotencyKey, 'checkout', customer],
    run: (stripe, options) =>
      stripe.checkout.sessions.create({
        mode: 'subscription',
        customer,
        client_reference_id: tenant,
        line_items: [{ price: price.id, quantity: 1 }],
        metadata,
        subscription_data: { metadata },
        success_url: successUrl.replace(/\{CHECKOUT_ID\}|%7BCHECKOUT_ID%7D/gi, '{CHECKOUT_SESSION_ID}'),
        cancel_url: cancelUrl
      }, options),
    current: async (first) => first === null ? null : await openSession(call, first.id)
  })
  const { id, url, amount_total: amount, currency } = body
  return { id, url, amount, currency }
}

/** null for a session that was paid or has expired. */
async function openSession (call: AltprovCall, id: string) {
  const found = await call(readLaterCheckout, (stripe) => stripe.checkout.sessions.retrieve(id))
  const { status, url, ...session } = found.body
  return status === 'open' && url !== null ? { ...found, body: { ...session, url } } : null
}

async function subscriptionsOf (call: AltprovCall, tenant: Owner, known: readonly string[]): Promise<Snapshot[]> {
  const customers = await customersOfSubscriptions(call, tenant, known)
  const lists = await Promise.all(customers.map(async (customer) => {
    // A known customer may belong to another account, for example a former test account.
    const listed = await orNull(
      call((found) => readList(found).data.map(subscriptionOf), (stripe) =>
        stripe.subscriptions.list({
          customer,
          status: 'all',
          limit: maxSubscriptions,
          expand: expanded.map((path) => `data.${path}`)
        }))
    )
    if (listed === null) return []
    const { body, at } = listed
    return body.map((subscription) => ({ created: subscription.created, snapshot: snapshotOf(subscription, at) }))
  }))
  return lists.flat()
    .filter(({ snapshot }) => snapshot.tenant === tenant)
    .sort((one, other) => other.created - one.created || (one.snapshot.id < other.snapshot.id ? 1 : -1))
    .slice(0, maxSubscriptions)
    .map(({ snapshot }) => snapshot)
}
