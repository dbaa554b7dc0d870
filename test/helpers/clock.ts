/** Clocks that a test moves. */
import type { Test } from 'tap'

/** A clock for an option `now`. */
export interface FakeClock {
  /** In milliseconds since 1970. */
  readonly now: () => number
  readonly forward: (ms: number) => void
  readonly set: (date: string) => void
}

/** @param start in milliseconds since 1970 */
export function fakeClock (start = Date.parse('2026-06-01T12:00:00Z')): FakeClock {
  let time = start
  return {
    now: () => time,
    forward (ms) {
      time += ms
    },
    set (date) {
      time = Date.parse(date)
    }
  }
}

/**
 * Returns a function that moves the clock of this process, `Date.now`, for code that reads it and starts after the call. The test restores
 * the clock at its end.
 */
export function movableClock (t: Test): (ms: number) => void {
  const { now } = Date
  let ahead = 0
  t.intercept(Date, 'now', { value: () => now() + ahead })
  return (ms) => {
    ahead += ms
  }
}
