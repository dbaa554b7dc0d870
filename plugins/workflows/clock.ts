/** The clock of workflow runs; tests have their own. */
import { setTimeout } from 'node:timers/promises'

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
