/** Events of payprov's webhooks, read after the check of their signature. */
import { type Static, Type } from 'typebox'
import { OrNull } from '../../../../lib/http/schemas.js'
import { keysOf, verified } from '../../../../lib/webhooks/schemes.js'
import { documented, Id as IdOf, readSigned, Time } from '../call.js'
import type { EventContent, Payment, PaymentProvider } from '../provider.js'
import { Customer, Id, Metadata, readSubscription, snapshotOf, tenantOf } from './subscription.js'

const Amount = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })

const readEvent = documented('an event', Type.Object({ type: IdOf(100), timestamp: Time, data: Type.Object({}) }))

const Order = Type.Object({
  id: Id,
  total_amount: Amount,
  refunded_amount: Amount,
  refunded_tax_amount: Amount,
  currency: Type.String({ pattern: '^[A-Za-z]{3}$' }),
  subscription_id: OrNull(Id),
  customer_id: Id,
  metadata: Metadata,
  customer: Customer
})
type Order = Static<typeof Order>
const readOrder = documented('an order', Order)

const subscriptionKinds = [
  'created', 'updated', 'active', 'canceled', 'uncanceled', 'revoked', 'past_due', 'cycled', 'paused', 'resumed', 'migrated'
]

/** The handled kinds; others are ignored. `refund.*` repeats `order.refunded`. */
const contents = new Map<string, (data: unknown) => EventContent>([
  ...subscriptionKinds.map((kind) => [`subscription.${kind}`, subscriptionContent] as const),
  ['order.paid', (data) => orderContent(readOrder(data), 'paid', (order) => order.total_amount)],
  // The total refund so far, with taxes: complete, or partial.
  ['order.refunded', (data) => orderContent(readOrder(data), 'refunded', (order) => order.refunded_amount + order.refunded_tax_amount)]
])

export function webhookReader (secrets: readonly string[]): PaymentProvider['readWebhook'] {
  const keys = secrets.flatMap(keysOf)
  return (body, headers, now) => {
    const { id } = verified(body, headers, keys, now)
    return readSigned(body.toString(), (value) => {
      const { type, timestamp, data } = readEvent(value)
      const contentOf = contents.get(type)
      return contentOf === undefined ? null : { id, type, at: new Date(timestamp), ...contentOf(data) }
    })
  }
}

function subscriptionContent (data: unknown): EventContent {
  const snapshot = snapshotOf(readSubscription(data))
  return { tenant: snapshot.tenant, subscriptionId: snapshot.id, customerId: snapshot.customerId, snapshot, payment: null }
}

function orderContent (order: Order, outcome: Payment['outcome'], amountOf: (order: Order) => number): EventContent {
  return {
    tenant: tenantOf(order),
    subscriptionId: order.subscription_id,
    customerId: order.customer_id,
    snapshot: null,
    payment: { id: order.id, outcome, amount: amountOf(order), currency: order.currency.toLowerCase() }
  }
}
