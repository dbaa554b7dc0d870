/**
 * The client of `payprov` (Polar's API, version 2026-04) on its own SDK, for the platform's key and for those of tenants. This file bounds
 * the time, the size of a response, redirects and repeated calls, which the SDK does not.
 */
import { createHash } from 'node:crypto'
import type { createCheckoutsService } from '@polar-sh/sdk/2026-04/services/checkouts'
import type { createCustomersService } from '@polar-sh/sdk/2026-04/services/customers'
import type { createProductsService } from '@polar-sh/sdk/2026-04/services/products'
import type { createSubscriptionsService } from '@polar-sh/sdk/2026-04/services/subscriptions'
import { parseBounded } from '../../../../lib/json/bounds.js'
import {
  type CallOptions, callProvider, CallTime, cleanReason, type FaultKind,
  kindOfStatus, ProviderFault, readText, requireBounded, retryAfterOf
} from '../call.js'

const address = 'https://api.polar.sh'

/** The used parts of Polar's API, typed by its SDK. */
export interface PayprovServices {
  readonly checkouts: ReturnType<typeof createCheckoutsService>
  readonly customers: ReturnType<typeof createCustomersService>
  readonly products: ReturnType<typeof createProductsService>
  readonly subscriptions: ReturnType<typeof createSubscriptionsService>
}

export interface PayprovClientOptions {
  readonly accessToken: string
  /** The organization; an organization's own access token needs none. */
  readonly organizationId?: string | undefined
  /** Default: `https://api.polar.sh`. */
  readonly baseUrl?: string | undefined
  /** Milliseconds that a call may take with its retries. Default: 10,000. */
  readonly timeoutMs?: number | undefined
  /** The owner of the key. Default: `platform`. */
  readonly keyOwner?: CallOptions['keyOwner'] | undefined
}

export interface PayprovCall {
  /** It may be repeated even if Polar may have done it; Polar guarantees nothing for idempotency keys. */
  readonly repeatable: boolean
  /** Sent with requests other than `GET`, with a suffix for each. */
  readonly idempotencyKey?: string | undefined
  /** The shared time limit of one endpoint's calls. Default: the client's `timeoutMs` from now. */
  readonly time?: CallTime | undefined
}

export interface PayprovClient {
  /**
   * Runs a call, with retries after temporary failures. `run` may send several requests: all of them are repeated. `documented` checks the
   * responses, since the SDK's types are not checked. Throws as `callProvider`.
   */
  call<T>(options: PayprovCall, run: (polar: PayprovServices) => Promise<T>): Promise<T>
}

/** Loads the SDK. Throws if its package is missing. */
export async function createPayprovClient (
  { accessToken, organizationId, baseUrl = address, timeoutMs, keyOwner = 'platform' }: PayprovClientOptions
): Promise<PayprovClient> {
  const { createPolarCore, services } = await loadSdk()
  const options = { accessToken, organizationId, baseUrl: baseUrl.replace(/\/+(v1\/*)?$/, '') }
  const polarFor = (sender: Sender): PayprovServices => {
    const core = createPolarCore(options)
    core.sendRequest = ([url, request]) => send(url, request, sender)
    return {
      checkouts: services.createCheckoutsService(core),
      customers: services.createCustomersService(core),
      products: services.createProductsService(core),
      subscriptions: services.createSubscriptionsService(core)
    }
  }
  return {
    call: ({ repeatable, idempotencyKey, time = new CallTime(timeoutMs) }, run) =>
      callProvider({ time, keyOwner, repeatable }, async (signal) => {
        checkKey(accessToken, organizationId)
        return await run(polarFor({ accessToken, idempotencyKey, signal }))
      })
  }
}

async function loadSdk () {
  try {
    const [{ createPolarCore }, checkouts, customers, products, subscriptions] = await Promise.all([
      import('@polar-sh/sdk/2026-04'),
      import('@polar-sh/sdk/2026-04/services/checkouts'),
      import('@polar-sh/sdk/2026-04/services/customers'),
      import('@polar-sh/sdk/2026-04/services/products'),
      import('@polar-sh/sdk/2026-04/services/subscriptions')
    ])
    return { createPolarCore, services: { ...checkouts, ...customers, ...products, ...subscriptions } }
  } catch (error) {
    throw new Error('The payment provider payprov needs the package @polar-sh/sdk: npm i @polar-sh/sdk@1', { cause: error })
  }
}

interface Sender {
  readonly accessToken: string
  readonly idempotencyKey: string | undefined
  readonly signal: AbortSignal
}

/** Valid characters of a header: for others `Headers` throws an error that contains the value. */
const headerText = /^[\x21-\x7e]{1,1024}$/

/** A path with a segment that URL parsing would remove, such as an id of `..`. */
const otherPath = /\/\.{0,2}\/|\/\.{1,2}$/

/** 403 responses of Polar that concern the subscription, not the key. */
const statesOfSubscription = new Set(['AlreadyCanceledSubscription', 'InactiveSubscription', 'PaymentNotReady', 'TrialingSubscription'])

/** Checks the key before the SDK creates headers with it. */
function checkKey (accessToken: string, organizationId: string | undefined): void {
  if (headerText.test(accessToken) && (organizationId === undefined || headerText.test(organizationId))) return
  throw new ProviderFault('key', { message: 'the access token and the id of the organization must contain only visible ASCII characters' })
}

/** The body of a success, read to its end. Throws a ProviderFault for other responses. */
export async function send (url: string, request: RequestInit, { accessToken, idempotencyKey, signal }: Sender): Promise<Response> {
  const method = request.method ?? 'GET'
  const { pathname } = new URL(url)
  if (otherPath.test(url.slice(url.indexOf('://') + 2).split('?')[0] ?? '')) {
    throw new ProviderFault('missing', { message: 'an id that is a part of a path' })
  }
  const headers = new Headers(request.headers)
  if (idempotencyKey !== undefined && method !== 'GET') {
    headers.set('idempotency-key', keyOfRequest(idempotencyKey, method, pathname, request.body))
  }
  const response = await fetch(url, { ...request, headers, signal, redirect: 'manual' })
  const text = await readText(response)
  if (response.ok) return new Response(requireBounded(text))
  throw faultOf(response, text, `${method} ${pathname}`, accessToken)
}

/** A call may send several requests under one key, so each gets its own. */
function keyOfRequest (key: string, method: string, path: string, body: unknown): string {
  return createHash('sha256').update(JSON.stringify([key, method, path, typeof body === 'string' ? body : ''])).digest('base64url')
}

function faultOf (response: Response, text: string, call: string, accessToken: string): ProviderFault {
  const { name, reason } = refusalOf(text)
  const cleaned = reason === undefined ? undefined : cleanReason(reason, accessToken)
  const kind: FaultKind = response.status === 403 && name !== undefined && statesOfSubscription.has(name)
    ? 'refused'
    : kindOfStatus(response.status)
  return new ProviderFault(kind, {
    message: `payprov responded with ${response.status} to ${call}${cleaned === undefined ? '' : `: ${cleaned}`}`,
    reason: cleaned,
    retryAfter: retryAfterOf(response.headers.get('retry-after'))
  })
}

/** Polar's two forms: `{error, detail}` with a text, and 422 with a list of faults. */
function refusalOf (text: string): { name?: string | undefined, reason?: string | undefined } {
  let body: unknown
  try {
    body = parseBounded(text)
  } catch {
    return {}
  }
  const { error, detail }: { error?: unknown, detail?: unknown } = Object(body)
  return {
    name: typeof error === 'string' ? error : undefined,
    reason: Array.isArray(detail) ? detail.slice(0, 3).map(fieldReason).join('; ') : typeof detail === 'string' ? detail : undefined
  }
}

function fieldReason (item: unknown): string {
  const { loc, msg }: { loc?: unknown, msg?: unknown } = Object(item)
  // The first part is the place in the request, such as `body`.
  const field = Array.isArray(loc) ? loc.slice(1, 6).map(String).join('.') : ''
  return typeof msg === 'string' ? `${field === '' ? '' : `${field}: `}${msg}` : field
}
