/** The parts of the app that a run of a workflow needs. */
import { setTimeout } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { CacheStore } from '../../lib/cache/store.js'
import type { HeldResults } from '../../lib/concurrency/result-memory.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import type { PlaceOf } from '../../lib/expressions/condition.js'
import type { StepRunners } from '../../lib/workflows/service-steps.js'
import type { Integrations } from '../integrations/integrations.js'
import type { Journal } from './journal.js'
import type { RunCaller } from './run-caller.js'

export interface RunContext {
  readonly journal: Journal
  /** Called for writes of database steps; null without a cache. */
  readonly cache: CacheStore | null
  /** null without the plugin: then no workflow has such steps. */
  readonly integrations: Integrations | null
  readonly steps: StepRunners
  /** Counts the results in memory. Default: they are not counted. */
  readonly held?: HeldResults | undefined
  /** For the tools of steps. Default: a caller that may call no tool. */
  readonly caller?: RunCaller | undefined
  /** Aborts, with the error that ends the run, when no caller waits for the run any longer. */
  readonly signal: AbortSignal
  /** Called before each step. Throws, or rejects with, `tenantUnknown` if the tenant was deleted. Default: the journal checks it. */
  readonly requireTenant?: (() => void | Promise<void>) | undefined
  readonly log: FastifyBaseLogger
  /** Places in the document, for the log. Default: the places within the workflow. */
  readonly placeOf?: PlaceOf | undefined
  /** Default: the system's. */
  readonly clock?: Clock | undefined
  /** Milliseconds after which no further step or attempt begins; the run then rejects with `providerTimeout`. Default: no limit. */
  readonly timeoutMs?: number | undefined
  /**
   * Milliseconds for one step of the list, with its inner steps and attempts. Beyond them the step fails with `providerTimeout`.
   * Default: no limit.
   */
  readonly stepMs?: number | undefined
  /** Milliseconds after which the run rejects with `TurnOver` before its next step, if it has completed one. Default: no limit. */
  readonly turnMs?: number | undefined
}

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** Resolves after this number of milliseconds; rejects if the signal is aborted earlier. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  // The process's monotonic clock: setting the machine's clock does not change timeouts of steps.
  now: () => Math.round(performance.timeOrigin + performance.now()),
  sleep: (ms, signal) => setTimeout(ms, undefined, { signal })
}

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
