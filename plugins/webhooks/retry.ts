/** The retries of a failed delivery. */

/** How long it is tried. */
export const retryForMs = 86_400_000

const firstMs = 5000
const longestMs = 3_600_000
const longestUncalledMs = 300_000

/**
 * The time of the next attempt: five seconds after the first, then twice as long each time, an hour at most; the last one
 * when the time is over. null: it was the last.
 *
 * @param attempts those that were made, 1 or more
 * @param called whether the receiver was asked at all. Where it was not, others of its deliveries failed just before: once it
 * is back, those that wait are not to wait for long
 */
export function nextAttempt (attempts: number, now: Date, giveUpAt: Date, called = true): Date | null {
  if (now >= giveUpAt) return null
  const wait = Math.min(called ? longestMs : longestUncalledMs, firstMs * 2 ** Math.min(attempts - 1, 20))
  return new Date(Math.min(now.getTime() + wait, giveUpAt.getTime()))
}
