/** The periods of limits, in UTC. */
import { dayMs, hourMs } from '../../lib/time/spans.js'

/** `week` begins on Monday (ISO 8601); `total` never ends. */
export const periods = ['minute', 'hour', 'day', 'week', 'month', 'total'] as const
export type Period = typeof periods[number]

const lengths = { minute: 60_000, hour: hourMs, day: dayMs, week: 7 * dayMs } // ms
const firstMonday = 4 * dayMs // after 1 January 1970, a Thursday

/** The beginning of the period that contains the time, both in milliseconds since 1970. */
export function startOf (period: Period, at: number): number {
  if (period === 'total') return 0
  if (period === 'month') return monthAt(at, 0)
  const length = lengths[period]
  const first = period === 'week' ? firstMonday : 0
  return Math.floor((at - first) / length) * length + first
}

/** The end of the period that began then: Infinity for `total`. */
export function endOf (period: Period, start: number): number {
  if (period === 'total') return Infinity
  return period === 'month' ? monthAt(start, 1) : start + lengths[period]
}

/** The first moment of the month that contains the time, or of the `later`th month after it. */
function monthAt (at: number, later: number): number {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1)
}
