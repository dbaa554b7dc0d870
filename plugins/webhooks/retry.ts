/** When failed deliveries are sent again. */
import { dayMs, hourMs } from '../../lib/time/spans.js'

/** How long a delivery is retried. */
export const retryForMs = dayMs

const firstMs = 5000
const longestMs = hourMs
const longestUncalledMs = 300_000

/**
 * The time of the next attempt: five seconds after the first, then twice as long each time, at most an hour; the last attempt
 * is at the end of the period. null: there is no further attempt.
 *
 * @param attempts the number of attempts so far, 1 or more
 * @param called whether the receiver was called. If not, others of its deliveries failed just before, and the delay stays short, so
 * that they do not wait long once the receiver is back
 */
export function nextAttempt (attempts: number, now: Date, giveUpAt: Date, called: boolean): Date | null {
  if (now >= giveUpAt) return null
  const wait = Math.min(called ? longestMs : longestUncalledMs, firstMs * 2 ** Math.min(attempts - 1, 20))
  return new Date(Math.min(now.getTime() + wait, giveUpAt.getTime()))
}
