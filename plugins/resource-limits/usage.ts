/** A user's usage of a resource, and the limits of it. */
import { failure, type TenantryError } from '../../lib/errors.js'
import { unlimited } from '../../lib/plans/plans.js'
import { periods, startOf, type Period } from './periods.js'
import { limitOf, type GateAction, type LimitedUser, type Rule } from './rules.js'

/**
 * ms that the clocks of two servers may differ: what one of them counted in a period that has begun for it alone is counted on
 * by the other.
 */
export const clockTolerance = 60_000

/** Of a period: when the one that was counted last began, in milliseconds since 1970 (null: none), and how much was used in it. */
export interface Slot {
  readonly start: number | null
  readonly amount: number
}

/** By period. */
export type Slots = Readonly<Record<Period, Slot>>

const empty: Slot = Object.freeze({ start: null, amount: 0 })
export const noSlots: Slots = Object.freeze({ minute: empty, hour: empty, day: empty, week: empty, month: empty, total: empty })

/** From start and amount of each period in their order. */
export function slotsOf (values: readonly (number | null)[]): Slots {
  const slots: Record<Period, Slot> = { ...noSlots }
  for (const [index, period] of periods.entries()) slots[period] = { start: values[2 * index] ?? null, amount: values[2 * index + 1] ?? 0 }
  return slots
}

/**
 * How much was used in the period that holds the time. A count of an earlier period is over; one of a later period than
 * the tolerance allows was made by a clock that was wrong, and does not count.
 */
export function usedAt ({ start, amount }: Slot, period: Period, at: number): number {
  return start !== null && start >= startOf(period, at) && start <= at + clockTolerance ? amount : 0
}

/** The result of the check of a limit. `gateAction` is that of the rule; null where there is none. */
export interface CheckResult {
  readonly allowed: boolean
  readonly gateAction: GateAction | null
  readonly usage: { readonly current: number, readonly limit: number }
}

/** Where no rule limits the user: nothing is counted. */
export const noLimit: CheckResult = Object.freeze({
  allowed: true,
  gateAction: null,
  usage: Object.freeze({ current: 0, limit: unlimited })
})

/** What a rule says of using so much more. */
export interface Verdict {
  readonly rule: Rule
  readonly current: number
  readonly limit: number
  /** Infinity where nothing limits it; negative where more was used than it admits. */
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

/** The one with the least left, the first of several; of those that refuse where any does. */
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
