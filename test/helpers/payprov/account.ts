/** A Polar organization: its products and its customers. */
import { randomUUID } from 'node:crypto'
import type { models } from '@polar-sh/sdk/2026-04'
import type { Change, Sold } from '../payment-world.js'
import {
  type Checkout,
  type Customer,
  intervalDays,
  iso,
  type Metadata,
  newCheckout,
  newCustomer,
  type NewPrice,
  newProduct,
  newSubscription,
  type Product,
  type Subscription
} from './records.js'
import { invalid, notFound, refusal } from './refusal.js'

const day = 86_400_000 // ms

export type Update =
  | { readonly cancel_at_period_end: boolean }
  | { readonly revoke: true }
  | { readonly pending_update: null }
  | { readonly product_id: string, readonly proration_behavior?: models.SubscriptionProrationBehavior }

export interface CheckoutInput {
  readonly products: readonly string[]
  readonly external_customer_id?: string
  readonly customer_email?: string
  /** The currency that selects among the product's prices. */
  readonly currency?: string | null
  readonly metadata?: Metadata
  readonly success_url?: string
  readonly return_url?: string
}

export class Account {
  readonly id = randomUUID()
  readonly token: string
  readonly products = new Map<string, Product>()
  readonly customers = new Map<string, Customer>()
  readonly checkouts = new Map<string, Checkout>()
  readonly subscriptions = new Map<string, Subscription>()
  /** Whether payments for changes of product are declined. */
  declines = false
  readonly #charges = new Map<string, number>()
  readonly #now: () => number

  constructor (token: string, now: () => number) {
    this.token = token
    this.#now = now
  }

  /** A recurring product with one price. */
  sell (
    { name, amount, currency, interval = 'month', description = null }: {
      name: string,
      amount: number,
      currency: string,
      interval?: models.RecurringInterval,
      description?: string | null
    }
  ): Sold {
    const product = this.addProduct({ name, description, interval, prices: [{ amount, currency }] })
    return { product: product.id, price: product.prices[0]?.id ?? '' }
  }

  addProduct (
    given: {
      name: string,
      description?: string | null,
      interval: models.RecurringInterval | null,
      prices: readonly NewPrice[],
      metadata?: Metadata
    }
  ): Product {
    const product = newProduct(this.id, this.#now(), given)
    this.products.set(product.id, product)
    return product
  }

  /** The customer with this external id or address, else a new one. An address belongs to one customer. */
  customerFor (externalId: string | null, email: string, name: string | null = null): Customer {
    const all = [...this.customers.values()]
    const known = (externalId === null ? undefined : all.find((customer) => customer.external_id === externalId)) ??
      all.find((customer) => customer.email === email)
    if (known !== undefined) return known
    const customer = newCustomer(this.id, this.#now(), { email, externalId, name })
    this.customers.set(customer.id, customer)
    return customer
  }

  subscribe (
    customer: Customer,
    productId: string,
    { metadata = {}, checkout = null, trialDays = 0 }: { metadata?: Metadata, checkout?: string | null, trialDays?: number } = {}
  ): Subscription {
    const subscription = newSubscription(this.product(productId), customer, this.#now(), { metadata, checkout, trialDays })
    this.subscriptions.set(subscription.id, subscription)
    if (trialDays === 0) this.#charge(subscription.id)
    return subscription
  }

  checkout (
    { products, external_customer_id: externalId, customer_email: email, currency, metadata = {}, success_url: success, return_url: back }:
    CheckoutInput,
    address: string
  ): Checkout {
    const [first] = products.map((id) => {
      const product = this.products.get(id)
      if (product === undefined) throw invalid('body', 'products.0', 'Product does not exist.')
      if (product.is_archived) throw invalid('body', 'products.0', 'Product is archived.')
      return product
    })
    if (first === undefined) throw invalid('body', 'products', 'List should have at least 1 item')
    const checkout = newCheckout(first, this.#now(), address, currency ?? null, {
      external_customer_id: externalId ?? null,
      customer_email: email ?? null,
      metadata,
      return_url: back ?? null
    })
    checkout.success_url = success?.replaceAll('{CHECKOUT_ID}', checkout.id) ?? `${address}/checkout/${checkout.client_secret}/confirmation`
    this.checkouts.set(checkout.id, checkout)
    return checkout
  }

  pay (id: string): Subscription {
    const checkout = this.checkouts.get(id)
    if (checkout?.product_id === undefined || checkout.product_id === null) throw new Error(`there is no checkout ${id}`)
    const customer = this.customerFor(
      checkout.external_customer_id,
      checkout.customer_email ?? `${checkout.external_customer_id ?? id}@customers.example`
    )
    this.checkouts.set(id, { ...checkout, status: 'succeeded', customer_id: customer.id, modified_at: iso(this.#now()) })
    return this.subscribe(customer, checkout.product_id, { metadata: checkout.metadata, checkout: id })
  }

  /** Updates a subscription, with the rules and errors that Polar documents. */
  update (id: string, update: Update): Subscription {
    const subscription = this.subscription(id)
    const hasEnded = subscription.ended_at !== null
    if ('revoke' in update) {
      if (hasEnded) throw alreadyCanceled()
      return this.change(id, 'end')
    }
    if ('pending_update' in update) {
      if ((subscription.pending_update ?? null) === null) {
        throw invalid('body', 'pending_update', 'This subscription has no pending update to clear.')
      }
      return this.#save(subscription, { pending_update: null })
    }
    if ('cancel_at_period_end' in update) {
      if (hasEnded || (update.cancel_at_period_end && subscription.cancel_at_period_end)) throw alreadyCanceled()
      if (!update.cancel_at_period_end && !subscription.cancel_at_period_end) {
        throw refusal(409, 'SubscriptionNotScheduledToCancel', 'This subscription is not scheduled to be canceled.')
      }
      return this.#save(
        subscription,
        update.cancel_at_period_end
          ? { cancel_at_period_end: true, canceled_at: iso(this.#now()), ends_at: subscription.current_period_end }
          : { cancel_at_period_end: false, canceled_at: null, ends_at: null }
      )
    }
    if (hasEnded || subscription.cancel_at_period_end) throw alreadyCanceled()
    const product = this.products.get(update.product_id)
    if (product === undefined) throw invalid('body', 'product_id', 'Product does not exist.')
    if (update.proration_behavior === 'next_period') {
      const pending = {
        created_at: iso(this.#now()),
        modified_at: null,
        id: randomUUID(),
        applies_at: subscription.current_period_end,
        product_id: product.id,
        seats: null,
        units: null
      }
      return this.#save(subscription, { pending_update: pending })
    }
    if (update.proration_behavior === 'invoice') {
      if (this.declines) throw refusal(402, 'PaymentFailed', 'The payment failed.')
      this.#charge(id)
    }
    // An immediate change clears a pending one.
    return this.#save(subscription, { ...productMembers(product), pending_update: null })
  }

  change (id: string, change: Change): Subscription {
    const subscription = this.subscription(id)
    const now = this.#now()
    switch (change) {
      case 'renew': {
        if (subscription.cancel_at_period_end) {
          return this.#save(subscription, { status: 'canceled', ended_at: subscription.current_period_end })
        }
        const next = subscription.pending_update?.product_id
        this.#charge(id)
        return this.#save(subscription, {
          status: 'active',
          pending_update: null,
          ...nextPeriod(subscription),
          ...next === undefined || next === null ? {} : productMembers(this.product(next))
        })
      }
      case 'pastDue':
        return this.#save(subscription, { status: 'past_due', past_due_at: iso(now), ...nextPeriod(subscription) })
      case 'recover':
        this.#charge(id)
        return this.#save(subscription, { status: 'active', past_due_at: null })
      case 'unpaid':
        return this.#save(subscription, { status: 'unpaid', past_due_at: null })
      case 'end':
        return this.#save(subscription, { status: 'canceled', canceled_at: iso(now), ends_at: iso(now), ended_at: iso(now) })
      default:
        return change satisfies never
    }
  }

  charges (id: string): number {
    return this.#charges.get(id) ?? 0
  }

  product (id: string): Product {
    return found(this.products.get(id))
  }

  subscription (id: string): Subscription {
    return found(this.subscriptions.get(id))
  }

  /** The state of a customer in Polar's form. The SDK's type has wrong statuses. */
  state (id: string): object {
    const customer = found(this.customers.get(id))
    const active = [...this.subscriptions.values()].filter(({ customer_id: owner, status }) =>
      owner === id && (status === 'active' || status === 'trialing')
    )
    return {
      ...customer,
      active_subscriptions: active.map((
        { status, seats, customer: of, product, discount, prices, pending_update: update, ...subscription }
      ) => ({ ...subscription, seats: seats ?? null, status, meters: [] })),
      granted_benefits: [],
      active_meters: []
    }
  }

  #charge (id: string): void {
    this.#charges.set(id, this.charges(id) + 1)
  }

  #save (subscription: Subscription, members: Partial<Subscription>): Subscription {
    const saved = { ...subscription, ...members, modified_at: iso(this.#now()) }
    this.subscriptions.set(saved.id, saved)
    return saved
  }
}

function found<T> (record: T | undefined): T {
  if (record === undefined) throw notFound()
  return record
}

function alreadyCanceled () {
  return refusal(403, 'AlreadyCanceledSubscription', 'This subscription is already canceled or will be at the end of the period.')
}

function productMembers (product: Product): Partial<Subscription> {
  const [price] = product.prices
  return {
    product_id: product.id,
    product,
    prices: product.prices,
    ...price?.amount_type === 'fixed' ? { amount: price.price_amount, currency: price.price_currency } : {},
    ...product.recurring_interval === null ? {} : { recurring_interval: product.recurring_interval }
  }
}

function nextPeriod ({ current_period_end: end, product }: Subscription): Partial<Subscription> {
  const days = intervalDays[product.recurring_interval ?? 'month']
  return { current_period_start: end, current_period_end: iso(Date.parse(end) + days * day) }
}
