/** The plan that a tenant's subscriptions give it, and when that changes by time alone. Pure. */
import { dayMs, hourMs } from '../../lib/time/spans.js'
import type { Cycle, ProviderName, Snapshot } from './providers/provider.js'
import type { Known } from './snapshots.js'

/** The plan of a tenant without running subscriptions. */
export const lowestPlan = 'free'

const pauses = { answered: hourMs, failed: hourMs / 12 } // between two calls of the scheduler to a provider about a tenant

export interface TenantSubscription extends Known {
  readonly provider: ProviderName
  readonly id: string
  /** The plan and cycle of its products; null if no product map has them. */
  readonly plan: string | null
  readonly cycle: Cycle | null
}

/** A subscription with a known state. */
export interface Reported extends TenantSubscription {
  readonly snapshot: NonNullable<Known['snapshot']>
}

/** The stored billing state of the tenant, times in ms since 1970. */
export interface Memory {
  /** The last plan of its subscriptions; null if none ever gave one. */
  readonly given: string | null
  /** The time of the provider's last response, */
  readonly pulledAt: number | null
  /** and of the last call to it. */
  readonly triedAt: number | null
  /** The creation time of the tenant: subscriptions that had ended before do not count. */
  readonly since: number
}

export interface Judgement {
  /** The subscription with the highest plan, unknown plans last; at equal plans the one that began last. null if none entitles. */
  readonly current: Reported | null
  /** The displayed subscription: that, or else the last one. */
  readonly shown: Reported | null
  /** The plan of the subscriptions; null if none ever gave one. */
  readonly given: string | null
  /** The provider knows more than the stored state. */
  readonly asks: boolean
  /** The time of the next evaluation, in ms since 1970; Infinity: at the next event. */
  readonly dueAt: number
}

/**
 * @param tiers the plans, from the lowest
 * @param canAsk whether the provider of a subscription can be called
 */
export function resolvePlan (
  held: readonly TenantSubscription[],
  { given, pulledAt, triedAt, since }: Memory,
  tiers: readonly string[],
  canAsk: (provider: ProviderName) => boolean,
  now: number
): Judgement {
  const reported = held.filter(isReported).sort((one, other) => byStart(one, other, tiers))
  let [dueAt, asks, left] = [Infinity, false, false]
  const entitling: Reported[] = []
  for (const one of held) {
    if (!isReported(one)) {
      asks ||= canAsk(one.provider) && one.askedAt !== null
      continue
    }
    const { snapshot, unsure, askedAt } = one
    const { entitled, overdue, changesAt, changedAt } = entitlement(snapshot, now)
    if (entitled) entitling.push(one)
    // A subscription that was never paid has never given a plan.
    else if (snapshot.status !== 'incomplete') left ||= endOf(one) >= since
    dueAt = Math.min(dueAt, changesAt)
    const isNews = askedAt !== null && askedAt > snapshot.asOf && (!entitled || overdue)
    const isOver = changedAt !== null && (overdue || (pulledAt ?? -Infinity) < changedAt)
    asks ||= canAsk(one.provider) && (unsure || isNews || isOver)
  }
  // A plan that the document lacks stays: another server may have it. At equal tiers, only such plans can differ.
  const current =
    entitling.filter(({ plan }) => plan !== null).sort((one, other) =>
      tierOf(other, tiers) - tierOf(one, tiers) || Number(other.plan === given) - Number(one.plan === given) || byStart(one, other, tiers)
    )[0] ?? null
  if (asks) dueAt = Math.min(dueAt, nextAsk(now, pulledAt, triedAt))
  return {
    current,
    shown: current ?? reported.find(({ snapshot }) => snapshot.status !== 'incomplete') ?? reported[0] ?? null,
    given: current?.plan ?? (left || given !== null ? lowestPlan : null),
    asks,
    dueAt
  }
}

function isReported (held: TenantSubscription): held is Reported {
  return held.snapshot !== null
}

/** The latest first; never in the order of arrival. */
function byStart (one: Reported, other: Reported, tiers: readonly string[]): number {
  return other.snapshot.startedAt.getTime() - one.snapshot.startedAt.getTime() ||
    other.snapshot.periodEnd.getTime() - one.snapshot.periodEnd.getTime() ||
    tierOf(other, tiers) - tierOf(one, tiers) || (`${one.provider} ${one.id}` < `${other.provider} ${other.id}` ? -1 : 1)
}

function tierOf ({ plan }: Reported, tiers: readonly string[]): number {
  return plan === null ? -1 : tiers.indexOf(plan)
}

/** The end of one that no longer entitles. */
function endOf ({ snapshot: { endedAt, periodEnd } }: Reported): number {
  return (endedAt ?? periodEnd).getTime()
}

function nextAsk (now: number, pulledAt: number | null, triedAt: number | null): number {
  if (triedAt === null) return now
  return Math.max(now, triedAt + (triedAt > (pulledAt ?? -Infinity) ? pauses.failed : pauses.answered))
}

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
