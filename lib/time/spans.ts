/** Spans of time in milliseconds. A day has 24 hours, as in UTC. */
export const hourMs = 3_600_000
export const dayMs = 86_400_000
/** The clocks of two servers may differ by this. A stored time further ahead comes from a wrong clock. */
export const clockTolerance = 600_000

/** Returns a function that returns true at most once in that many milliseconds. */
export function atMostEvery (ms: number): () => boolean {
  let last = -Infinity
  return () => {
    const now = performance.now()
    if (now - last < ms) return false
    last = now
    return true
  }
}
