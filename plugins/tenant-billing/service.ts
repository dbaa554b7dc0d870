/** The handlers of the endpoints of tenants' billing. They store none of payprov's responses. */
import type { FastifyInstance } from 'fastify'
import type { TenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { type Actor, type AuditEntry, noteAudit } from '../../lib/database/audit.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { Owner, TenantLife } from '../../lib/identity/tenant-ref.js'
import { dayMs } from '../../lib/time/spans.js'
import type { IdempotencyKey } from '../billing/idempotency.js'
import type { PayprovServices } from '../billing/providers/payprov/client.js'
import type { Account, Accounts } from './account.js'
import { checkUrl, currencies, type Currency, intervalOf, type NewCheckout, type NewProduct } from './input.js'
import { listAll, pageSize, type ProviderPage, type Resource } from './pages.js'
import {
  canceledOf, type Checkout,
  checkoutOf, type Customer, customersOf, firstSince, type Page, type Product, productOf, productsOf, stateOf, type Subscription,
  subscriptionsOf
} from './records.js'

/** The actor of a change and its tenant, and the idempotency key that its attempts share. */
export interface Request extends IdempotencyKey {
  readonly actor: Actor
  /** As the request found the tenant. */
  readonly life: TenantLife
}

/**
 * The tenant is the first argument. All throw `secretRequired` without a key of the tenant, `providerKeyRefused` for a key that
 * payprov refuses, and the errors of calls to payprov.
 */
export type TenantBilling = ReturnType<typeof createTenantBilling>

const keyMember = 'idempotency_key' // in a product's metadata
const keyMs = dayMs // as long as the plugin idempotency keeps a key
const maxSearched = 100 // pages of products searched for a price

/** Reads a page, the oldest first, so that new records do not move others to another page. */
type Listing<Item> = (polar: PayprovServices, page: number) => Promise<Page<Item>>
const listProducts: Listing<Product> = async ({ products }, page) =>
  productsOf(await products.list({ is_archived: false, sorting: ['created_at'], page, limit: pageSize }))
const listCustomers: Listing<Customer> = async ({ customers }, page) =>
  customersOf(await customers.list({ sorting: ['created_at'], page, limit: pageSize }))
const listSubscriptions: Listing<Subscription> = async ({ subscriptions }, page) =>
  subscriptionsOf(await subscriptions.list({ sorting: ['started_at'], page, limit: pageSize }))

/** @param now the clock, in milliseconds since 1970 */
export function createTenantBilling ({ engine, log }: FastifyInstance, accounts: Accounts, places: TenantLimiter, now: () => number) {
  /** Runs the work with the tenant's account, in one of its slots. */
  function on<T> (tenant: Owner, work: (account: Account) => Promise<T>): Promise<T> {
    return places.run(tenant, async () => await work(await accounts.open(tenant)))
  }

  function list<Item extends { readonly id: string }> (
    tenant: Owner,
    resource: Resource,
    cursor: string | undefined,
    listing: Listing<Item>
  ): Promise<ProviderPage<Item>> {
    return on(tenant, (account) => listAll(resource, cursor, (page) => read(account, (polar) => listing(polar, page))))
  }

  /**
   * Makes a change at payprov and audits its outcome, which may be unknown. There is no transaction with payprov: if the entry
   * cannot be written, the change is still answered and logged.
   */
  async function audited<T extends { readonly id: string }> (
    tenant: Owner,
    entry: Pick<AuditEntry, 'action' | 'actor' | 'target' | 'details'> & Pick<Request, 'life'>,
    work: () => Promise<T>
  ): Promise<T> {
    const note = (ended: Pick<AuditEntry, 'outcome' | 'target'>) =>
      noteAudit({ engine, log }, { ...entry, ...ended, tenant, at: new Date(now()) })
    try {
      const done = await work()
      await note({ outcome: 'success', target: done.id })
      return done
    } catch (error) {
      if (isFailure(error, 'providerFailed') || isFailure(error, 'providerTimeout')) {
        await note({ outcome: 'failure', target: entry.target })
      }
      throw error
    }
  }

  return {
    products: (tenant: Owner, cursor?: string) => list(tenant, 'products', cursor, listProducts),
    customers: (tenant: Owner, cursor?: string) => list(tenant, 'customers', cursor, listCustomers),
    subscriptions: (tenant: Owner, cursor?: string) => list(tenant, 'subscriptions', cursor, listSubscriptions),

    async createProduct (
      tenant: Owner,
      { name, description = null, prices }: NewProduct,
      { actor, life, idempotencyKey, isCallers }: Request
    ): Promise<Product> {
      const product = {
        name,
        description,
        recurring_interval: intervalOf(prices),
        metadata: { [keyMember]: idempotencyKey },
        prices: prices.map(({ amount, currency }) => ({ amount_type: 'fixed' as const, price_amount: amount, price_currency: currency }))
      }
      return await on(tenant, (account) =>
        audited(tenant, { action: 'tenant_billing.product.create', actor, life, details: { name } }, () => {
          let mayBeThere = isCallers
          return account.call({ repeatable: true, idempotencyKey }, async (polar) => {
            const made = mayBeThere ? await madeWith(polar, idempotencyKey, now() - keyMs) : undefined
            mayBeThere = true
            return made ?? productOf(await polar.products.create(product))
          })
        }))
    },

    /** Throws `notFound` if no product has the price. */
    async createCheckout (
      tenant: Owner,
      { productPriceId, customerEmail, successUrl, cancelUrl }: NewCheckout,
      { actor, life, idempotencyKey }: Request
    ): Promise<Checkout> {
      checkUrl(successUrl, 'successUrl')
      checkUrl(cancelUrl, 'cancelUrl')
      return await on(tenant, async (account) => {
        const { product, currency } = await soldAt(account, productPriceId)
        const checkout = { products: [product], currency, customer_email: customerEmail, success_url: successUrl, return_url: cancelUrl }
        return await audited(tenant, { action: 'tenant_billing.checkout.create', actor, life, details: { productPriceId } }, () => {
          // After a lost response a second checkout is harmless: the address of the first one is unknown.
          return account.call({ repeatable: true, idempotencyKey }, async ({ checkouts }) => checkoutOf(await checkouts.create(checkout)))
        })
      })
    },

    customerState: (tenant: Owner, id: string) =>
      on(tenant, async (account) => {
        const { id: customerId, active_subscriptions: active } = await read(
          account,
          async ({ customers }) => stateOf(await customers.getState(id))
        )
        const names = await productNames(account, active.map(({ product_id: product }) => product))
        return {
          customerId,
          hasActiveSubscription: active.length > 0,
          subscriptions: active.map(({ id, status, product_id: product }) => ({ id, status, product: nameIn(names, product) }))
        }
      }),

    /** Repeated calls have the same result. */
    cancel: (tenant: Owner, id: string, atPeriodEnd: boolean, { actor, life, idempotencyKey }: Request) =>
      on(tenant, (account) =>
        audited(tenant, { action: 'tenant_billing.subscription.cancel', actor, life, target: id, details: { atPeriodEnd } }, () =>
          cancelOnce(account, id, atPeriodEnd, idempotencyKey)))
  }
}

function read<T> (account: Account, run: (polar: PayprovServices) => Promise<T>): Promise<T> {
  return account.call({ repeatable: true }, run)
}

/** The product of an earlier attempt. Polar does not support idempotency keys, so the product is found by the key in its metadata. */
async function madeWith ({ products }: PayprovServices, key: string, since: number): Promise<Product | undefined> {
  const listed = await products.list({ metadata: { [keyMember]: key }, is_archived: false, sorting: ['-created_at'], limit: 1 })
  return firstSince(listed, since)
}

/** The product of the price, and its currency. payprov's checkout takes these, and chooses the product's price in that currency. */
async function soldAt (account: Account, priceId: string): Promise<{ product: string, currency: Currency | null }> {
  for (let page = 1, last = 1; page <= Math.min(last, maxSearched); page++) {
    const { items, maxPage } = await read(account, (polar) => listProducts(polar, page))
    last = maxPage
    for (const { id, prices } of items) {
      const price = prices.find((price) => price.id === priceId)
      if (price === undefined) continue
      // Older products had prices of several intervals, and the checkout would choose among them.
      if (prices.some(({ interval }) => interval !== price.interval)) {
        throw failure('providerRefused', {
          message:
            'The product has prices with several intervals, which payprov no longer sells separately: create a product for each interval'
        })
      }
      return { product: id, currency: currencies.find((currency) => currency === price.currency) ?? null }
    }
  }
  throw failure('notFound', { message: 'None of the products has this price' })
}

async function productNames (account: Account, ids: readonly string[]): Promise<Map<string, string>> {
  const names = new Map<string, string>()
  const wanted = [...new Set(ids)]
  for (let start = 0; start < wanted.length; start += pageSize) {
    const id = wanted.slice(start, start + pageSize)
    const { items } = await read(account, async ({ products }) => productsOf(await products.list({ id, limit: pageSize })))
    for (const product of items) names.set(product.id, product.name)
  }
  return names
}

function nameIn (names: ReadonlyMap<string, string>, productId: string): string {
  const name = names.get(productId)
  if (name !== undefined) return name
  throw failure('providerFailed', { cause: new Error('the response of payprov lacks the product of a subscription') })
}

/** payprov refuses to end a subscription that has ended, perhaps by an earlier attempt. */
async function cancelOnce (account: Account, id: string, atPeriodEnd: boolean, idempotencyKey: string) {
  try {
    return await account.call({ repeatable: true, idempotencyKey }, async ({ subscriptions }) =>
      canceledOf(atPeriodEnd ? await subscriptions.update(id, { cancel_at_period_end: true }) : await subscriptions.revoke(id)))
  } catch (error) {
    if (!isFailure(error, 'providerRefused')) throw error
    const there = await read(account, async ({ subscriptions }) => canceledOf(await subscriptions.get(id)))
    if (there.hasEnded || (atPeriodEnd && there.cancelAtPeriodEnd)) return there
    throw error
  }
}
