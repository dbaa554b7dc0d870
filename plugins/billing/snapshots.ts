/**
 * The state of one subscription, from events in any order. `merged` is commutative, associative and idempotent: the same events give the
 * same state, in any order, late or repeated.
 */
import type { ProviderEvent, Snapshot } from './providers/provider.js'

export interface Known {
  /** The received state with the greatest `asOf`; null if only payments are known. */
  readonly snapshot: Snapshot | null
  /** The `asOf` of the last snapshot with a payment method, which later ones keep; null without one. */
  readonly methodAsOf: Date | null
  /** Several states with this time were received, and only the provider knows their order. */
  readonly unsure: boolean
  /** The time of the last event without a state; null if the provider was called since then. */
  readonly askedAt: Date | null
}

/** The state from a snapshot alone. */
export function knownOf (snapshot: Snapshot): Known {
  return {
    snapshot: { ...snapshot, productIds: [...new Set(snapshot.productIds)].sort() },
    methodAsOf: snapshot.paymentMethod === null ? null : snapshot.asOf,
    unsure: false,
    askedAt: null
  }
}

/** The state from an event without a snapshot. */
export function knownSince (askedAt: Date): Known {
  return { snapshot: null, methodAsOf: null, unsure: false, askedAt }
}

export function merged (one: Known, other: Known): Known {
  const askedAt = later(one.askedAt, other.askedAt)
  if (one.snapshot === null || other.snapshot === null) return { ...one.snapshot === null ? other : one, askedAt }
  const time = one.snapshot.asOf.getTime() - other.snapshot.asOf.getTime()
  const newest = time > 0 ? one : other
  const state = time === 0 ? sureOf(one.snapshot, one.unsure, other.snapshot, other.unsure) : newest
  return { ...withMethod(state.snapshot, one, other), unsure: state.unsure, askedAt }
}

/**
 * The same for a snapshot from a call to the provider. At equal times it wins, unless only one event has another state for that time: that
 * event may have happened right after the response.
 */
export function confirmed (known: Known, asked: Known): Known {
  const [before, reported] = [known.snapshot, asked.snapshot]
  if (before === null || reported === null) return merged(known, asked)
  const differs = contentOf(before) !== contentOf(reported)
  const time = reported.asOf.getTime() - before.asOf.getTime()
  if (differs && (time !== 0 || stageOf(before) !== stageOf(reported))) return merged(known, asked)
  return {
    ...withMethod(time < 0 ? before : reported, known, asked),
    unsure: differs && !known.unsure,
    askedAt: later(known.askedAt, asked.askedAt)
  }
}

/**
 * At equal times: an ended state wins, and an `incomplete` one loses. The order of others is unknown; the same one wins in any order of
 * arrival.
 */
function sureOf (one: Snapshot, oneUnsure: boolean, other: Snapshot, otherUnsure: boolean): { snapshot: Snapshot, unsure: boolean } {
  const step = stageOf(one) - stageOf(other)
  if (step !== 0) return step > 0 ? { snapshot: one, unsure: oneUnsure } : { snapshot: other, unsure: otherUnsure }
  const contents = [contentOf(one), contentOf(other)] as const
  if (contents[0] === contents[1]) return { snapshot: one, unsure: oneUnsure || otherUnsure }
  const order = one.periodEnd.getTime() - other.periodEnd.getTime() || (contents[0] > contents[1] ? 1 : -1)
  return { snapshot: order > 0 ? one : other, unsure: true }
}

function stageOf ({ status, endedAt }: Snapshot): number {
  if (status === 'canceled' || endedAt !== null) return 2
  return status === 'incomplete' ? 0 : 1
}

/** The comparable content of snapshots with equal times. */
function contentOf (
  { customerId, productIds, status, startedAt, periodStart, periodEnd, cancelAtPeriodEnd, endedAt, pastDueSince }: Snapshot
): string {
  return JSON.stringify([customerId, productIds, status, startedAt, periodStart, periodEnd, cancelAtPeriodEnd, endedAt, pastDueSince])
}

/** The snapshot with the latest payment method. */
function withMethod (snapshot: Snapshot | null, one: Known, other: Known): Pick<Known, 'snapshot' | 'methodAsOf'> {
  const [first, second] = [one.methodAsOf?.getTime() ?? -Infinity, other.methodAsOf?.getTime() ?? -Infinity]
  const isFirst = first === second ? (one.snapshot?.paymentMethod ?? '') >= (other.snapshot?.paymentMethod ?? '') : first > second
  const { snapshot: reported, methodAsOf } = isFirst ? one : other
  return { snapshot: snapshot === null ? null : { ...snapshot, paymentMethod: reported?.paymentMethod ?? null }, methodAsOf }
}

function later (one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other
  return one.getTime() >= other.getTime() ? one : other
}

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
