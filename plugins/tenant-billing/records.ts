/**
 * The schemas of tenants' billing records, and their conversion from payprov's responses. Throws a ProviderFault for
 * undocumented responses.
 */
import { type Static, type TSchema, Type } from 'typebox'
import { OrNull } from '../../lib/http/schemas.js'
import { named } from '../../lib/validation/named-schema.js'
import { documented } from '../billing/providers/call.js'

const Text = (description: string) => Type.String({ description })
const TextOrNull = (description: string) => OrNull(Type.String(), description)
const Time = (description: string) => Type.String({ format: 'date-time', description })

export const intervals = ['day', 'week', 'month', 'year'] as const
export type Interval = typeof intervals[number]

const Price = named(
  'Price',
  Type.Object({
    id: Text('The id of the price, for `productPriceId` of a checkout.'),
    amount: OrNull(
      Type.Integer(),
      'The amount in minor units of the currency; 0 is free. null if it is not fixed: a price per seat, per unit or by usage, or an amount chosen by the customer.'
    ),
    currency: Text('The ISO 4217 code of the currency in lower case, such as `usd`.'),
    interval: TextOrNull('The billing interval: `day`, `week`, `month` or `year`; null for a one-time payment.'),
    intervalCount: Type.Optional(Type.Integer({ description: 'The number of intervals between two payments. Absent means 1.' }))
  })
)

export const Product = named(
  'Product',
  Type.Object({
    id: Type.String(),
    name: Type.String(),
    description: TextOrNull('The description of the product; null if it has none.'),
    prices: Type.Array(Price)
  })
)
export type Product = Static<typeof Product>

export const Customer = named(
  'Customer',
  Type.Object({
    id: Type.String(),
    email: TextOrNull('The e-mail address; null for a team without its own address.'),
    name: TextOrNull('The name of the customer; null if it is unknown.'),
    created_at: Time('The time at which the customer was created.')
  })
)
export type Customer = Static<typeof Customer>

export const Subscription = named(
  'CustomerSubscription',
  Type.Object({
    id: Type.String(),
    customer_id: Type.String(),
    status: Text(
      'The status of the subscription at payprov: `active`, `trialing`, `past_due`, `canceled`, `unpaid`, `paused`, `incomplete` or `incomplete_expired`.'
    ),
    current_period_end: Time('The end of the paid period.'),
    product: Type.Object({ name: Type.String() })
  })
)
export type Subscription = Static<typeof Subscription>

export const CustomerState = named(
  'CustomerState',
  Type.Object({
    customerId: Type.String(),
    hasActiveSubscription: Type.Boolean(),
    subscriptions: Type.Array(Type.Object({ id: Type.String(), status: Type.String(), product: Text('The name of the product.') }), {
      description: 'The active and trialing subscriptions.'
    })
  })
)

export const Checkout = named(
  'Checkout',
  Type.Object({ id: Type.String(), url: Text('The URL of the page on which the customer pays.') })
)
export type Checkout = Static<typeof Checkout>

/** A page of a list, and the number of the last page. */
export interface Page<Item> {
  readonly items: Item[]
  readonly maxPage: number
}

const Given = Type.String()
const GivenOrNull = Type.Optional(OrNull(Type.String()))
const GivenTime = Type.String({ format: 'date-time' })
const Amount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

const price = { id: Given, price_currency: Given, is_archived: Type.Optional(Type.Boolean()), recurring_interval: GivenOrNull }
const GivenPrice = Type.Union([
  Type.Object({ ...price, amount_type: Type.Literal('fixed'), price_amount: Amount }),
  // A price that customers choose, a price per seat, per unit or by use, or a future kind.
  Type.Object({ ...price, amount_type: Type.String({ pattern: '^(?!fixed$)' }) })
])
const GivenProduct = Type.Object({
  id: Given,
  name: Given,
  description: GivenOrNull,
  recurring_interval: GivenOrNull,
  recurring_interval_count: Type.Optional(OrNull(Type.Integer({ minimum: 1 }))),
  prices: Type.Array(GivenPrice)
})
const GivenCustomer = Type.Object({ id: Given, email: GivenOrNull, name: GivenOrNull, created_at: GivenTime })
const GivenSubscription = Type.Object({
  id: Given,
  customer_id: Given,
  status: Given,
  current_period_end: GivenTime,
  cancel_at_period_end: Type.Boolean(),
  ended_at: GivenOrNull,
  product: Type.Object({ name: Given })
})
const GivenCheckout = Type.Object({ id: Given, url: Type.String({ pattern: '^https?://' }) })

export const productsOf = pageReader('a list of products', GivenProduct, toProduct)
export const customersOf = pageReader(
  'a list of customers',
  GivenCustomer,
  ({ id, email = null, name = null, created_at: createdAt }): Customer => ({ id, email, name, created_at: isoOf(createdAt) })
)
export const subscriptionsOf = pageReader('a list of subscriptions', GivenSubscription, toSubscription)

const readProduct = documented('a product', GivenProduct)
const readMade = documented(
  'a list of products',
  Type.Object({ items: Type.Array(Type.Object({ ...GivenProduct.properties, created_at: GivenTime })) })
)
const readSubscription = documented('a subscription', GivenSubscription)
const readCheckout = documented('a checkout', GivenCheckout)

export const stateOf = documented(
  'the state of a customer',
  Type.Object({ id: Given, active_subscriptions: Type.Array(Type.Object({ id: Given, status: Given, product_id: Given })) })
)

export function productOf (value: unknown): Product {
  return toProduct(readProduct(value))
}

/** The first product of a list, if it was created after that time, in ms since 1970. */
export function firstSince (value: unknown, since: number): Product | undefined {
  const [first] = readMade(value).items
  return first !== undefined && Date.parse(first.created_at) > since ? toProduct(first) : undefined
}

/** A canceled subscription. `cancelAtPeriodEnd`: it continues until its period ends. */
export function canceledOf (value: unknown) {
  const subscription = readSubscription(value)
  return {
    id: subscription.id,
    subscription: toSubscription(subscription),
    cancelAtPeriodEnd: subscription.cancel_at_period_end,
    hasEnded: (subscription.ended_at ?? null) !== null
  }
}

export function checkoutOf (value: unknown): Checkout {
  const { id, url } = readCheckout(value)
  return { id, url }
}

function pageReader<S extends TSchema, Item> (name: string, schema: S, itemOf: (given: Static<S>) => Item): (value: unknown) => Page<Item> {
  const read = documented(name, Type.Object({ items: Type.Array(schema), pagination: Type.Object({ max_page: Type.Integer() }) }))
  return (value) => {
    const { items, pagination } = read(value)
    return { items: items.map(itemOf), maxPage: pagination.max_page }
  }
}

/** Archived prices are omitted, since they cannot be bought. Older prices have their own interval. */
function toProduct (product: Static<typeof GivenProduct>): Product {
  const { id, name, description = null, recurring_interval: interval = null, recurring_interval_count: count } = product
  return {
    id,
    name,
    description,
    prices: product.prices.filter((price) => price.is_archived !== true).map((price) => ({
      id: price.id,
      amount: price.amount_type === 'fixed' && 'price_amount' in price ? price.price_amount : null,
      currency: price.price_currency.toLowerCase(),
      interval: price.recurring_interval ?? interval,
      ...typeof count === 'number' && count > 1 && { intervalCount: count }
    }))
  }
}

function toSubscription (
  { id, customer_id: customer, status, current_period_end: end, product }: Static<typeof GivenSubscription>
): Subscription {
  return { id, customer_id: customer, status, current_period_end: isoOf(end), product: { name: product.name } }
}

function isoOf (time: string): string {
  return new Date(time).toISOString()
}
