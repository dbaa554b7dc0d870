/** `app.outbound`: bounded calls over two pools of connections, one of them behind the egress rule. */
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import type { Lookup } from '../../lib/concurrency/shared-lookup.js'
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { failure, isFailure, retryIn, TenantryError } from '../../lib/errors.js'
import type { EgressRule } from '../../lib/http/egress.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { stoppedBefore } from '../../lib/plugin/lifecycle.js'
import { createCircuits, type Outcome } from './circuits.js'
import type { Outbound, OutboundResponse } from './outbound.js'
import { createPools } from './pools.js'
import { type PreparedRequest, sendRequest } from './send-request.js'
import { harmlessOf, headersOf, methodOf, targetOf } from './target.js'

const defaultTimeoutMs = 10_000
const maxTimeoutMs = 600_000
const maxRedirects = 5
const redirectStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const maxOfTenant = 20 // running calls
const maxInAll = 200
const maxKept = 500 // connections to tenants' addresses, beyond which each is closed after its response

/**
 * @param lookup resolves every name, in place of the name servers and the system
 * @param now the clock of the circuits, in milliseconds
 */
export function createOutbound (
  rule: EgressRule,
  lookup: Lookup | undefined,
  now: () => number
): Outbound & { readonly endCalls: () => void } {
  const pools = createPools(rule, lookup)
  const circuits = createCircuits(now)
  const places = createTenantLimiter({ maxOfTenant, maxInAll, tooManyOfTenant, tooManyInAll })
  const underWay = new Set<AbortController>()
  let closed = false

  async function send (tenant: Owner, trust: boolean, sent: PreparedRequest, signal: AbortSignal): Promise<OutboundResponse> {
    const { host } = sent.url
    circuits.enter(tenant, host)
    let outcome: Outcome = 'failed'
    let isAnswer = false
    try {
      const { trusted, guarded, guard } = await pools.open()
      const response = await sendRequest(
        trust ? trusted : guarded,
        { ...sent, reset: !trust && guard.open > maxKept },
        signal,
        createYielder(tenant),
        (status) => {
          if (status < 500) isAnswer = true
        }
      )
      if (isAnswer) outcome = 'answered'
      return response
    } catch (error) {
      if (signal.aborted) outcome = isFailure(signal.reason, 'providerTimeout') ? 'failed' : 'abandoned'
      else if (isFailure(error, 'addressRefused')) outcome = 'abandoned'
      // The response is too large or compressed.
      else if (error instanceof TenantryError && isAnswer) outcome = 'answered'
      throw error instanceof TenantryError || signal.aborted ? error : failure('providerFailed', { cause: error })
    } finally {
      circuits.end(tenant, host, outcome)
    }
  }

  async function follow (
    tenant: Owner,
    trust: boolean,
    first: PreparedRequest,
    redirects: number,
    signal: AbortSignal
  ): Promise<OutboundResponse> {
    let sent = first
    for (let hop = 0; ; hop++) {
      signal.throwIfAborted()
      const response = await send(tenant, trust && hop === 0, sent, signal)
      const location = redirects > 0 && redirectStatuses.has(response.status) ? response.headers['location'] : undefined
      if (location === undefined) return response
      if (hop === redirects) throw failure('providerFailed', { message: `The service redirects more than ${redirects} times` })
      const url = targetOf(location, sent.url)
      sent = { ...sent, url, headers: url.origin === sent.url.origin ? sent.headers : harmlessOf(sent.headers) }
    }
  }

  function endCalls (): void {
    for (const ending of underWay) ending.abort(stoppedBefore('the service'))
  }

  return {
    endCalls,
    async request (
      { tenant, trusted: trust, method: written, url, headers, body = null, timeoutMs = defaultTimeoutMs, followRedirects = false, signal }
    ) {
      if (closed) throw failure('stopping')
      if (!(timeoutMs > 0)) throw failure('providerTimeout')
      signal?.throwIfAborted()
      const method = methodOf(written)
      const sent = { url: targetOf(url), method, headers: headersOf(headers), body, reset: false }
      const redirects = followRedirects && (method === 'GET' || method === 'HEAD') ? maxRedirects : 0
      const ending = new AbortController()
      const end = () => ending.abort(signal?.reason)
      const timer = setTimeout(() => ending.abort(failure('providerTimeout')), Math.min(timeoutMs, maxTimeoutMs))
      signal?.addEventListener('abort', end)
      underWay.add(ending)
      try {
        return await new Promise<OutboundResponse>((resolve, reject) => {
          ending.signal.addEventListener('abort', () => reject(ending.signal.reason))
          // The caller gets its response in time. The place is held until the connection is released.
          places.run(tenantRef(tenant), () => follow(tenantRef(tenant), trust, sent, redirects, ending.signal)).then(resolve, reject)
        })
      } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', end)
        underWay.delete(ending)
      }
    },
    async close () {
      closed = true
      places.close()
      endCalls()
      await pools.close()
    }
  }
}

const later = retryIn(1)

function tooManyOfTenant (): Error {
  return failure('providerBusy', {
    message: `At most ${maxOfTenant} calls of a tenant to other services can run at the same time: try again when one of them has finished`,
    ...later
  })
}

function tooManyInAll (): Error {
  return failure('providerBusy', { message: 'Too many calls to other services are running; try again', ...later })
}
