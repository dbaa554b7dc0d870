/** Runs calls to other services: tokens, tries, and the result of the response. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createResultMemory } from '../../lib/concurrency/result-memory.js'
import { untilAborted } from '../../lib/concurrency/with-timeout.js'
import type { CompiledCall } from '../../lib/connectors/types.js'
import { type ErrorName, failure, isFailure } from '../../lib/errors.js'
import { inTurn, unrefused } from '../../lib/runtime/computing.js'
import { retryAfterOf } from '../../lib/time/retry-after.js'
import { depthHeader, maxDepth } from '../../lib/webhooks/depth.js'
import type { Outbound, OutboundResponse } from '../outbound/outbound.js'
import type { Integrations } from './integrations.js'
import type { Tokens } from './tokens.js'

const maxTries = 3
const firstWait = 250 // ms; each wait after it is twice as long

/** The service was too busy, or failed: a retry may succeed. */
function isTransient (status: number): boolean {
  return status === 429 || status >= 500
}

/** There was no connection, or it was lost: after a response, however wrong, there is no retry. */
function isLost (error: unknown): boolean {
  return isFailure(error, 'providerFailed') && error.cause instanceof Error
}

/**
 * Milliseconds after the try of this number, starting at 1: the service's `Retry-After`, else a doubling wait, randomised so that calls
 * that failed together do not return together.
 */
function waitAfter (tries: number, retryAfter: string | undefined, now: number): number {
  const asked = retryAfterOf(retryAfter, now)
  return asked === undefined ? firstWait * 2 ** (tries - 1) * (0.5 + Math.random() / 2) : asked * 1000
}

const defaultTimeoutMs = 10_000
const maxTimeoutMs = 600_000
const largeResponse = 65_536 // bytes, from which reading yields to other requests

export function createRunner (outbound: Outbound, tokens: Tokens, now: () => number): Integrations['run'] {
  const memory = createResultMemory()
  return async (call, scope, { tenant, idempotencyKey, retries = true, timeoutMs = defaultTimeoutMs, signal, held, log }) => {
    signal?.throwIfAborted()
    const { depth = 0 } = scope
    if (depth >= maxDepth) throw failure('webhooksNested')
    const inCallersTurn = <Result>(length: number, work: () => Result) => inTurn({ worker: scope, length, turns: unrefused }, work)
    const { trusted, method, url, headers: prepared, body } = await inCallersTurn(0, () => call.prepare(scope))
    signal?.throwIfAborted()
    // Headers of the document take precedence.
    const trace = prepared['traceparent'] === undefined && prepared['tracestate'] === undefined ? scope.trace : null
    const headers: Record<string, string> = {
      ...idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey },
      ...trace,
      ...prepared,
      // Other services need not know of it.
      ...depth > 0 && { [depthHeader]: String(depth + 1) }
    }
    const mayRepeat = retries && (call.idempotent || headers['idempotency-key'] !== undefined)
    const tokenOf = call.oauth2 === null ? null : tokens.of(call, call.oauth2, scope, tenant, log)

    // Between two tries, or until the response has its turn, a call keeps its body or the response, but no place in `outbound`.
    const sending = memory.hold(tenant)
    const ending = new AbortController()
    const end = () => ending.abort(signal?.reason)
    signal?.addEventListener('abort', end)
    const time = Math.min(timeoutMs, maxTimeoutMs)
    const endsAt = performance.now() + time
    const left = () => endsAt - performance.now()
    const timer = setTimeout(() => ending.abort(failure('providerTimeout')), time)

    function send (token: string | null): Promise<OutboundResponse> {
      // The responses of the tenant's other calls may have filled the memory since the last try.
      sending.requireRoom()
      const sent = token === null ? headers : { ...headers, authorization: `Bearer ${token}` }
      return outbound.request({
        tenant,
        trusted,
        method,
        url,
        headers: sent,
        body,
        timeoutMs: left(),
        followRedirects: call.followRedirects,
        signal: ending.signal
      })
    }

    let renewed = false
    /** With a token, if the service uses one. */
    async function authorized (): Promise<OutboundResponse> {
      if (tokenOf === null) return await send(null)
      const token = await untilAborted(tokenOf.get(left()), ending.signal)
      const response = await send(token)
      if (response.status !== 401 || renewed) return response
      renewed = true
      return await send(await untilAborted(tokenOf.renew(token), ending.signal))
    }

    /** The response of the last try. */
    async function tried (): Promise<OutboundResponse> {
      for (let tries = 1; ; tries++) {
        const last = !mayRepeat || tries === maxTries
        let wait: number
        try {
          const response = await authorized()
          wait = waitAfter(tries, response.headers['retry-after'], now())
          // If the service asks for a longer wait than the caller has, the call fails at once.
          if (last || !isTransient(response.status) || wait >= left()) return response
        } catch (error) {
          if (last || !isLost(error)) throw error
          wait = waitAfter(tries, undefined, now())
        }
        await untilAborted(sleep(wait, undefined, { signal: ending.signal }), ending.signal)
      }
    }

    async function resultOf (response: OutboundResponse): Promise<unknown> {
      sending.text(response.body.length)
      held?.value(response.body.length)
      if (response.body.length <= largeResponse) return call.result(response)
      return await inCallersTurn(response.body.length, () => call.result(response))
    }

    try {
      if (body !== null) sending.text(Buffer.byteLength(body))
      sending.requireRoom()
      const response = await tried()
      const { status } = response
      if (status >= 200 && status < 300) return await resultOf(response)
      throw failure('providerFailed', { message: `The service responded with ${status}`, extras: { status } })
    } catch (error) {
      throw placed(error, call)
    } finally {
      sending.release()
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
    }
  }
}

const placedErrors = [
  'providerFailed', 'providerAnswerTooComplex', 'providerTimeout', 'providerBusy', 'addressRefused'
] as const satisfies readonly ErrorName[]

function placed (error: unknown, { connector, action }: CompiledCall): unknown {
  for (const name of placedErrors) {
    if (isFailure(error, name)) {
      return failure(name, {
        message: error.message,
        headers: error.headers,
        cause: error.cause,
        extras: { integration: connector, action, ...error.extras }
      })
    }
  }
  return error
}
