/** The model calls in progress. Limits their number for each tenant, and ends them when the app closes. */
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

const maxOfTenant = 100
const maxInAll = 2000
const stopMs = 5000 // ms for calls to end by themselves while the app stops

export type Calls = ReturnType<typeof createCalls>

export function createCalls () {
  const places = createTenantLimiter({ maxOfTenant, maxInAll, tooManyOfTenant, tooManyInAll })
  const open = new Map<AbortController, Promise<unknown>>()
  let closed = false

  return {
    /** Rejects with `providerBusy` at the maximum number of calls, and with the signal's reason. */
    async begin (tenant: Owner, signal: AbortSignal) {
      if (closed) throw failure('stopping')
      signal.throwIfAborted()
      const ending = new AbortController()
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
      open.set(ending, ended)
      return {
        /** Aborts when the caller leaves, and when the app closes. */
        signal: AbortSignal.any([signal, ending.signal]),
        /** Call it when all work of the call is done. */
        end (): void {
          open.delete(ending)
          end()
        }
      }
    },
    /** Gives the calls 5 seconds to end, aborts the others, and resolves when all have ended. */
    async close (): Promise<void> {
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
