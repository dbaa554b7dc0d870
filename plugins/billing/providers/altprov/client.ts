/**
 * The client of `altprov` (Stripe's API, of the version that the SDK pins) on its own SDK. This file bounds the time, the size of a
 * response and redirects, which the SDK does not; only `callProvider` retries.
 */
import type Stripe from 'stripe'
import { callProvider, ProviderFault, type CallTime } from '../call.js'
import { send, type ResponseHead } from './send.js'

export type AltprovPackage = typeof Stripe

export interface AltprovClient {
  /**
   * Runs one request, with retries after temporary failures: it reads, or has an idempotency key. `read` comes from `documented`, since the
   * SDK's types are not checked. Throws as `callProvider`.
   */
  call<T>(time: CallTime, read: (body: unknown) => T, run: (stripe: Stripe) => Promise<unknown>): Promise<ProviderResponse<T>>
}

export interface ProviderResponse<T> {
  readonly body: T
  /** The time of the state, by the provider's clock, in seconds. */
  readonly at: Date
  /** The response to an earlier request with the same idempotency key: the state at that time. */
  readonly isReplay: boolean
}

export async function loadAltprov (): Promise<AltprovPackage> {
  try {
    return (await import('stripe')).default
  } catch (error) {
    throw new Error('The payment provider altprov needs the package stripe: npm i stripe@23', { cause: error })
  }
}

/** `baseUrl` is an origin; default: the provider's own. Throws for an invalid one. */
export function createAltprovClient (Package: AltprovPackage, apiKey: string, baseUrl: string | undefined): AltprovClient {
  const address = baseUrl === undefined ? {} : addressOf(baseUrl)
  const attempt = async <T>(
    signal: AbortSignal,
    read: (body: unknown) => T,
    run: (stripe: Stripe) => Promise<unknown>
  ): Promise<ProviderResponse<T>> => {
    const head: ResponseHead = { at: null, isReplay: false }
    // A separate client, since the SDK passes no signal to its requests.
    const httpClient = Package.createFetchHttpClient(async (url, request) => await send(String(url), request, { apiKey, signal, head }))
    const stripe = new Package(apiKey, { ...address, httpClient, maxNetworkRetries: 0, telemetry: false })
    try {
      const body = read(await run(stripe))
      if (head.at === null) throw new ProviderFault('unreadable', { message: 'the response of altprov lacks the time' })
      return { body, at: head.at, isReplay: head.isReplay }
    } catch (error) {
      throw faultOf(error, stripe)
    }
  }
  return {
    call: async (time, read, run) =>
      await callProvider({ time, keyOwner: 'platform', repeatable: true }, async (signal) => {
        checkKey(apiKey)
        return await attempt(signal, read, run)
      })
  }
}

/** Valid characters of a header: for others `fetch` throws an error that contains the value. */
const headerText = /^[\x21-\x7e]{1,1024}$/

function checkKey (apiKey: string): void {
  if (!headerText.test(apiKey)) throw new ProviderFault('key', { message: 'the API key must contain only visible ASCII characters' })
}

/** The SDK takes an address in parts, and appends its paths to the host. */
function addressOf (baseUrl: string): { host: string, port: string, protocol: 'http' | 'https' } {
  const { protocol, hostname, port, pathname } = new URL(baseUrl)
  if (!/^\/?(v1\/?)?$/.test(pathname)) {
    throw new Error('ALTPROV_BASE_URL must be an origin, such as https://api.stripe.com: its paths begin with /v1')
  }
  return protocol === 'http:'
    ? { host: hostname, port: port === '' ? '80' : port, protocol: 'http' }
    : { host: hostname, port: port === '' ? '443' : port, protocol: 'https' }
}

/** The SDK wraps errors of `send`; any other error of the SDK means an undocumented response. */
function faultOf (error: unknown, { errors }: Stripe): unknown {
  if (error instanceof ProviderFault) return error
  if (error instanceof errors.StripeConnectionError) return error.detail
  return new ProviderFault('unreadable', { message: 'the SDK cannot parse the response of altprov' })
}
