/** Times of a provider count as the present at the latest: a future time would win over all later events. */
import type { ProviderEvent, Snapshot } from './providers/provider.js'

/** How far a provider's clock may be ahead, as with signatures. */
const ahead = 300_000 // ms

/** @param now when it was heard, in ms since 1970 */
export function heardSnapshot (snapshot: Snapshot, now: number): Snapshot {
  const { asOf, pastDueSince } = snapshot
  return {
    ...snapshot,
    asOf: notAfter(asOf, now + ahead),
    pastDueSince: pastDueSince === null ? null : notAfter(pastDueSince, now + ahead)
  }
}

/** @param now when it was heard, in ms since 1970 */
export function heardEvent (event: ProviderEvent, now: number): ProviderEvent {
  const { at, snapshot } = event
  return { ...event, at: notAfter(at, now + ahead), snapshot: snapshot === null ? null : heardSnapshot(snapshot, now) }
}

function notAfter (date: Date, time: number): Date {
  return date.getTime() > time ? new Date(time) : date
}
