/** The messages that a client may send: as many at once as in a second. */

/**
 * @param perSecond the messages that time adds, and the most that it saves up
 * @param now a monotonic clock, in milliseconds
 */
export function createMessageAllowance (perSecond: number, now: () => number) {
  let left = perSecond
  let countedAt = now()
  let pausedAt = 0

  const gained = (ms: number) => Math.max(0, ms) * perSecond / 1000

  return {
    /** Counts a message; false if none is left. */
    take (): boolean {
      const at = now()
      left = Math.max(left, Math.min(perSecond, left + gained(at - countedAt)))
      countedAt = at
      if (left < 1) return false
      left--
      return true
    },
    /** From now on, the client's messages wait in its socket. */
    pause (): void {
      pausedAt = now()
    },
    /** The messages that the client was allowed to send during the pause arrive at once: they are added to the limit. */
    resume (): void {
      const at = now()
      left = Math.min(perSecond, left + gained(pausedAt - countedAt)) + gained(at - pausedAt)
      countedAt = at
    }
  }
}
