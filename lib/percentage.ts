import { unlimited } from './plans.js'

/** How much of a limit is used, in per cent with two decimals: 0 of what is unlimited; of a limit of 0 anything is 100. */
export function percentageOf (current: number, limit: number): number {
  if (limit === unlimited || current === 0) return 0
  return limit === 0 ? 100 : Math.round(current / limit * 10_000) / 100
}
