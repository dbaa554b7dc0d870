/**
 * What the tests need of a payment provider's local server, whichever protocol it speaks: `payprov/` has Polar's,
 * `altprov/` Stripe's.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Cycle, PaymentProvider, ProviderSettings } from '../../plugins/billing/providers/provider.js'

/** A request that came, refused ones and those that fared badly too. */
export interface ReceivedCall {
  readonly method: string
  /** With the query string. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/**
 * How a request fares instead of being answered:
 * a status with the provider's documented error body and, for 429, `Retry-After`;
 * `reset`: the connection ends without an answer; `lost`: so, but what was asked for has been done (of the next requests
 * that change something: what only reads comes through);
 * `silent`: no answer comes; `nonsense`: a success whose JSON is not documented; `text`: a success that is no JSON;
 * `huge`: a success of 6 MB; `redirect`: to the same path of another server, whose requests are in `strayed`.
 */
export type Misfortune =
  | { readonly status: number, readonly retryAfter?: number, readonly message?: string }
  | 'reset'
  | 'lost'
  | 'silent'
  | 'nonsense'
  | 'text'
  | 'huge'
  | 'redirect'

export interface Sold {
  readonly product: string
  readonly price: string
}

/**
 * What happens to a subscription at the provider:
 * `renew`: the period's end comes, and what was to happen then does: it is paid for the next one, or ends where it was
 * canceled, or changes its product; `pastDue`: the end of the period came and the payment failed; `recover`: it was paid
 * after all; `unpaid`: the provider gave up; `end`: it ends now, by the provider's dashboard.
 */
export type Change = 'renew' | 'pastDue' | 'recover' | 'unpaid' | 'end'

/** Kinds of events, whatever the provider calls them. `other`: one that the adapter ignores. */
export type EventKind = 'created' | 'updated' | 'ended' | 'paid' | 'refunded' | 'other'

export interface SignOptions {
  /** The time of the signature. Default: now. */
  readonly at?: number
  /** One signature with each, in this order. Default: the world's secret. */
  readonly secrets?: readonly string[]
}

export interface SignedEvent {
  readonly body: Buffer
  /** Names in lower case, as Node has them. */
  readonly headers: Record<string, string>
}

export interface World {
  /** Made by `loadProvider` with the world's key, secret and address, which the settings override. */
  open(settings?: Partial<ProviderSettings>): Promise<PaymentProvider>
  readonly baseUrl: string
  readonly apiKey: string
  /** The secret that signs the webhooks. */
  readonly webhookSecret: string
  /** The clock of the provider, in milliseconds since 1970; it stands still until it is moved. */
  now(): number
  advance(milliseconds: number): void

  /** A recurring product that is sold. */
  sell(product: { readonly name: string, readonly amount: number, readonly currency: string, readonly cycle: Cycle }): Sold
  /** The tenant has paid for the product: the id of its new subscription. `trialDays`: it begins with a trial. */
  subscribe(tenant: string, sold: Sold, options?: { readonly trialDays?: number }): string
  /** The customer pays a checkout: the id of the new subscription. */
  pay(checkout: string): string
  change(subscription: string, change: Change): void
  /** How often money was asked for a subscription: its start, renewals, and changes of product that charge at once. */
  charges(subscription: string): number

  /** The next requests fare so, `times` of them (default 1). */
  misfortune(misfortune: Misfortune, times?: number): void
  /** In the order in which they came. */
  readonly calls: readonly ReceivedCall[]
  /** Forgets the calls that came. */
  forget(): void
  /** Requests that followed a redirect. */
  readonly strayed: readonly ReceivedCall[]

  /** An event about the subscription as it is now, signed as the provider signs. Each has an id of its own. */
  event(kind: EventKind, subscription: string, options?: SignOptions): SignedEvent
  /** Signs any bytes. */
  sign(body: Buffer, options?: SignOptions): SignedEvent
}
