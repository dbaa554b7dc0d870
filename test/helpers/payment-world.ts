/**
 * The common interface of the local payment servers, for tests of every provider: `payprov/` speaks Polar's protocol, `altprov/`
 * Stripe's.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Cycle, PaymentProvider, ProviderSettings } from '../../plugins/billing/providers/provider.js'

/** A received request, including refused and failed ones. */
export interface ReceivedCall {
  readonly method: string
  /** The path with the query string. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/**
 * An injected failure of a request:
 * - a status, with the provider's documented error body and, for 429, `Retry-After`
 * - `reset`: the connection ends without a response
 * - `lost`: the request takes effect, then the connection ends; only for requests that change something
 * - `silent`: no response
 * - `nonsense`: a success with undocumented JSON
 * - `text`: a success that is not JSON
 * - `huge`: a success of 6 MB
 * - `redirect`: to the same path of another server, whose requests are in `strayed`
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
 * A change of a subscription at the provider:
 * - `renew`: the period ends; the subscription is paid again, ends if it was canceled, or changes its product as planned
 * - `pastDue`: the period ended and the payment failed
 * - `recover`: the overdue payment succeeded
 * - `unpaid`: the provider gave up the payment
 * - `end`: the subscription ends now, by the provider's dashboard
 */
export type Change = 'renew' | 'pastDue' | 'recover' | 'unpaid' | 'end'

/** Kinds of events, independent of the provider's names. `other`: one that the adapter ignores. */
export type EventKind = 'created' | 'updated' | 'ended' | 'paid' | 'refunded' | 'other'

export interface SignOptions {
  /** The time of the signature. Default: now. */
  readonly at?: number
  /** One signature with each secret, in this order. Default: the provider's own secret. */
  readonly secrets?: readonly string[]
}

export interface SignedEvent {
  readonly body: Buffer
  /** Names in lower case, as in Node. */
  readonly headers: Record<string, string>
}

export interface World {
  /** Opens the adapter with `loadProvider`. The settings override the server's key, secret and address. */
  open(settings?: Partial<ProviderSettings>): Promise<PaymentProvider>
  readonly baseUrl: string
  readonly apiKey: string
  /** The secret that signs the webhooks. */
  readonly webhookSecret: string
  /** The provider's clock, in milliseconds since 1970. Only `advance` moves it. */
  now(): number
  advance(milliseconds: number): void

  /** Adds a recurring product. */
  sell(product: { readonly name: string, readonly amount: number, readonly currency: string, readonly cycle: Cycle }): Sold
  /** Adds a paid subscription of the tenant, and returns its id. `trialDays`: it begins with a trial. */
  subscribe(tenant: string, sold: Sold, options?: { readonly trialDays?: number }): string
  /** Pays a checkout, and returns the id of the new subscription. */
  pay(checkout: string): string
  change(subscription: string, change: Change): void
  /** The number of charges of a subscription: its start, renewals, and changes of product with an immediate charge. */
  charges(subscription: string): number
  /** Whether the provider declines payments for changes of product from now on. */
  decline(declines: boolean): void

  /** Makes the next requests fail in this way. Default of `times`: 1. */
  misfortune(misfortune: Misfortune, times?: number): void
  /** In order of arrival. */
  readonly calls: readonly ReceivedCall[]
  /** Clears `calls`. */
  forget(): void
  /** Requests that followed a redirect. */
  readonly strayed: readonly ReceivedCall[]

  /** A signed event about the subscription's current state. Each event has its own id. */
  event(kind: EventKind, subscription: string, options?: SignOptions): SignedEvent
  /** Signs any bytes. */
  sign(body: Buffer, options?: SignOptions): SignedEvent
}
