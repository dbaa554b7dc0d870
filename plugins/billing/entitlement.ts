/** Whether a subscription entitles to its plan at a time, and when that changes by time alone. */
import { dayMs } from '../../lib/time/spans.js'
import type { Snapshot } from './providers/provider.js'

/** The time for which a missing payment, or a renewal without an event, leaves the plan unchanged. */
export const graceMs = 7 * dayMs

/** Times in ms since 1970. */
export interface Entitlement {
  readonly entitled: boolean
  /** The period is over, and it is not known whether it was renewed. */
  readonly overdue: boolean
  /** When the next of these changes without an event; Infinity: never. */
  readonly changesAt: number
  /** Since when time alone has changed it, so that the provider is worth asking; null where it has not. */
  readonly changedAt: number | null
}

const none: Entitlement = Object.freeze({ entitled: false, overdue: false, changesAt: Infinity, changedAt: null })

/** At `now`, in ms since 1970. */
export function entitlement (snapshot: Snapshot, now: number): Entitlement {
  const { status, cancelAtPeriodEnd, endedAt, pastDueSince, periodStart, periodEnd } = snapshot
  const end = periodEnd.getTime()
  // An end that is set holds, whatever later events say.
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
