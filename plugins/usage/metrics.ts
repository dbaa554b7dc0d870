/** The counted metrics, and the limits of a plan. */
import type { TenantryError } from '../../lib/errors.js'
import { bytesPerMB, type Plan, planLimit, type Plans, unlimited } from '../../lib/plans/plans.js'

/** Sums of requests, added in memory. */
export type Counted = 'api_calls' | 'bandwidth_bytes'
/** Amounts that are reserved before their use. `ai_cost` is in millionths of a USD. */
export type Reserved = 'llm_tokens' | 'ai_cost' | 'storage_bytes'
/** `storage_bytes` is a gauge; the others are counted by day and month (UTC). */
export type Counter = Counted | Reserved
/** Counts of concurrently open resources. */
export type Gauge = 'connections' | 'rooms' | 'entities_watched'

/** The maximum amount: beyond it JSON numbers are no longer exact. Sums are capped at it. */
export const maxAmount = Number.MAX_SAFE_INTEGER

export const microPerUSD = 1_000_000

/** A limit of plans. */
interface Limit {
  readonly limitOf: (plan: Plan) => number
  /** Units of the ledger for one unit of the plan. */
  readonly unit: number
  /** The plan's limit in words. */
  readonly textOf: (limit: number) => string
}

export const limits: Readonly<Record<Reserved | Gauge, Limit>> = {
  llm_tokens: {
    limitOf: ({ limits }) => limits.ai.llmTokensPerMonth,
    unit: 1,
    textOf: (limit) => `${limit} tokens of language models per month`
  },
  ai_cost: {
    limitOf: ({ limits }) => limits.ai.maxCostPerMonth,
    unit: microPerUSD,
    textOf: (limit) => `${limit} USD for language models per month`
  },
  storage_bytes: {
    limitOf: ({ limits }) => limits.fileStorage.maxStorageMB,
    unit: bytesPerMB,
    textOf: (limit) => `${bytesText(limit * bytesPerMB)} of files`
  },
  connections: {
    limitOf: ({ limits }) => limits.websocket.maxConnections,
    unit: 1,
    textOf: (limit) => `${limit} concurrent websocket connections`
  },
  rooms: { limitOf: ({ limits }) => limits.websocket.maxRooms, unit: 1, textOf: (limit) => `${limit} concurrent rooms` },
  entities_watched: {
    limitOf: ({ limits }) => limits.websocket.maxEntitiesWatched,
    unit: 1,
    textOf: (limit) => `${limit} concurrently watched entities`
  }
}

/** The plan's limit, in units of the ledger; null for no limit. */
export function allowed (metric: Reserved | Gauge, plan: Plan): number | null {
  const { limitOf, unit } = limits[metric]
  const limit = limitOf(plan)
  return limit === unlimited ? null : Math.min(Math.floor(limit * unit), maxAmount)
}

/** 402: the plan has no room for this total. */
export function refusal (plans: Plans, metric: Reserved | Gauge, plan: Plan, needed: number): TenantryError {
  const { limitOf, unit, textOf } = limits[metric]
  return planLimit(`The plan "${plan.tier}" includes ${textOf(limitOf(plan))}`, plans.upgrade(plan.tier, limitOf, needed / unit))
}

/** Throws a TypeError unless it is a whole number from `least` to 2^53 - 1. */
export function checkAmount (amount: number, least: 0 | 1): void {
  if (Number.isSafeInteger(amount) && amount >= least) return
  throw new TypeError(`an amount must be an integer from ${least} to ${maxAmount}: got ${String(amount)}`)
}

const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'] as const

/** In the largest unit with a value of 1 or more, by powers of 1,024; at most two decimals. */
export function bytesText (bytes: number): string {
  let value = bytes
  let index = 0
  // A value that rounds to 1,024 of a unit is 1 of the next.
  while (index < units.length - 1 && Number(value.toFixed(2)) >= 1024) {
    value /= 1024
    index++
  }
  return `${Number(value.toFixed(2))} ${units[index] ?? ''}`
}
