/** The model calls in progress. Limits their number for each tenant, and ends them when the app closes. */
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stoppedBefore } from '../../lib/plugin/lifecycle.js'

const maxOfTenant = 100
const maxInAll = 2000

export type Calls = ReturnType<typeof createCalls>

export function createCalls () {
  const places = createTenantLimiter({ maxOfTenant, maxInAll, tooManyOfTenant, tooManyInAll })
  const open = new Map<AbortController, Promise<unknown>>()
  let closed = false

  return {
    /** Rejects with `providerBusy` at the maximum number of calls, and with the signal's reason. */
    async begin (tenant: Owner, signal: AbortSignal) {
      if (closed) throw stopped()
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
        throw stopped()
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
    /** Gives the calls that time to end, aborts the others, and resolves when all have ended. */
    async close (graceMs: number): Promise<void> {
      closed = true
      places.close()
      const ends = Promise.all(open.values())
      if (await settlesWithin(ends, graceMs)) return
      for (const ending of open.keys()) ending.abort(stopped())
      await ends
    }
  }
}

const later = retryIn(1)

const stopped = () => stoppedBefore('the model')

function tooManyOfTenant (): Error {
  return failure('providerBusy', {
    message: `At most ${maxOfTenant} model calls of a tenant can run at the same time: try again when one of them has finished`,
    ...later
  })
}

function tooManyInAll (): Error {
  return failure('providerBusy', { message: 'Too many model calls are running; try again', ...later })
}
