/**
 * The used members of Stripe's objects, as its API documents them from 2025-03-31 on (periods belong to items, an invoice has a parent) and
 * before (they belong to the subscription). An event has the version of its webhook endpoint, which may differ from that of the SDK.
 */
import { type Static, type TSchema, Type } from 'typebox'
import { OrNull } from '../../../../lib/http/schemas.js'
import { documented, Id as IdOf } from '../call.js'

/** Seconds since 1970, until the year 9999. */
const Timestamp = Type.Integer({ minimum: 0, maximum: 253_402_300_799 })
const Id = IdOf(255)
const Currency = Type.String({ pattern: '^[a-z]{3}$' })
const Amount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Metadata = Type.Object({ tenant_id: Type.Optional(Type.String({ maxLength: 500 })) })

/** An object, or its id where it is not expanded. */
const Expandable = <S extends TSchema>(schema: S) => Type.Union([Id, schema])
const Named = Type.Object({ id: Id })
const PaymentMethod = Expandable(Type.Object({ id: Id, type: IdOf(100) }))

const Customer = Type.Object({
  id: Id,
  email: Type.Optional(OrNull(Type.String())),
  metadata: Type.Optional(Metadata), // a deleted one has none
  invoice_settings: Type.Optional(Type.Object({ default_payment_method: Type.Optional(OrNull(PaymentMethod)) }))
})

const Period = { current_period_start: Type.Optional(Timestamp), current_period_end: Type.Optional(Timestamp) }

const Item = Type.Object({
  ...Period,
  id: Id,
  price: Type.Object({ id: Id, product: Expandable(Named) }),
  quantity: Type.Optional(Type.Integer({ minimum: 0 }))
})

const Subscription = Type.Object({
  ...Period,
  id: Id,
  customer: Expandable(Customer),
  status: Type.Enum(['active', 'canceled', 'incomplete', 'incomplete_expired', 'past_due', 'paused', 'trialing', 'unpaid']),
  metadata: Metadata,
  created: Timestamp,
  start_date: Timestamp,
  cancel_at_period_end: Type.Boolean(),
  cancel_at: OrNull(Timestamp),
  canceled_at: OrNull(Timestamp),
  ended_at: OrNull(Timestamp),
  schedule: Type.Optional(OrNull(Expandable(Named))),
  default_payment_method: Type.Optional(OrNull(PaymentMethod)),
  items: Type.Object({ data: Type.Array(Item, { minItems: 1, maxItems: 100 }) })
})
export type AltprovSubscription = Static<typeof Subscription>
export type AltprovItem = Static<typeof Item>
export const readSubscription = documented('a subscription', Subscription)
export const readList = documented('a list', Type.Object({ data: Type.Array(Type.Unknown(), { maxItems: 100 }) }))
/** Only the customers of a search are used: its other members may be outdated. */
export const readFound = documented(
  'a result of a search for subscriptions',
  Type.Object({ data: Type.Array(Type.Object({ customer: Expandable(Named) }), { maxItems: 100 }) })
)

export const readCustomer = documented('a customer', Customer)
export const readCustomers = documented(
  'a list of customers',
  Type.Object({ data: Type.Array(Type.Object({ ...Customer.properties, created: Timestamp }), { maxItems: 100 }) })
)

const Price = Type.Object({
  id: Id,
  recurring: OrNull(Type.Object({ interval: Type.Enum(['day', 'week', 'month', 'year']), interval_count: Type.Integer({ minimum: 1 }) }))
})
export type AltprovPrice = Static<typeof Price>
export const readPrice = documented('a price', Price)
export const readPrices = documented('a list of prices', Type.Object({ data: Type.Array(Price, { maxItems: 100 }) }))
export const readProduct = documented('a product', Type.Object({ id: Id, default_price: Type.Optional(OrNull(Price)) }))

const Discounts = Type.Optional(Type.Array(Type.Object({
  coupon: Type.Optional(OrNull(Expandable(Named))),
  discount: Type.Optional(OrNull(Expandable(Named))),
  promotion_code: Type.Optional(OrNull(Expandable(Named)))
})))
const TaxRates = Type.Optional(OrNull(Type.Array(Named)))
const Phase = Type.Object({
  start_date: Timestamp,
  end_date: Timestamp,
  trial_end: OrNull(Timestamp),
  discounts: Discounts,
  default_tax_rates: TaxRates,
  automatic_tax: Type.Optional(OrNull(Type.Object({ enabled: Type.Boolean() }))),
  items: Type.Array(
    Type.Object({
      price: Expandable(Named),
      quantity: Type.Optional(Type.Integer({ minimum: 0 })),
      discounts: Discounts,
      tax_rates: TaxRates
    }),
    { minItems: 1 }
  )
})
export type AltprovPhase = Static<typeof Phase>
export type AltprovDiscounts = Static<typeof Discounts>
export const readSchedule = documented(
  'a schedule of a subscription',
  Type.Object({
    id: Id,
    end_behavior: Type.String(),
    current_phase: OrNull(Type.Object({ start_date: Timestamp, end_date: Timestamp })),
    phases: Type.Array(Phase)
  })
)
export type AltprovSchedule = ReturnType<typeof readSchedule>

const Checkout = Type.Object({ id: Id, url: Type.String({ pattern: '^https?://' }), amount_total: Amount, currency: Currency })
export const readCheckout = documented('a checkout session', Checkout)
/** A session that was open: only an open one has an address. */
export const readLaterCheckout = documented(
  'a checkout session',
  Type.Object({ ...Checkout.properties, url: OrNull(Checkout.properties.url), status: OrNull(Type.String()) })
)

export const readEvent = documented(
  'an event',
  Type.Object({
    id: Id,
    object: Type.Literal('event'),
    type: IdOf(255),
    created: Timestamp,
    account: Type.Optional(OrNull(Type.String())),
    data: Type.Object({ object: Type.Unknown() })
  })
)
export type AltprovEvent = ReturnType<typeof readEvent>

export const readSession = documented(
  'a checkout session',
  Type.Object({
    id: Id,
    mode: Type.String(),
    metadata: OrNull(Metadata),
    customer: OrNull(Expandable(Named)),
    subscription: OrNull(Expandable(Named))
  })
)

const SubscriptionDetails = Type.Object({
  metadata: Type.Optional(OrNull(Metadata)),
  subscription: Type.Optional(OrNull(Expandable(Named)))
})
export const readInvoice = documented(
  'an invoice',
  Type.Object({
    id: Type.Optional(OrNull(Id)), // an upcoming one has none
    customer: OrNull(Expandable(Named)),
    currency: Currency,
    amount_due: Type.Integer(),
    amount_paid: Amount,
    parent: Type.Optional(OrNull(Type.Object({ subscription_details: Type.Optional(OrNull(SubscriptionDetails)) }))),
    subscription_details: Type.Optional(OrNull(SubscriptionDetails)),
    subscription: Type.Optional(OrNull(Expandable(Named)))
  })
)
export type AltprovInvoice = ReturnType<typeof readInvoice>

export const readCharge = documented(
  'a charge',
  Type.Object({
    id: Id,
    customer: OrNull(Expandable(Named)),
    currency: Currency,
    amount_refunded: Amount,
    metadata: Metadata
  })
)
