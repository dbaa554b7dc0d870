/** Bounds of the messages that slow clients have not read. */

/** Of a connection. Beyond it the connection is closed. */
export const maxUnsentBytes = 1_048_576
/** Of a connection. Beyond it no earlier changes are read for the client. */
export const littleUnsentBytes = 262_144
const pauseMs = 20 // ms between checks
const stalledMs = 30_000 // ms without progress

/** Resolves with true when little is unsent, and with false after 30 seconds in which the client read nothing. */
export async function drain (unsent: () => number): Promise<boolean> {
  let [bytes, since] = [unsent(), performance.now()]
  while (bytes > littleUnsentBytes) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
    const before = bytes
    bytes = unsent()
    if (bytes < before) since = performance.now()
    else if (performance.now() - since >= stalledMs) return false
  }
  return true
}
