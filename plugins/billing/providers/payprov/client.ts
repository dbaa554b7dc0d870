/**
 * The client of `payprov` (Polar's API, version 2026-04) on its own SDK, for the platform's key and for those of tenants. This file bounds
 * the time, the size of a response, redirects and repeated calls, which the SDK does not.
 */
import type { createCheckoutsService } from '@polar-sh/sdk/2026-04/services/checkouts'
import type { createCustomersService } from '@polar-sh/sdk/2026-04/services/customers'
import type { createProductsService } from '@polar-sh/sdk/2026-04/services/products'
import type { createSubscriptionsService } from '@polar-sh/sdk/2026-04/services/subscriptions'
import { CallTime, callProvider, type CallOptions } from '../call.js'
import { checkKey, send, type Sender } from './send.js'

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
