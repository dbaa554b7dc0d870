/** A user's usage of a resource, and its limits. */
import { type Static, Type } from 'typebox'
import { failure, type TenantryError } from '../../lib/errors.js'
import { OrNull } from '../../lib/http/schemas.js'
import { Percentage, unlimited } from '../../lib/plans/plans.js'
import { clockTolerance } from '../../lib/time/spans.js'
import { named } from '../../lib/validation/named-schema.js'
import { type Period, periods, startOf } from './periods.js'
import { gateActions, type LimitedUser, limitOf, type Rule } from './rules.js'

/** A period's last counted beginning, in milliseconds since 1970 (null: none), and the amount used in it. */
export interface Slot {
  readonly start: number | null
  readonly amount: number
}

/** By period. */
export type Slots = Readonly<Record<Period, Slot>>

const empty: Slot = Object.freeze({ start: null, amount: 0 })
export const noSlots: Slots = Object.freeze({ minute: empty, hour: empty, day: empty, week: empty, month: empty, total: empty })

/** From the beginning and amount of each period, in the order of the periods. */
export function slotsOf (values: readonly (number | null)[]): Slots {
  const slots: Record<Period, Slot> = { ...noSlots }
  for (const [index, period] of periods.entries()) slots[period] = { start: values[2 * index] ?? null, amount: values[2 * index + 1] ?? 0 }
  return slots
}

/**
 * The amount used in the period that contains the time. Ignores earlier periods, and counts of a wrong clock beyond the tolerance. A server
 * still counts in a period that has only begun for another one.
 */
export function usedAt ({ start, amount }: Slot, period: Period, at: number): number {
  return start !== null && start >= startOf(period, at) && start <= at + clockTolerance ? amount : 0
}

export const CheckResult = named(
  'LimitCheck',
  Type.Object({
    allowed: Type.Boolean({ description: 'True if the limit allows the amount.' }),
    gateAction: OrNull(Type.Enum([...gateActions]), 'The action of the limit shown in `usage`: the limit with the least remaining amount, or a limit that refuses. null if no limit applies.'),
    usage: Type.Object({
      current: Type.Integer({ description: 'The amount used in the current period.' }),
      limit: Type.Integer({ description: 'The limit of the period; -1 means unlimited.' })
    })
  })
)
export type CheckResult = Static<typeof CheckResult>

/** The usage of one resource by one user. */
export const UsageEntry = Type.Object({
  resource: Type.String(),
  metric: Type.String(),
  period: Type.Enum([...periods]),
  current: Type.Integer(),
  limit: Type.Integer({ description: 'The limit of the period; -1 means unlimited.' }),
  percentage: Percentage,
  scope: Type.Enum(['user'])
})
export type UsageEntry = Static<typeof UsageEntry>

/** If no rule limits the user, nothing is counted. */
export const noLimit: CheckResult = Object.freeze({
  allowed: true,
  gateAction: null,
  usage: Object.freeze({ current: 0, limit: unlimited })
})

/** The decision of a rule about using this amount. */
export interface Verdict {
  readonly rule: Rule
  readonly current: number
  readonly limit: number
  /** Infinity without a limit; negative if usage exceeds the limit. */
  readonly left: number
  readonly allowed: boolean
}

export function verdictsOf (rules: readonly Rule[], { tier }: LimitedUser, slots: Slots, amount: number, at: number): Verdict[] {
  return rules.map((rule) => {
    const limit = limitOf(rule, tier)
    const current = usedAt(slots[rule.period], rule.period, at)
    const left = limit === unlimited ? Infinity : limit - current
    return { rule, current, limit, left, allowed: left >= amount }
  })
}

/** The decision with the least left; if any refuse, among those that refuse. Of equal ones the first. */
export function strictest (verdicts: readonly Verdict[]): Verdict | undefined {
  const refusing = verdicts.filter(({ allowed }) => !allowed)
  const [first, ...others] = refusing.length > 0 ? refusing : verdicts
  return first === undefined ? undefined : others.reduce((least, other) => other.left < least.left ? other : least, first)
}

export function resultOf (verdict: Verdict | undefined): CheckResult {
  if (verdict === undefined) return noLimit
  const { rule: { gateAction = 'block' }, allowed, current, limit } = verdict
  return { allowed, gateAction, usage: { current, limit } }
}

/** The 402 of a refused request. */
export function limitReached (verdict: Verdict): TenantryError {
  const { rule: { resource, metric, period } } = verdict
  const span = period === 'total' ? 'in all' : period === 'hour' ? 'an hour' : `a ${period}`
  return failure('resourceLimit', {
    message: `The limit of ${resource} ${metric} is ${verdict.limit} ${span}`,
    extras: { ...resultOf(verdict), allowed: false }
  })
}
