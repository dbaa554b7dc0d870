/** When a delivery that failed is tried again. */

/** How long it is tried. */
export const retryForMs = 86_400_000

const firstMs = 5000
const longestMs = 3_600_000

/**
 * The time of the next attempt: five seconds after the first, then twice as long each time, an hour at most; the last one
 * when the time is over. null: it was the last.
 *
 * @param attempts those that were made, 1 or more
 */
export function nextAttempt (attempts: number, now: Date, giveUpAt: Date): Date | null {
  if (now >= giveUpAt) return null
  const wait = Math.min(longestMs, firstMs * 2 ** Math.min(attempts - 1, 20))
  return new Date(Math.min(now.getTime() + wait, giveUpAt.getTime()))
}
