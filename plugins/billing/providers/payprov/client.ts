/**
 * The client of `payprov` (Polar's API, version 2026-04) on its own SDK, for the platform's key and for those of tenants. This file bounds
 * the time, the size of a response, redirects and repeated calls, which the SDK does not.
 */
import { createHash } from 'node:crypto'
import type { createCheckoutsService } from '@polar-sh/sdk/2026-04/services/checkouts'
import type { createCustomersService } from '@polar-sh/sdk/2026-04/services/customers'
import type { createProductsService } from '@polar-sh/sdk/2026-04/services/products'
import type { createSubscriptionsService } from '@polar-sh/sdk/2026-04/services/subscriptions'
import type { Owner } from '../../../../lib/identity/tenant-ref.js'
import { callProvider, type CallTime, checkHeaders, kindOfStatus, ProviderFault, readResponse } from '../call.js'

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
  /** The owner of the key. Default: the platform. */
  readonly tenant?: Owner | undefined
}

export interface PayprovCall {
  /** It may be repeated even if Polar may have done it; Polar guarantees nothing for idempotency keys. */
  readonly repeatable: boolean
  /** Sent with requests other than `GET`, with a suffix for each. */
  readonly idempotencyKey?: string | undefined
  /** The shared time limit of one endpoint's calls. */
  readonly time: CallTime
}

/** Loads the SDK. Throws if its package is missing. */
export async function createPayprovClient (
  { accessToken, organizationId, baseUrl = address, tenant }: PayprovClientOptions
) {
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
  const keyOwner = tenant === undefined ? 'platform' : 'tenant'
  return {
    /**
     * Runs a call, with retries after temporary failures. `run` may send several requests: all of them are repeated. `documented` checks
     * the responses, since the SDK's types are not checked. Throws as `callProvider`.
     */
    call: <T>({ repeatable, idempotencyKey, time }: PayprovCall, run: (polar: PayprovServices) => Promise<T>): Promise<T> =>
      callProvider({ time, keyOwner, repeatable }, async (signal) => {
        checkHeaders('the access token and the id of the organization', [accessToken, ...organizationId === undefined ? [] : [organizationId]])
        return await run(polarFor({ accessToken, idempotencyKey, signal, tenant }))
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
  readonly tenant?: Owner | undefined
}

/** A path with a segment that URL parsing would remove, such as an id of `..`. */
const otherPath = /\/\.{0,2}\/|\/\.{1,2}$/

/** 403 responses of Polar that concern the subscription, not the key. */
const statesOfSubscription = new Set(['AlreadyCanceledSubscription', 'InactiveSubscription', 'PaymentNotReady', 'TrialingSubscription'])

/** The body of a success, read to its end. Throws a ProviderFault for other responses. */
export async function send (url: string, request: RequestInit, { accessToken, idempotencyKey, signal, tenant }: Sender): Promise<Response> {
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
  const { status } = response
  return await readResponse(
    response,
    `payprov responded with ${status} to ${method} ${pathname}`,
    accessToken,
    (body) => refusalOf(status, body),
    tenant
  )
}

/** A call may send several requests under one key, so each gets its own. */
function keyOfRequest (key: string, method: string, path: string, body: unknown): string {
  return createHash('sha256').update(JSON.stringify([key, method, path, typeof body === 'string' ? body : ''])).digest('base64url')
}

/** Polar's two forms: `{error, detail}` with a text, and 422 with a list of faults. */
function refusalOf (status: number, { error, detail }: Readonly<Record<string, unknown>>) {
  const reason = Array.isArray(detail) ? detail.slice(0, 3).map(fieldReason).join('; ') : detail
  const isOfSubscription = status === 403 && typeof error === 'string' && statesOfSubscription.has(error)
  return {
    kind: isOfSubscription ? 'refused' as const : kindOfStatus(status),
    reason: typeof reason === 'string' ? reason : undefined
  }
}

function fieldReason (item: unknown): string {
  const { loc, msg }: { loc?: unknown, msg?: unknown } = Object(item)
  // The first part is the place in the request, such as `body`.
  const field = Array.isArray(loc) ? loc.slice(1, 6).map(String).join('.') : ''
  return typeof msg === 'string' ? `${field === '' ? '' : `${field}: `}${msg}` : field
}
