/** Webhooks of Stripe: their signature and their content. */
import type { IncomingHttpHeaders } from 'node:http'
import { failure } from '../../../../lib/errors.js'
import { stripe } from '../../../../lib/webhooks/schemes.js'
import { readSigned } from '../call.js'
import type { Payment, ProviderEvent } from '../provider.js'
import { type AltprovEvent, type AltprovInvoice, readCharge, readEvent, readInvoice, readSession } from './documented.js'
import { idOf, snapshotOf, subscriptionOf, tenantOf, time } from './snapshot.js'

export interface SignedBody {
  readonly body: Buffer
  readonly headers: IncomingHttpHeaders
  /** ms */
  readonly now: number
}

/** Throws `signatureInvalid`, or `badRequest` for a signed, undocumented body; null for other kinds. */
export function readAltprovWebhook (secrets: readonly string[], { body, headers, now }: SignedBody): ProviderEvent | null {
  stripe.verify({ body, headers, now, url: '' }, secrets)
  const text = textOf(body)
  if (text === null) throw failure('signatureInvalid')
  return readSigned(text, (value) => {
    const { object }: { object?: unknown } = Object(value)
    return object === 'v2.core.event' ? null : eventOf(readEvent(value))
  })
}

/** The signed text, with a byte order mark; null for invalid UTF-8, which is never signed. */
function textOf (body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    return null
  }
}

function eventOf (event: AltprovEvent): ProviderEvent | null {
  const { type, account, data: { object } } = event
  // The event belongs to a connected account, whose owner could name any tenant.
  if (account !== null && account !== undefined) return null
  if (type.startsWith('customer.subscription.')) return ofSubscription(event, object)
  if (type.startsWith('invoice.')) return ofInvoice(event, object)
  if (type === 'checkout.session.completed') return ofCheckout(event, object)
  if (type === 'charge.refunded') return ofRefund(event, object)
  return null
}

function ofSubscription ({ id, type, created }: AltprovEvent, object: unknown): ProviderEvent {
  const at = time(created)
  const snapshot = snapshotOf(subscriptionOf(object), at)
  return { id, type, at, tenant: snapshot.tenant, subscriptionId: snapshot.id, customerId: snapshot.customerId, snapshot, payment: null }
}

/**
 * Only subscriptions of the account concern the platform. The metadata name the tenant; `client_reference_id` does not count, since any
 * visitor of a payment link can choose it.
 */
function ofCheckout ({ id, type, created }: AltprovEvent, object: unknown): ProviderEvent | null {
  const { mode, metadata, customer, subscription } = readSession(object)
  if (mode !== 'subscription') return null
  return {
    id,
    type,
    at: time(created),
    tenant: tenantOf(metadata?.tenant_id),
    subscriptionId: idOrNull(subscription),
    customerId: idOrNull(customer),
    snapshot: null,
    payment: null
  }
}

function ofInvoice ({ id, type, created }: AltprovEvent, object: unknown): ProviderEvent {
  const invoice = readInvoice(object)
  const details = invoice.parent?.subscription_details ?? invoice.subscription_details
  return {
    id,
    type,
    at: time(created),
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
function ofRefund ({ id, type, created }: AltprovEvent, object: unknown): ProviderEvent {
  const { id: charge, customer, currency, amount_refunded: amount, metadata } = readCharge(object)
  return {
    id,
    type,
    at: time(created),
    tenant: tenantOf(metadata.tenant_id),
    subscriptionId: null,
    customerId: idOrNull(customer),
    snapshot: null,
    payment: { id: charge, outcome: 'refunded', amount, currency }
  }
}

function idOrNull (named: string | { readonly id: string } | null | undefined): string | null {
  return named === null || named === undefined ? null : idOf(named)
}
