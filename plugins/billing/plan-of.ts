/** The plan that a tenant's subscriptions give it, and when that is to be looked at again. Pure. */
import type { Cycle, ProviderName } from './providers/provider.js'
import type { Known } from './snapshots.js'
import { entitlement } from './entitlement.js'
import { hourMs } from '../../lib/time/spans.js'

/** The plan of a tenant whose subscriptions have all ended. */
export const lowestPlan = 'free'

const pauses = { answered: hourMs, failed: hourMs / 12 } // between two times that the scheduler asks a provider about a tenant

/** A subscription of a tenant. */
export interface Held extends Known {
  readonly provider: ProviderName
  readonly id: string
  /** What its products stand for; null where they are in no product map. */
  readonly plan: string | null
  readonly cycle: Cycle | null
}

/** A subscription with a known state. */
export interface Reported extends Held {
  readonly snapshot: NonNullable<Known['snapshot']>
}

/** What billing remembers of the tenant, times in ms since 1970. */
export interface Memory {
  /** What the subscriptions gave last; null where none ever gave anything. */
  readonly given: string | null
  /** When the provider answered last, */
  readonly pulledAt: number | null
  /** and when it was asked last. */
  readonly triedAt: number | null
  /** Since when the tenant is there: a subscription that had ended before says nothing. */
  readonly since: number
}

export interface Judgement {
  /** The subscription that entitles to the highest plan; of one plan that which began last. null where none entitles to any. */
  readonly current: Reported | null
  /** The one to show: that, or else the one that was there last. */
  readonly shown: Reported | null
  /** What the subscriptions give; null where none ever gave anything. */
  readonly given: string | null
  /** The provider knows more than is known here. */
  readonly asks: boolean
  /** When it is to be judged again, in ms since 1970; Infinity: at the next event. */
  readonly dueAt: number
}

/**
 * @param tiers the plans, from the lowest
 * @param canAsk whether the provider of a subscription can be asked
 */
export function judge (
  held: readonly Held[],
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
    // One that was never paid has never given anything.
    else if (snapshot.status !== 'incomplete') left ||= endOf(one) >= since
    dueAt = Math.min(dueAt, changesAt)
    const isNews = askedAt !== null && askedAt > snapshot.asOf && (!entitled || overdue)
    const isOver = changedAt !== null && (overdue || (pulledAt ?? -Infinity) < changedAt)
    asks ||= canAsk(one.provider) && (unsure || isNews || isOver)
  }
  const current =
    entitling.filter(({ plan }) => plan !== null && tiers.includes(plan)).sort((one, other) =>
      tierOf(other, tiers) - tierOf(one, tiers) || byStart(one, other, tiers)
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

function isReported (held: Held): held is Reported {
  return held.snapshot !== null
}

/** The latest first; never by the order in which they came. */
function byStart (one: Reported, other: Reported, tiers: readonly string[]): number {
  return other.snapshot.startedAt.getTime() - one.snapshot.startedAt.getTime() ||
    other.snapshot.periodEnd.getTime() - one.snapshot.periodEnd.getTime() ||
    tierOf(other, tiers) - tierOf(one, tiers) || (`${one.provider} ${one.id}` < `${other.provider} ${other.id}` ? -1 : 1)
}

function tierOf ({ plan }: Reported, tiers: readonly string[]): number {
  return plan === null ? -1 : tiers.indexOf(plan)
}

/** When one that entitles to nothing any more ended. */
function endOf ({ snapshot: { endedAt, periodEnd } }: Reported): number {
  return (endedAt ?? periodEnd).getTime()
}

function nextAsk (now: number, pulledAt: number | null, triedAt: number | null): number {
  if (triedAt === null) return now
  return Math.max(now, triedAt + (triedAt > (pulledAt ?? -Infinity) ? pauses.failed : pauses.answered))
}
