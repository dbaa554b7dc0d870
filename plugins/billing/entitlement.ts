/** Whether a subscription entitles to its plan at a time, and when that changes by time alone. */
import { dayMs } from '../../lib/time/spans.js'
import type { Snapshot } from './providers/provider.js'

/** The time for which a missing payment, or a renewal without an event, leaves the plan unchanged. */
export const graceMs = 7 * dayMs

/** Times in ms since 1970. */
export interface Entitlement {
  readonly entitled: boolean
  /** The period is over, and its renewal is unknown. */
  readonly overdue: boolean
  /** The time of the next change without an event; Infinity: never. */
  readonly changesAt: number
  /** The time at which it changed without an event, so that the provider should be asked; null without such a change. */
  readonly changedAt: number | null
}

const none: Entitlement = Object.freeze({ entitled: false, overdue: false, changesAt: Infinity, changedAt: null })

/** At `now`, in ms since 1970. */
export function entitlement (snapshot: Snapshot, now: number): Entitlement {
  const { status, cancelAtPeriodEnd, endedAt, pastDueSince, periodStart, periodEnd } = snapshot
  const end = periodEnd.getTime()
  // A scheduled end applies, also after later events.
  switch (endedAt !== null && gives(status) ? 'canceled' : status) {
    case 'active':
    case 'trialing':
      if (now < end) return running(end)
      if (cancelAtPeriodEnd) return { ...none, changedAt: end }
      return now < end + graceMs
        ? { entitled: true, overdue: true, changesAt: end + graceMs, changedAt: end }
        : { ...none, changedAt: end + graceMs }
    case 'past_due': {
      const last = (pastDueSince ?? periodStart).getTime() + graceMs
      return now < last ? running(last) : { ...none, changedAt: last }
    }
    case 'canceled': {
      const last = (endedAt ?? periodEnd).getTime()
      return now < last ? running(last) : none
    }
    case 'unpaid':
    case 'incomplete':
      return none
  }
}

function gives (status: Snapshot['status']): boolean {
  return status === 'active' || status === 'trialing' || status === 'past_due'
}

function running (changesAt: number): Entitlement {
  return { entitled: true, overdue: false, changesAt, changedAt: null }
}
