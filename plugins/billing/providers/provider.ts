/**
 * The interface of payment providers: `payprov` (Polar's API) and `altprov` (Stripe's). An adapter speaks the provider's protocol and does
 * not know the plans of tenants. Its results have the types of this file.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { type Cycle, cycles, type ProviderName, providerNames } from '../../../lib/document/rules/billing.js'
import type { Owner } from '../../../lib/identity/tenant-ref.js'

export { cycles, providerNames, type Cycle, type ProviderName }

/** `incomplete`: never paid; `unpaid`: the provider has given up; `canceled`: it has ended, or will not be renewed. */
export const statuses = ['active', 'trialing', 'past_due', 'canceled', 'unpaid', 'incomplete'] as const
export type SubscriptionStatus = typeof statuses[number]

/** The state of a subscription at one time. */
export interface Snapshot {
  readonly id: string
  /** The provider's external customer id or the metadata; null where neither names one. */
  readonly tenant: Owner | null
  readonly customerId: string
  /** The ids of its product and of its prices: the product map may use any of them. */
  readonly productIds: readonly string[]
  /** `canceled` only after its end: before, `cancelAtPeriodEnd` announces it. */
  readonly status: SubscriptionStatus
  readonly startedAt: Date
  readonly periodStart: Date
  readonly periodEnd: Date
  readonly cancelAtPeriodEnd: boolean
  /** The end, which may be before the period's end. */
  readonly endedAt: Date | null
  /** The time since which a payment is missing: the provider's, else the period's start. null unless `past_due`. */
  readonly pastDueSince: Date | null
  /** The kind of the payment method, such as `card`; null if the provider does not report it. */
  readonly paymentMethod: string | null
  /** By the provider's clock: the snapshot with the later time wins. */
  readonly asOf: Date
}

/** A payment in an event. */
export interface Payment {
  readonly id: string
  readonly outcome: 'paid' | 'failed' | 'refunded'
  /** In minor units of the currency. */
  readonly amount: number
  /** In lower case, such as `usd`. */
  readonly currency: string
}

/** A webhook event with a valid signature. */
export interface ProviderEvent {
  /** The provider's id of the event; of `payprov` the `webhook-id`. */
  readonly id: string
  /** The provider's name of its kind, such as `subscription.updated`. */
  readonly type: string
  /** The event's own time. */
  readonly at: Date
  /** Its tenant; null if it names none. */
  readonly tenant: Owner | null
  readonly subscriptionId: string | null
  /** Its customer: for some kinds (altprov's `charge.refunded`) the only reference to the tenant. */
  readonly customerId?: string | null
  /** null for kinds without a complete subscription. */
  readonly snapshot: Snapshot | null
  readonly payment: Payment | null
}

/** The data of an event, apart from its kind. */
export type EventContent = Omit<ProviderEvent, 'id' | 'type' | 'at'>

export interface CheckoutInput {
  readonly tenant: Owner
  /** The last deletion of a tenant with the id: its customer does not become the customer of this tenant. null without one. */
  readonly deletedAt: Date | null
  /** The e-mail address of the payer, if it is known. */
  readonly email: string | undefined
  /** From the product map: an id of a product, or of a price. */
  readonly product: string
  /** The page after the checkout; absolute. The provider replaces `{CHECKOUT_ID}` in it by the checkout's id. */
  readonly successUrl: string
  readonly cancelUrl: string
  /** Equal for repetitions, so that the provider creates one checkout. */
  readonly idempotencyKey: string
}

export interface Checkout extends Pick<Payment, 'id' | 'amount' | 'currency'> {
  readonly url: string
}

/**
 * Every call ends within its timeout, retries included, and fails as `providerFailed`, `providerTimeout`, `providerBusy` (with
 * `retryAfter`) or, for a missing object, `notFound`. The result is the current state, also if an earlier call had the same
 * idempotency key.
 */
export interface PaymentProvider {
  readonly name: ProviderName
  checkout(input: CheckoutInput): Promise<Checkout>
  /**
   * The tenant's subscriptions, ended ones too, the newest first: 100 at most. Empty if it is not a customer yet. `customers`: ids from
   * earlier snapshots of the tenant. altprov's search by tenant may lag by a minute; its look-up of a customer by id never does. The
   * adapter checks ten of them at most.
   */
  subscriptions(tenant: Owner, customers?: readonly string[]): Promise<Snapshot[]>
  /** `now` charges or credits the difference; `period_end` waits for the end of the paid period. */
  changeProduct(subscriptionId: string, product: string, when: 'now' | 'period_end', idempotencyKey: string): Promise<Snapshot>
  /** At the period's end. */
  cancel(subscriptionId: string, idempotencyKey: string): Promise<Snapshot>
  /** Withdraws a scheduled cancellation, or change of product; null if there is neither. */
  resume(subscriptionId: string, idempotencyKey: string): Promise<Snapshot | null>
  /**
   * The event of a webhook's raw body. `signatureInvalid` for a wrong signature, or a time too far from `now` (ms); null for unhandled
   * kinds; `badRequest` for a signed, undocumented body.
   */
  readWebhook(body: Buffer, headers: IncomingHttpHeaders, now: number): ProviderEvent | null
}

/** The settings of an adapter. */
export interface ProviderSettings {
  readonly apiKey: string
  /** The secrets that sign webhooks: the current one, and former ones. */
  readonly webhookSecrets: readonly string[]
  /** Default: the provider's own address. */
  readonly baseUrl: string | undefined
  /** `payprov` only. */
  readonly organizationId: string | undefined
  /** The time limit of one call with its retries, in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number | undefined
}
