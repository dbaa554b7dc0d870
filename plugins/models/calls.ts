/** The model calls in progress. Limits their number for each tenant, and ends them when the app closes. */
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

const maxOfTenant = 100
const maxInAll = 2000
const stopMs = 5000 // ms for calls to end by themselves while the app stops

export interface Call {
  /** Aborts when the caller leaves, and when the app closes. */
  readonly signal: AbortSignal
  abort(reason: Error): void
  /** Call it when all work of the call is done. */
  end(): void
}

export interface Calls {
  /** Rejects with `providerBusy` at the maximum number of calls, and with the signal's reason. */
  begin(tenant: Owner, signal: AbortSignal): Promise<Call>
  /** Gives the calls 5 seconds to end, aborts the others, and resolves when all have ended. */
  close(): Promise<void>
}

export function createCalls (): Calls {
  const places = createTenantLimiter({ maxOfTenant, maxInAll, tooManyOfTenant, tooManyInAll })
  const open = new Map<AbortController, Promise<unknown>>()
  let closed = false

  return {
    async begin (tenant, signal) {
      if (closed) throw failure('stopping')
      signal.throwIfAborted()
      const ending = new AbortController()
      const leave = () => ending.abort(signal.reason)
      let end = () => {}
      const ended = new Promise<void>((resolve) => {
        end = resolve
      })
      await new Promise<void>((resolve, reject) => {
        places.run(tenant, async () => {
          resolve()
          await ended
        }).catch(reject)
      })
      if (closed) {
        end()
        throw failure('stopping')
      }
      signal.addEventListener('abort', leave, { once: true })
      if (signal.aborted) leave()
      open.set(ending, ended)
      return {
        signal: ending.signal,
        abort: (reason) => ending.abort(reason),
        end () {
          signal.removeEventListener('abort', leave)
          open.delete(ending)
          end()
        }
      }
    },
    async close () {
      closed = true
      places.close()
      const ends = Promise.all(open.values())
      if (await settlesWithin(ends, stopMs)) return
      for (const ending of open.keys()) ending.abort(failure('stopping'))
      await ends
    }
  }
}

const later = retryIn(1)

function tooManyOfTenant (): Error {
  return failure('providerBusy', {
    message: `At most ${maxOfTenant} model calls of a tenant can run at the same time: try again when one of them has finished`,
    ...later
  })
}

function tooManyInAll (): Error {
  return failure('providerBusy', { message: 'Too many model calls are running; try again', ...later })
}
