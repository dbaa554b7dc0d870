/**
 * The interface of payment providers: `payprov` (Polar's API) and `altprov` (Stripe's). An adapter speaks the provider's
 * protocol and does not know the plans of tenants. Its results are in the terms of this file.
 */
import type { Owner } from '../../../lib/identity/tenant-ref.js'
import type { IncomingHttpHeaders } from 'node:http'
import type { Cycle, ProviderName } from '../../../lib/document/rules/billing.js'
import { cycles, providerNames } from '../../../lib/document/rules/billing.js'

export { cycles, providerNames, type Cycle, type ProviderName }

/** `incomplete`: never paid; `unpaid`: the provider has given up; `canceled`: it has ended, or will not be renewed. */
export const statuses = ['active', 'trialing', 'past_due', 'canceled', 'unpaid', 'incomplete'] as const
export type SubscriptionStatus = typeof statuses[number]

/** A subscription as the provider had it at one moment. */
export interface Snapshot {
  readonly id: string
  /** The provider's external customer id or the metadata; null where neither names one. */
  readonly tenant: Owner | null
  readonly customerId: string
  /** The ids of its product and of its prices: the product map may name any of them. */
  readonly productIds: readonly string[]
  /** `canceled` only once it has ended: until then `cancelAtPeriodEnd` says that it will. */
  readonly status: SubscriptionStatus
  readonly startedAt: Date
  readonly periodStart: Date
  readonly periodEnd: Date
  readonly cancelAtPeriodEnd: boolean
  /** When it ended, which may be before the period's end. */
  readonly endedAt: Date | null
  /** Since when a payment is missing: as the provider says, else the period's start. null unless `past_due`. */
  readonly pastDueSince: Date | null
  /** The kind of the payment method, such as `card`; null where the provider does not say. */
  readonly paymentMethod: string | null
  /** By the provider's clock: of two snapshots of a subscription the one with the later time is right. */
  readonly asOf: Date
}

/** A payment that an event tells of. */
export interface Payment {
  readonly id: string
  readonly outcome: 'paid' | 'failed' | 'refunded'
  /** In minor units of the currency. */
  readonly amount: number
  /** In lower case, such as `usd`. */
  readonly currency: string
}

/** A webhook event whose signature was right. */
export interface ProviderEvent {
  /** The provider's id of the event; of `payprov` the `webhook-id`. */
  readonly id: string
  /** The provider's name of its kind, such as `subscription.updated`. */
  readonly type: string
  /** The event's own time. */
  readonly at: Date
  /** The tenant that it names; null where it names none. */
  readonly tenant: Owner | null
  readonly subscriptionId: string | null
  /** The customer that it names: of some kinds (altprov's `charge.refunded`) this is all that tells whose it is. */
  readonly customerId?: string | null
  /** null for kinds that do not carry a whole subscription. */
  readonly snapshot: Snapshot | null
  readonly payment: Payment | null
}

export interface CheckoutInput {
  readonly tenant: Owner
  /** The e-mail address of who pays, where it is known. */
  readonly email: string | undefined
  /** As the product map has it: an id of a product, or of a price. */
  readonly product: string
  /** Where the provider sends the browser afterwards; absolute. The provider writes the checkout's id over `{CHECKOUT_ID}` in it. */
  readonly successUrl: string
  readonly cancelUrl: string
  /** The same for tries of the same: the provider then makes one checkout. */
  readonly idempotencyKey: string
}

export interface Checkout {
  readonly id: string
  readonly url: string
  /** In minor units of the currency. */
  readonly amount: number
  /** In lower case. */
  readonly currency: string
}

/**
 * Every call ends within its time-out, retries included, and fails as `providerFailed`, `providerTimeout`, `providerBusy`
 * (with `retryAfter`) or, for what the provider does not have, `notFound`.
 */
export interface PaymentProvider {
  readonly name: ProviderName
  checkout(input: CheckoutInput): Promise<Checkout>
  /**
   * The tenant's subscriptions, ended ones too, the newest first: 100 at most. None where it is no customer yet.
   * `customers`: ids that earlier snapshots of the tenant named. altprov's search by tenant may lag by a minute behind what
   * was made; what it knows of a customer by its id never does. The adapter looks at ten of them at most.
   */
  subscriptions(tenant: Owner, customers?: readonly string[]): Promise<Snapshot[]>
  /** `now` charges or credits the difference; `period_end` lets the paid period run out first. */
  changeProduct(subscriptionId: string, product: string, when: 'now' | 'period_end', idempotencyKey: string): Promise<Snapshot>
  /** At the period's end. */
  cancel(subscriptionId: string, idempotencyKey: string): Promise<Snapshot>
  /** Takes back a cancellation, or a change of product, at the period's end; null where there is neither, and nothing was done. */
  resume(subscriptionId: string, idempotencyKey: string): Promise<Snapshot | null>
  /**
   * The event of a webhook's raw body. `signatureInvalid` where the signature, or its time by `now` (ms), is not right;
   * null for kinds that are not handled; `badRequest` for what is signed and not what the provider documents.
   */
  readWebhook(body: Buffer, headers: IncomingHttpHeaders, now: number): ProviderEvent | null
}

/** What an adapter is made of. */
export interface ProviderSettings {
  readonly apiKey: string
  /** The secrets that sign webhooks: the current one, and those that it replaced. */
  readonly webhookSecrets: readonly string[]
  /** Default: the provider's own address. */
  readonly baseUrl: string | undefined
  /** `payprov` only. */
  readonly organizationId: string | undefined
  /** Milliseconds that one call may take with its retries. Default: 10,000. */
  readonly timeoutMs?: number | undefined
}
