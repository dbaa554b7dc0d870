/**
 * The client of `altprov` (Stripe's API, of the version that the SDK pins) on its own SDK. This file bounds the time, the size of a
 * response and redirects, which the SDK does not; only `callProvider` retries.
 */
import { createHash } from 'node:crypto'
import type Stripe from 'stripe'
import { failure, TenantryError } from '../../../../lib/errors.js'
import { callProvider, type CallTime, checkHeaders, type FaultKind, kindOfStatus, ProviderFault, readResponse } from '../call.js'

/**
 * Runs one request, with retries after temporary failures: it reads, or has an idempotency key. `read` comes from `documented`, since the
 * SDK's types are not checked. Throws as `callProvider`.
 */
export type AltprovCall = <T>(read: (body: unknown) => T, run: (stripe: Stripe) => Promise<unknown>) => Promise<ProviderResponse<T>>

export interface ProviderResponse<T> {
  readonly body: T
  /** The time of the state, by the provider's clock, in seconds. */
  readonly at: Date
  /** The response to an earlier request with the same idempotency key: the state at that time. */
  readonly isReplay: boolean
}

/** A failure of an earlier request with the same idempotency key. */
class ReplayedFault extends ProviderFault {}

export function isReplayedFailure (error: unknown): boolean {
  return error instanceof TenantryError && error.cause instanceof ReplayedFault
}

export async function loadAltprov (): Promise<typeof Stripe> {
  try {
    return (await import('stripe')).default
  } catch (error) {
    throw new Error('The payment provider altprov needs the package stripe: npm i stripe@23', { cause: error })
  }
}

/** The calls that share a time. `baseUrl` is an origin; default: the provider's own. Throws for an invalid one. */
export function createAltprovClient (Package: typeof Stripe, apiKey: string, baseUrl: string | undefined) {
  const address = baseUrl === undefined ? {} : addressOf(baseUrl)
  return (time: CallTime): AltprovCall => async (read, run) =>
    await callProvider({ time, keyOwner: 'platform', repeatable: true }, async (signal) => {
      checkHeaders('the API key', [apiKey])
      const head: ResponseHead = { at: null, isReplay: false }
      // A separate client, since the SDK passes no signal to its requests.
      const httpClient = Package.createFetchHttpClient(async (url, request) => await send(String(url), request, { apiKey, signal, head }))
      const stripe = new Package(apiKey, { ...address, httpClient, maxNetworkRetries: 0, telemetry: false })
      try {
        const body = read(await run(stripe))
        if (head.at === null) throw new ProviderFault('unreadable', { message: 'the response of altprov lacks the time' })
        return { body, at: head.at, isReplay: head.isReplay }
      } catch (error) {
        const cause = causeOf(error, stripe)
        throw head.isReplay && cause instanceof ProviderFault ? new ReplayedFault(cause.kind, cause) : cause
      }
    })
}

/** The SDK takes an address in parts, and appends its paths to the host. */
function addressOf (baseUrl: string): { host: string, port: string, protocol: 'http' | 'https' } {
  const { protocol, hostname, port, pathname } = new URL(baseUrl)
  if (!/^\/?(v1\/?)?$/.test(pathname)) {
    throw new Error('ALTPROV_BASE_URL must be an origin, such as https://api.stripe.com: its paths begin with /v1')
  }
  return protocol === 'http:'
    ? { host: hostname, port: port || '80', protocol: 'http' }
    : { host: hostname, port: port || '443', protocol: 'https' }
}

/** The SDK wraps errors of `send`; any other error of the SDK means an undocumented response. */
function causeOf (error: unknown, { errors }: Stripe): unknown {
  if (error instanceof ProviderFault) return error
  if (error instanceof errors.StripeConnectionError) return error.detail
  return new ProviderFault('unreadable', { message: 'the SDK cannot parse the response of altprov' })
}

interface ResponseHead {
  at: Date | null
  isReplay: boolean
}

interface Sender {
  readonly apiKey: string
  readonly signal: AbortSignal
  readonly head: ResponseHead
}

/** The body of a success, read to its end. Throws a ProviderFault for other responses. */
export async function send (url: string, request: RequestInit | undefined, { apiKey, signal, head }: Sender): Promise<Response> {
  const begun = performance.now()
  const response = await fetch(url, { ...request, signal, redirect: 'manual' })
  head.at = timeOf(response.headers.get('date'), performance.now() - begun)
  head.isReplay = response.headers.get('idempotent-replayed') === 'true'
  const { status, headers } = response
  const outcome = `altprov responded with ${status} to ${request?.method ?? 'GET'} ${new URL(url).pathname} (${
    headers.get('request-id') ?? 'no request id'
  })`
  return await readResponse(response, outcome, apiKey, (body) => refusalOf(status, body))
}

/**
 * The `Date` of a response, minus its duration: a slow response shows the state at the time of the request, and must not seem newer than an
 * event in between.
 */
export function timeOf (date: string | null, took: number): Date | null {
  const sent = Date.parse(date ?? '')
  return Number.isNaN(sent) ? null : new Date(sent - Math.floor(took / 1000) * 1000)
}

/** Stripe's form: `{error: {type, code?, message?, param?}}`. */
function refusalOf (status: number, { error }: Readonly<Record<string, unknown>>) {
  const { code, message }: { code?: unknown, message?: unknown } = Object(error)
  return { kind: kindOf(status, code), reason: typeof message === 'string' ? message : undefined }
}

function kindOf (status: number, code: unknown): FaultKind {
  // A parameter that names a missing object is a 400.
  if (code === 'resource_missing') return 'missing'
  // 409: the same idempotency key is in use, or the object is locked. 424: a service that Stripe uses failed.
  if (status === 409 || code === 'rate_limit') return 'busy'
  return status === 424 ? 'failed' : kindOfStatus(status)
}

/** Throws `notFound` for a text that cannot be an id of the provider: it would change the path. */
export function checkId (id: string): void {
  if (!/^\w[\w.-]{0,254}$/.test(id)) throw failure('notFound')
}

/** Idempotency keys: the provider refuses a repeated key with other content, so the key includes the content. */
export function keyOf (...content: readonly unknown[]): string {
  return `tenantry-${createHash('sha256').update(JSON.stringify(content)).digest('base64url')}`
}
