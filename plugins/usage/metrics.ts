/** The counted metrics, and the limits of a plan. */
import type { TenantryError } from '../../lib/errors.js'
import { bytesPerMB, planLimit, unlimited, type Plan, type Plans } from '../../lib/plans/plans.js'
import { bytesText } from './bytes-text.js'

/** Sums of requests; added in memory. */
export type Counted = 'api_calls' | 'bandwidth_bytes'
/** What is reserved before it is used. `ai_cost` is in millionths of a USD. */
export type Reserved = 'llm_tokens' | 'ai_cost' | 'storage_bytes'
/** `storage_bytes` is a gauge; the others are counted by day and month (UTC). */
export type Counter = Counted | Reserved
/** What is open at a time. */
export type Gauge = 'connections' | 'rooms' | 'entities_watched'

/** The largest amount that is counted: beyond it JSON's numbers are no longer exact. What would exceed it stays at it. */
export const maxAmount = Number.MAX_SAFE_INTEGER

export const microPerUSD = 1_000_000

/** A limit of plans. */
interface Limit {
  readonly limitOf: (plan: Plan) => number
  /** How many the ledger counts for one of the plan's. */
  readonly unit: number
  /** What the plan includes, in words. */
  readonly textOf: (limit: number) => string
}

export const limits: Readonly<Record<Reserved | Gauge, Limit>> = {
  llm_tokens: {
    limitOf: ({ limits }) => limits.ai.llmTokensPerMonth,
    unit: 1,
    textOf: (limit) => `${limit} tokens of language models a month`
  },
  ai_cost: {
    limitOf: ({ limits }) => limits.ai.maxCostPerMonth,
    unit: microPerUSD,
    textOf: (limit) => `${limit} USD for language models a month`
  },
  storage_bytes: {
    limitOf: ({ limits }) => limits.fileStorage.maxStorageMB,
    unit: bytesPerMB,
    textOf: (limit) => `${bytesText(limit * bytesPerMB)} of files`
  },
  connections: {
    limitOf: ({ limits }) => limits.websocket.maxConnections,
    unit: 1,
    textOf: (limit) => `${limit} websocket connections at a time`
  },
  rooms: { limitOf: ({ limits }) => limits.websocket.maxRooms, unit: 1, textOf: (limit) => `${limit} rooms at a time` },
  entities_watched: {
    limitOf: ({ limits }) => limits.websocket.maxEntitiesWatched,
    unit: 1,
    textOf: (limit) => `${limit} watched entities at a time`
  }
}

/** What the plan allows, in what the ledger counts; null for as much as one likes. */
export function allowed (metric: Reserved | Gauge, plan: Plan): number | null {
  const { limitOf, unit } = limits[metric]
  const limit = limitOf(plan)
  return limit === unlimited ? null : Math.min(Math.floor(limit * unit), maxAmount)
}

/** 402: the plan has no room for so many in all. */
export function refusal (plans: Plans, metric: Reserved | Gauge, plan: Plan, needed: number): TenantryError {
  const { limitOf, unit, textOf } = limits[metric]
  return planLimit(`The plan "${plan.tier}" includes ${textOf(limitOf(plan))}`, plans.upgrade(plan.tier, limitOf, needed / unit))
}

/** Throws a TypeError unless it is an amount that can be counted: whole, from `least` to 2^53 - 1. */
export function refuseAmount (amount: number, least: 0 | 1): void {
  if (Number.isSafeInteger(amount) && amount >= least) return
  throw new TypeError(`an amount must be an integer from ${least} to ${maxAmount}: got ${String(amount)}`)
}
