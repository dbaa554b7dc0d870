/** Caps a provider's times at the present: a future time would win over all later events. */
import type { ProviderEvent, Snapshot } from './providers/provider.js'

/** The tolerated lead of a provider's clock, as with signatures. */
const ahead = 300_000 // ms

/** @param now the time of receipt, in ms since 1970 */
export function heardSnapshot (snapshot: Snapshot, now: number): Snapshot {
  const { asOf, pastDueSince } = snapshot
  return {
    ...snapshot,
    asOf: notAfter(asOf, now + ahead),
    pastDueSince: pastDueSince === null ? null : notAfter(pastDueSince, now + ahead)
  }
}

/** @param now the time of receipt, in ms since 1970 */
export function heardEvent (event: ProviderEvent, now: number): ProviderEvent {
  const { at, snapshot } = event
  return { ...event, at: notAfter(at, now + ahead), snapshot: snapshot === null ? null : heardSnapshot(snapshot, now) }
}

function notAfter (date: Date, time: number): Date {
  return date.getTime() > time ? new Date(time) : date
}
