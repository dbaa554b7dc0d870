/** The clock of this process, `Date.now`, for code that reads it and starts after the call. */
import type { Test } from 'tap'

/** Returns a function that moves the clock on. The test restores it at its end. */
export function movableClock (t: Test): (ms: number) => void {
  const { now } = Date
  let ahead = 0
  t.intercept(Date, 'now', { value: () => now() + ahead })
  return (ms) => {
    ahead += ms
  }
}
