/**
 * The records of tenants' billing (SPEC "Tenant billing records"): their schemas, and how they are read from what payprov
 * answers. An answer that is not what payprov documents is `providerFailed`.
 */
import { Type, type Static } from 'typebox'
import { failure, type TenantryError } from '../../lib/errors.js'
import { isRecord } from '../../lib/plain-value.js'

const Text = (description: string) => Type.String({ description })
const TextOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
const Time = (description: string) => Type.String({ format: 'date-time', description })

export const intervals = ['day', 'week', 'month', 'year'] as const
export type Interval = typeof intervals[number]

export const Price = Type.Object({
  id: Text('What a checkout takes as `productPriceId`.'),
  amount: Type.Union([Type.Integer(), Type.Null()], { description: 'In minor units of the currency; 0 is free. null where it is not fixed: by seat, by unit, by use, or what the customer wants to pay.' }),
  currency: Text('ISO 4217 in lower case, such as `usd`.'),
  interval: TextOrNull('How often it is paid: `day`, `week`, `month` or `year`; null: once.'),
  intervalCount: Type.Optional(Type.Integer({ description: 'So many intervals lie between two payments. Left out: 1.' }))
})
export type Price = Static<typeof Price>

export const Product = Type.Object({
  id: Type.String(),
  name: Type.String(),
  description: TextOrNull('null: there is none.'),
  prices: Type.Array(Price)
})
export type Product = Static<typeof Product>

export const Customer = Type.Object({
  id: Type.String(),
  email: TextOrNull('null for a team without one of its own.'),
  name: TextOrNull('null where the customer has not said it.'),
  created_at: Time('When it became a customer.')
})
export type Customer = Static<typeof Customer>

export const Subscription = Type.Object({
  id: Type.String(),
  customer_id: Type.String(),
  status: Text('As payprov tells it: `active`, `trialing`, `past_due`, `canceled`, `unpaid`, `paused`, `incomplete` or `incomplete_expired`.'),
  current_period_end: Time('When the period ends that is paid.'),
  product: Type.Object({ name: Type.String() })
})
export type Subscription = Static<typeof Subscription>

export const CustomerState = Type.Object({
  customerId: Type.String(),
  hasActiveSubscription: Type.Boolean(),
  subscriptions: Type.Array(Type.Object({ id: Type.String(), status: Type.String(), product: Text('The name of the product.') }), { description: 'Those that are active or on trial.' })
})
export type CustomerState = Static<typeof CustomerState>

export const Checkout = Type.Object({
  id: Type.String(),
  url: Text('Where the customer pays.')
})
export type Checkout = Static<typeof Checkout>

/** A page of a list, and how many there are. */
export interface Page<Item> {
  readonly items: Item[]
  readonly maxPage: number
}

export function pageOf<Item> (answer: unknown, itemOf: (value: unknown) => Item): Page<Item> {
  const page = recordOf(answer)
  return { items: listOf(page, 'items').map(itemOf), maxPage: integerOf(recordOf(page['pagination']), 'max_page') }
}

/** Prices that are archived are left out: nobody can buy at them. */
export function productOf (value: unknown): Product {
  const product = recordOf(value)
  const prices = listOf(product, 'prices').map(recordOf).filter((price) => price['is_archived'] !== true)
  return {
    id: textOf(product, 'id'),
    name: textOf(product, 'name'),
    description: textOrNull(product, 'description'),
    prices: prices.map((price) => priceOf(price, product))
  }
}

/** Prices of before had the interval themselves. */
function priceOf (price: Record<string, unknown>, product: Record<string, unknown>): Price {
  const count = product['recurring_interval_count']
  return {
    id: textOf(price, 'id'),
    amount: price['amount_type'] === 'fixed' ? integerOf(price, 'price_amount') : price['amount_type'] === 'free' ? 0 : null,
    currency: textOf(price, 'price_currency').toLowerCase(),
    interval: textOrNull(price, 'recurring_interval') ?? textOrNull(product, 'recurring_interval'),
    ...typeof count === 'number' && count !== 1 && { intervalCount: integerOf(product, 'recurring_interval_count') }
  }
}

export function customerOf (value: unknown): Customer {
  const customer = recordOf(value)
  return { id: textOf(customer, 'id'), email: textOrNull(customer, 'email'), name: textOrNull(customer, 'name'), created_at: timeOf(customer, 'created_at') }
}

export function subscriptionOf (value: unknown): Subscription {
  const subscription = recordOf(value)
  return {
    id: textOf(subscription, 'id'),
    customer_id: textOf(subscription, 'customer_id'),
    status: textOf(subscription, 'status'),
    current_period_end: timeOf(subscription, 'current_period_end'),
    product: { name: textOf(recordOf(subscription['product']), 'name') }
  }
}

/** A subscription that was canceled. */
export interface Canceled {
  readonly id: string
  readonly subscription: Subscription
  /** It goes on until its period ends. */
  readonly cancelAtPeriodEnd: boolean
}

export function canceledOf (value: unknown): Canceled {
  const subscription = subscriptionOf(value)
  return { id: subscription.id, subscription, cancelAtPeriodEnd: recordOf(value)['cancel_at_period_end'] === true }
}

export function hasEnded (value: unknown): boolean {
  return textOrNull(recordOf(value), 'ended_at') !== null
}

export interface ActiveSubscription {
  readonly id: string
  readonly status: string
  readonly productId: string
}

export function stateOf (value: unknown): { customerId: string, active: ActiveSubscription[] } {
  const state = recordOf(value)
  const active = listOf(state, 'active_subscriptions').map((item) => {
    const subscription = recordOf(item)
    return { id: textOf(subscription, 'id'), status: textOf(subscription, 'status'), productId: textOf(subscription, 'product_id') }
  })
  return { customerId: textOf(state, 'id'), active }
}

export function checkoutOf (value: unknown): Checkout {
  const checkout = recordOf(value)
  return { id: textOf(checkout, 'id'), url: textOf(checkout, 'url') }
}

function recordOf (value: unknown): Record<string, unknown> {
  if (!isRecord(value)) throw unreadable('an object is missing')
  return value
}

function listOf (record: Record<string, unknown>, name: string): unknown[] {
  const value = record[name]
  if (!Array.isArray(value)) throw unreadable(`"${name}" is no list`)
  return value
}

function textOf (record: Record<string, unknown>, name: string): string {
  const value = record[name]
  if (typeof value !== 'string') throw unreadable(`"${name}" is no text`)
  return value
}

function textOrNull (record: Record<string, unknown>, name: string): string | null {
  return (record[name] ?? null) === null ? null : textOf(record, name)
}

function integerOf (record: Record<string, unknown>, name: string): number {
  const value = record[name]
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw unreadable(`"${name}" is no whole number`)
  return value
}

function timeOf (record: Record<string, unknown>, name: string): string {
  const time = new Date(textOf(record, name))
  if (Number.isNaN(time.getTime())) throw unreadable(`"${name}" is no time`)
  return time.toISOString()
}

function unreadable (what: string): TenantryError {
  return failure('providerFailed', { cause: new Error(`the answer of payprov is not what it documents: ${what}`) })
}
