/** Polar's records, with all members of the SDK's types. */
import { randomUUID } from 'node:crypto'
import type { models } from '@polar-sh/sdk/2026-04'

export type Product = models.Product
export type Customer = models.CustomerIndividual
export type Subscription = models.Subscription
export type Checkout = models.Checkout
export type Order = models.Order
export type Metadata = models.MetadataOutputType

/** Times are ISO 8601 texts; `iso` converts milliseconds since 1970. */
export const iso = (time: number): string => new Date(time).toISOString()

/** A month has 30 days and a year 365, which is exact enough for the tests. */
export const intervalDays = { day: 1, week: 7, month: 30, year: 365 } as const satisfies Record<models.RecurringInterval, number>

export interface NewPrice {
  readonly amount: number
  readonly currency: string
}

export function newProduct (
  organization: string,
  at: number,
  { name, description = null, interval, prices, metadata = {} }: {
    name: string,
    description?: string | null,
    interval: models.RecurringInterval | null,
    prices: readonly NewPrice[],
    metadata?: Metadata
  }
): Product {
  const id = randomUUID()
  return {
    id,
    created_at: iso(at),
    modified_at: null,
    trial_interval: null,
    trial_interval_count: null,
    name,
    description,
    visibility: 'public',
    recurring_interval: interval,
    recurring_interval_count: interval === null ? null : 1,
    meter_interval: null,
    meter_interval_count: null,
    is_recurring: interval !== null,
    is_archived: false,
    organization_id: organization,
    metadata,
    is_deletable: true,
    prices: prices.map(({ amount, currency }) => ({
      created_at: iso(at),
      modified_at: null,
      id: randomUUID(),
      source: 'catalog',
      amount_type: 'fixed',
      price_currency: currency,
      tax_behavior: null,
      is_archived: false,
      product_id: id,
      price_amount: amount
    })),
    benefits: [],
    medias: [],
    attached_custom_fields: []
  }
}

export function newCustomer (
  organization: string,
  at: number,
  { email, externalId, name = null }: { email: string, externalId: string | null, name?: string | null }
): Customer {
  return {
    id: randomUUID(),
    created_at: iso(at),
    modified_at: null,
    metadata: {},
    external_id: externalId,
    email,
    email_verified: false,
    type: 'individual',
    name,
    billing_name: null,
    billing_address: null,
    tax_id: null,
    locale: null,
    organization_id: organization,
    default_payment_method_id: randomUUID(),
    deleted_at: null,
    first_user_event_at: null,
    avatar_url: `https://gravatar.example/${encodeURIComponent(email)}`
  }
}

export function newCheckout (product: Product, at: number, address: string, wanted: string | null, given: Partial<Checkout>): Checkout {
  const price = product.prices.find(({ price_currency: currency }) => currency === wanted) ?? product.prices[0]
  const id = randomUUID()
  const secret = `polar_c_${randomUUID().replaceAll('-', '')}`
  const amount = price?.amount_type === 'fixed' ? price.price_amount : 0
  const { prices, benefits, ...own } = product
  return {
    id,
    created_at: iso(at),
    modified_at: null,
    custom_field_data: {},
    payment_processor: 'stripe',
    status: 'open',
    client_secret: secret,
    url: `${address}/checkout/${secret}`,
    expires_at: iso(at + 3_600_000),
    success_url: '',
    return_url: null,
    embed_origin: null,
    amount,
    seats: null,
    min_seats: null,
    max_seats: null,
    units: null,
    min_units: null,
    max_units: null,
    discount_amount: 0,
    net_amount: amount,
    tax_amount: null,
    tax_behavior: null,
    total_amount: amount,
    currency: price?.amount_type === 'fixed' ? price.price_currency : 'usd',
    allow_trial: null,
    active_trial_interval: null,
    active_trial_interval_count: null,
    trial_end: null,
    organization_id: product.organization_id,
    product_id: product.id,
    product_price_id: price?.id ?? null,
    discount_id: null,
    allow_discount_codes: true,
    require_billing_address: false,
    is_discount_applicable: true,
    is_free_product_price: amount === 0,
    is_payment_required: amount > 0,
    is_payment_setup_required: true,
    is_payment_form_required: true,
    customer_id: null,
    is_business_customer: false,
    customer_name: null,
    customer_email: null,
    customer_ip_address: null,
    customer_billing_name: null,
    customer_billing_address: null,
    customer_tax_id: null,
    locale: null,
    payment_method_type: null,
    payment_processor_metadata: {},
    billing_address_fields: {
      country: 'required',
      state: 'disabled',
      city: 'disabled',
      postal_code: 'disabled',
      line1: 'disabled',
      line2: 'disabled'
    },
    trial_interval: null,
    trial_interval_count: null,
    metadata: {},
    external_customer_id: null,
    products: [{ ...own, prices, benefits: [] }],
    product: { ...own, prices, benefits: [] },
    product_price: price ?? null,
    prices: { [product.id]: prices },
    discount: null,
    subscription_id: null,
    attached_custom_fields: [],
    customer_metadata: {},
    ...given
  }
}

export function newSubscription (
  product: Product,
  customer: Customer,
  at: number,
  { metadata, checkout = null, trialDays = 0 }: { metadata: Metadata, checkout?: string | null, trialDays?: number }
): Subscription {
  const interval = product.recurring_interval ?? 'month'
  const [price] = product.prices
  const end = at + (trialDays === 0 ? intervalDays[interval] : trialDays) * 86_400_000
  return {
    created_at: iso(at),
    modified_at: null,
    id: randomUUID(),
    amount: price?.amount_type === 'fixed' ? price.price_amount : 0,
    currency: price?.amount_type === 'fixed' ? price.price_currency : 'usd',
    recurring_interval: interval,
    recurring_interval_count: 1,
    status: trialDays === 0 ? 'active' : 'trialing',
    current_period_start: iso(at),
    current_period_end: iso(end),
    current_meter_period_start: null,
    current_meter_period_end: null,
    trial_start: trialDays === 0 ? null : iso(at),
    trial_end: trialDays === 0 ? null : iso(end),
    cancel_at_period_end: false,
    canceled_at: null,
    started_at: iso(at),
    ends_at: null,
    ended_at: null,
    past_due_at: null,
    pause_at_period_end: false,
    paused_at: null,
    resumes_at: null,
    customer_id: customer.id,
    product_id: product.id,
    discount_id: null,
    checkout_id: checkout,
    seats: null,
    units: null,
    customer_cancellation_reason: null,
    customer_cancellation_comment: null,
    metadata,
    custom_field_data: {},
    customer,
    product,
    discount: null,
    prices: product.prices,
    meters: [],
    pending_update: null
  }
}

export function newOrder (subscription: Subscription, at: number, isRefunded: boolean): Order {
  const { customer, product, metadata, amount } = subscription
  const { prices, benefits, medias, attached_custom_fields: fields, is_deletable: isDeletable, ...ownProduct } = product
  const {
    customer: ofCustomer,
    product: ofProduct,
    discount,
    prices: ofPrices,
    meters,
    pending_update: update,
    custom_field_data: data,
    ...ownSubscription
  } = subscription
  return {
    id: randomUUID(),
    created_at: iso(at),
    modified_at: null,
    status: isRefunded ? 'refunded' : 'paid',
    paid: true,
    subtotal_amount: amount,
    discount_amount: 0,
    net_amount: amount,
    tax_amount: 0,
    total_amount: amount,
    applied_balance_amount: 0,
    due_amount: amount,
    refunded_amount: isRefunded ? amount : 0,
    refunded_tax_amount: 0,
    currency: subscription.currency,
    billing_reason: 'subscription_cycle',
    billing_name: null,
    billing_address: null,
    invoice_number: 'TEST-0001',
    is_invoice_generated: false,
    receipt_number: null,
    seats: null,
    units: null,
    customer_id: customer.id,
    product_id: product.id,
    discount_id: null,
    subscription_id: subscription.id,
    checkout_id: null,
    next_payment_attempt_at: null,
    metadata,
    custom_field_data: {},
    platform_fee_amount: 0,
    platform_fee_currency: null,
    customer,
    product: ownProduct,
    discount: null,
    subscription: ownSubscription,
    items: [],
    description: product.name,
    refundable_amount: isRefunded ? 0 : amount,
    refundable_tax_amount: 0
  }
}
