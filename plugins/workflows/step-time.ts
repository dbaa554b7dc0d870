/** The time limit of one attempt of a step. */
import type { Clock } from './run-context.js'
import { failure, type TenantryError } from '../../lib/errors.js'

/** The error of a step that took longer. */
export function overdue (step: string): TenantryError {
  return failure('providerTimeout', { message: `The step "${step}" did not finish in time`, extras: { step } })
}

/**
 * Does the work until the time `ends`, in milliseconds since 1970. Then rejects with `providerTimeout`, and aborts the signal of the work.
 */
export async function within<Result> (
  ends: number,
  step: string,
  { clock, signal }: { readonly clock: Clock, readonly signal: AbortSignal },
  work: (signal: AbortSignal) => Promise<Result>
): Promise<Result> {
  const over = new AbortController()
  const done = new AbortController()
  const late = new Promise<never>((_resolve, reject) => {
    const error = overdue(step)
    clock.sleep(Math.max(0, ends - clock.now()), done.signal).then(() => {
      over.abort(error)
      reject(error)
    }, () => {})
    signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: done.signal })
  })
  try {
    return await Promise.race([work(AbortSignal.any([signal, over.signal])), late])
  } finally {
    done.abort()
  }
}
