/** Time, as runs of workflows see it; tests have their own. */
import { setTimeout } from 'node:timers/promises'

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** Resolves after as many milliseconds; rejects where the signal is aborted before. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  // The process's own clock: time-outs of steps do not change when the machine's clock is set.
  now: () => Math.round(performance.timeOrigin + performance.now()),
  sleep: (ms, signal) => setTimeout(ms, undefined, { signal })
}
