/** The payment provider `payprov`: Polar's API, version 2026-04. */
import type { models } from '@polar-sh/sdk/2026-04'
import { Type } from 'typebox'
import { isProviderId } from '../../../../lib/document/rules/billing.js'
import { failure, isFailure } from '../../../../lib/errors.js'
import { CallTime, documented, Id as IdOf, orNull } from '../call.js'
import type { Checkout, CheckoutInput, PaymentProvider, ProviderSettings, Snapshot } from '../provider.js'
import { requirePaid } from '../require-paid.js'
import { createPayprovClient, type PayprovServices } from './client.js'
import { Id, readSubscription, snapshotOf, Subscription } from './subscription.js'
import { webhookReader } from './webhook.js'

/** An update of a subscription, if its state needs one. */
type Step = (subscription: Subscription) => models.SubscriptionUpdate | null

const maxSubscriptions = 100
const maxProductPages = 20 // of 100 products, which are searched for a price
const maxProducts = 1000 // products whose prices are remembered

const readSubscriptions = documented(
  'a list of subscriptions',
  Type.Object({ items: Type.Array(Subscription, { maxItems: maxSubscriptions }) })
)
const readMethods = documented('a list of payment methods', Type.Object({ items: Type.Array(Type.Object({ id: Id, type: IdOf(50) })) }))
const readProduct = documented('a product', Type.Object({ id: Id }))
const readProducts = documented(
  'a list of products',
  Type.Object({
    items: Type.Array(Type.Object({ id: Id, prices: Type.Array(Type.Object({ id: Id })) })),
    pagination: Type.Object({ max_page: Type.Integer() })
  })
)
const readCheckout = documented(
  'a checkout',
  Type.Object({
    id: Id,
    url: Type.String({ pattern: '^https?://', maxLength: 4096 }),
    total_amount: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    currency: Type.String({ pattern: '^[A-Za-z]{3}$' })
  })
)

/** Throws if the SDK's package is missing. Sends nothing. */
export async function createPayprov (
  { apiKey, organizationId, baseUrl, timeoutMs, webhookSecrets }: ProviderSettings
): Promise<PaymentProvider> {
  const client = await createPayprovClient({ accessToken: apiKey, organizationId, baseUrl })
  const products = new Map<string, string>()

  /** The id of the product with this id, or with a price of this id. `notFound` if there is none. */
  async function productOf (id: string, time: CallTime): Promise<string> {
    const known = products.get(id)
    if (known !== undefined) return known
    const product = await productNamed(id, time) ?? await productWithPrice(id, time)
    if (products.size < maxProducts) products.set(id, product)
    return product
  }

  async function productNamed (id: string, time: CallTime): Promise<string | undefined> {
    if (!isProviderId(id)) throw failure('notFound')
    try {
      return await client.call({ repeatable: true, time }, async (polar) => readProduct(await polar.products.get(id)).id)
    } catch (error) {
      // Polar refuses ids in another form, which an id of a price may have.
      if (isFailure(error, 'notFound') || isFailure(error, 'providerRefused')) return undefined
      throw error
    }
  }

  async function productWithPrice (price: string, time: CallTime): Promise<string> {
    for (let page = 1; page <= maxProductPages; page++) {
      const { items, pagination } = await client.call(
        { repeatable: true, time },
        async (polar) => readProducts(await polar.products.list({ page, limit: 100 }))
      )
      const product = items.find(({ prices }) => prices.some(({ id }) => id === price))
      if (product !== undefined) return product.id
      if (page >= pagination.max_page) break
    }
    throw failure('notFound')
  }

  /**
   * Takes the steps that the subscription needs, each for the state after the one before. Each try reads it again, so that a change whose
   * response was lost is not repeated, even if Polar ignores the idempotency key.
   */
  async function change (
    id: string,
    idempotencyKey: string,
    steps: readonly Step[],
    time = new CallTime(timeoutMs)
  ): Promise<Snapshot> {
    if (!isProviderId(id)) throw failure('notFound')
    return await client.call({ repeatable: true, idempotencyKey, time }, async (polar) => {
      let subscription = readSubscription(await polar.subscriptions.get(id))
      for (const step of steps) {
        const update = step(subscription)
        if (update === null) continue
        if (subscription.ended_at !== null) throw failure('providerRefused', { message: 'The subscription has ended' })
        subscription = readSubscription(await polar.subscriptions.update(id, update))
      }
      return snapshotOf(subscription)
    })
  }

  return {
    name: 'payprov',
    async checkout ({ tenant, deletedAt, email, product, successUrl, cancelUrl, idempotencyKey }): Promise<Checkout> {
      const time = new CallTime(timeoutMs)
      const products = [await productOf(product, time)]
      // After a lost response, a second checkout is harmless: the address of the first one is unknown.
      return await client.call({ repeatable: true, idempotencyKey, time }, async (polar) => {
        const { id, url, total_amount: amount, currency } = readCheckout(
          await polar.checkouts.create({
            products,
            external_customer_id: externalIdOf({ tenant, deletedAt }),
            ...email !== undefined && { customer_email: email },
            metadata: { tenant_id: tenant },
            success_url: successUrl,
            return_url: cancelUrl
          })
        )
        return { id, url, amount, currency: currency.toLowerCase() }
      })
    },
    async subscriptions (tenant) {
      const time = new CallTime(timeoutMs)
      const listed = await client.call(
        { repeatable: true, time },
        (polar) =>
          Promise.all(
            [{ external_customer_id: tenant }, { metadata: { tenant_id: tenant } }].map(async (filter) =>
              readSubscriptions(await polar.subscriptions.list({ ...filter, sorting: ['-started_at'], page: 1, limit: maxSubscriptions }))
                .items
            )
          )
      )
      const all = new Map(listed.flat().map((subscription) => [subscription.id, subscription]))
      const own = [...all.values()].map((subscription) => ({ subscription, snapshot: snapshotOf(subscription) }))
        .filter(({ snapshot }) => snapshot.tenant === tenant)
        .sort((one, other) => other.snapshot.startedAt.getTime() - one.snapshot.startedAt.getTime())
        .slice(0, maxSubscriptions)
      const [newest] = own
      if (newest === undefined) return []
      const { customer_id: customer, customer: { default_payment_method_id: method } } = newest.subscription
      const paymentMethod = typeof method === 'string'
        ? await orNull(client.call({ repeatable: true, time }, (polar) => methodKind(polar, customer, method)))
        : null
      return own.map(({ snapshot }) => snapshot.customerId === customer ? { ...snapshot, paymentMethod } : snapshot)
    },
    async changeProduct (id, product, when, idempotencyKey) {
      const time = new CallTime(timeoutMs)
      const productId = await productOf(product, time)
      const proration = when === 'now' ? 'invoice' : 'next_period'
      const isThere = (subscription: Subscription) => subscription.product_id === productId
      const isComing = (subscription: Subscription) =>
        when === 'period_end' && !isThere(subscription) && pendingOf(subscription) === productId
      return await change(id, idempotencyKey, [
        ({ status }) => {
          if (when === 'now') requirePaid(status)
          return null
        },
        // Polar does not change a subscription with a scheduled end.
        goingOn,
        (subscription) =>
          isThere(subscription) || isComing(subscription) ? null : { product_id: productId, proration_behavior: proration },
        // Last, so that a refused change keeps the pending one. A change that Polar accepts usually replaces it.
        (subscription) => isComing(subscription) ? null : nothingPending(subscription)
      ], time)
    },
    async cancel (id, idempotencyKey) {
      return await change(id, idempotencyKey, [({ cancel_at_period_end: isCanceled, ended_at: endedAt }) =>
        isCanceled || endedAt !== null ? null : { cancel_at_period_end: true }])
    },
    async resume (id, idempotencyKey) {
      let isNeeded = false
      const noted = (step: Step): Step => (subscription) => {
        const update = step(subscription)
        // A try after a lost response finds it done.
        isNeeded ||= update !== null
        return update
      }
      const snapshot = await change(id, idempotencyKey, [
        noted((subscription) => subscription.ended_at === null ? goingOn(subscription) : { cancel_at_period_end: false }),
        noted(nothingPending)
      ])
      return isNeeded ? snapshot : null
    },
    readWebhook: webhookReader(webhookSecrets)
  }
}

/** Polar does not change the external id of a customer. The id of another tenant cannot contain the separator. */
function externalIdOf ({ tenant, deletedAt }: Pick<CheckoutInput, 'tenant' | 'deletedAt'>): string {
  return deletedAt === null ? tenant : `${tenant}@${deletedAt.getTime()}`
}

function pendingOf ({ pending_update: pending }: Subscription): string | null {
  return pending?.product_id ?? null
}

/** Withdraws a scheduled end. */
function goingOn ({ cancel_at_period_end: isCanceled }: Subscription): models.SubscriptionUpdate | null {
  return isCanceled ? { cancel_at_period_end: false } : null
}

/** Withdraws a pending change. */
function nothingPending ({ pending_update: pending }: Subscription): models.SubscriptionUpdate | null {
  return pending === null || pending === undefined ? null : { pending_update: null }
}

/** The kind of a customer's payment method, such as `card`; null if either no longer exists. */
async function methodKind (polar: PayprovServices, customer: string, method: string): Promise<string | null> {
  const { items } = readMethods(await polar.customers.listPaymentMethods(customer, { page: 1, limit: 100 }))
  return items.find(({ id }) => id === method)?.type ?? null
}
