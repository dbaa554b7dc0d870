/** Events of payprov's webhooks, read after the check of their signature. */
import { type Static, Type } from 'typebox'
import { OrNull } from '../../../../lib/http/schemas.js'
import { keysOf, verified } from '../../../../lib/webhooks/schemes.js'
import { documented, Id as IdOf, readSigned, Time } from '../call.js'
import type { EventContent, Payment, PaymentProvider } from '../provider.js'
import { Customer, readSubscription, snapshotOf, tenantOf } from './subscription.js'

const Id = IdOf(200)
const NullableId = OrNull(Id)
const Amount = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })
const Currency = Type.String({ pattern: '^[A-Za-z]{3}$' })

const readEvent = documented(
  'an event',
  Type.Object({
    type: IdOf(100),
    timestamp: Time,
    data: Type.Object({})
  })
)

const Order = Type.Object({
  id: Id,
  total_amount: Amount,
  refunded_amount: Amount,
  refunded_tax_amount: Amount,
  currency: Currency,
  subscription_id: NullableId,
  customer_id: Id,
  metadata: Type.Record(Type.String(), Type.Unknown()),
  customer: Customer
})

/** The handled kinds; others are ignored. `refund.*` repeats `order.refunded`. */
const contents: Readonly<Record<string, (data: unknown) => EventContent>> = {
  'subscription.created': subscriptionContent,
  'subscription.updated': subscriptionContent,
  'subscription.active': subscriptionContent,
  'subscription.canceled': subscriptionContent,
  'subscription.uncanceled': subscriptionContent,
  'subscription.revoked': subscriptionContent,
  'subscription.past_due': subscriptionContent,
  'subscription.cycled': subscriptionContent,
  'subscription.paused': subscriptionContent,
  'subscription.resumed': subscriptionContent,
  'subscription.migrated': subscriptionContent,
  'order.paid': orderContent((order) => ({
    id: order.id,
    outcome: 'paid',
    amount: order.total_amount,
    currency: order.currency.toLowerCase()
  })),
  // The total refund so far, with taxes: complete, or partial.
  'order.refunded': orderContent((order) => ({
    id: order.id,
    outcome: 'refunded',
    amount: order.refunded_amount + order.refunded_tax_amount,
    currency: order.currency.toLowerCase()
  }))
}

export function webhookReader (secrets: readonly string[]): PaymentProvider['readWebhook'] {
  const keys = secrets.flatMap(keysOf)
  return (body, headers, now) => {
    const { id } = verified(body, headers, keys, now)
    return readSigned(body.toString(), (value) => {
      const { type, timestamp, data } = readEvent(value)
      const contentOf = Object.hasOwn(contents, type) ? contents[type] : undefined
      return contentOf === undefined ? null : { id, type, at: new Date(timestamp), ...contentOf(data) }
    })
  }
}

function subscriptionContent (data: unknown): EventContent {
  const snapshot = snapshotOf(readSubscription(data))
  return { tenant: snapshot.tenant, subscriptionId: snapshot.id, customerId: snapshot.customerId, snapshot, payment: null }
}

function orderContent (paymentOf: (order: Static<typeof Order>) => Payment): (data: unknown) => EventContent {
  const readOrder = documented('an order', Order)
  return (data) => {
    const order = readOrder(data)
    return {
      tenant: tenantOf(order),
      subscriptionId: order.subscription_id,
      customerId: order.customer_id,
      snapshot: null,
      payment: paymentOf(order)
    }
  }
}
