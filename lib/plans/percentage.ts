/** The used share of a limit, in percent. */
import { Type } from 'typebox'
import { unlimited } from './plans.js'

export const Percentage = Type.Number({
  description:
    'The used percentage of the limit, with two decimals. 0 if the limit is unlimited; 100 if the limit is 0 and something is used.'
})

/** The figure that `Percentage` describes. */
export function percentageOf (current: number, limit: number): number {
  if (limit === unlimited || current === 0) return 0
  return limit === 0 ? 100 : Math.round(current / limit * 10_000) / 100
}
