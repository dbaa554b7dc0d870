/** Webhooks of Stripe: their signature and their content. */
import { failure } from '../../../../lib/errors.js'
import { stripe } from '../../../../lib/webhooks/schemes.js'
import { readSigned } from '../call.js'
import type { EventContent, Payment, PaymentProvider, ProviderEvent } from '../provider.js'
import { type AltprovEvent, type AltprovInvoice, readCharge, readEvent, readInvoice, readSession } from './documented.js'
import { idOf, snapshotOf, subscriptionOf, tenantOf, time } from './snapshot.js'

export function webhookReader (secrets: readonly string[]): PaymentProvider['readWebhook'] {
  return (body, headers, now) => {
    stripe.verify({ body, headers, now, target: '', origins: [] }, secrets)
    const text = textOf(body)
    if (text === null) throw failure('signatureInvalid')
    return readSigned(text, (value) => {
      const { object }: { object?: unknown } = Object(value)
      return object === 'v2.core.event' ? null : eventOf(readEvent(value))
    })
  }
}

/** The signed text, with a byte order mark; null for invalid UTF-8, which is never signed. */
function textOf (body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    return null
  }
}

function eventOf ({ id, type, created, account, data: { object } }: AltprovEvent): ProviderEvent | null {
  // The event belongs to a connected account, whose owner could name any tenant.
  if (account !== null && account !== undefined) return null
  const at = time(created)
  const content = contentOf(type, object, at)
  return content === null ? null : { id, type, at, ...content }
}

function contentOf (type: string, object: unknown, at: Date): EventContent | null {
  if (type.startsWith('customer.subscription.')) return ofSubscription(object, at)
  if (type.startsWith('invoice.')) return ofInvoice(type, object)
  if (type === 'checkout.session.completed') return ofCheckout(object)
  if (type === 'charge.refunded') return ofRefund(object)
  return null
}

function ofSubscription (object: unknown, at: Date): EventContent {
  const snapshot = snapshotOf(subscriptionOf(object), at)
  return { tenant: snapshot.tenant, subscriptionId: snapshot.id, customerId: snapshot.customerId, snapshot, payment: null }
}

/**
 * Only subscriptions of the account concern the platform. The metadata name the tenant; `client_reference_id` does not count, since any
 * visitor of a payment link can choose it.
 */
function ofCheckout (object: unknown): EventContent | null {
  const { mode, metadata, customer, subscription } = readSession(object)
  if (mode !== 'subscription') return null
  return {
    tenant: tenantOf(metadata?.tenant_id),
    subscriptionId: idOrNull(subscription),
    customerId: idOrNull(customer),
    snapshot: null,
    payment: null
  }
}

function ofInvoice (type: string, object: unknown): EventContent {
  const invoice = readInvoice(object)
  const details = invoice.parent?.subscription_details ?? invoice.subscription_details
  return {
    tenant: tenantOf(details?.metadata?.tenant_id),
    subscriptionId: idOrNull(details?.subscription ?? invoice.subscription),
    customerId: idOrNull(invoice.customer),
    snapshot: null,
    payment: paymentOf(type, invoice)
  }
}

/** `invoice.payment_succeeded` reports the same payment as `invoice.paid`. */
function paymentOf (type: string, { id, currency, amount_paid: paid, amount_due: due }: AltprovInvoice): Payment | null {
  if (id === undefined || id === null) return null
  if (type === 'invoice.paid') return { id, outcome: 'paid', amount: paid, currency }
  if (type === 'invoice.payment_failed') return { id, outcome: 'failed', amount: Math.max(0, due), currency }
  return null
}

/** The amount is the total refund of the charge so far. */
function ofRefund (object: unknown): EventContent {
  const { id, customer, currency, amount_refunded: amount, metadata } = readCharge(object)
  return {
    tenant: tenantOf(metadata.tenant_id),
    subscriptionId: null,
    customerId: idOrNull(customer),
    snapshot: null,
    payment: { id, outcome: 'refunded', amount, currency }
  }
}

function idOrNull (named: string | { readonly id: string } | null | undefined): string | null {
  return named === null || named === undefined ? null : idOf(named)
}
