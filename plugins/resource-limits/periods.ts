/** The periods of limits, in UTC. */
import { dayMs, hourMs } from '../../lib/time/spans.js'

/** `week` begins on Monday (ISO 8601); `total` never ends. */
export const periods = ['minute', 'hour', 'day', 'week', 'month', 'total'] as const
export type Period = typeof periods[number]

const minute = 60_000 // ms
const week = 7 * dayMs
const firstMonday = 4 * dayMs // after 1 January 1970, a Thursday

/** The beginning of the period that contains the time, both in milliseconds since 1970. */
export function startOf (period: Period, at: number): number {
  switch (period) {
    case 'minute':
      return begun(at, minute)
    case 'hour':
      return begun(at, hourMs)
    case 'day':
      return begun(at, dayMs)
    case 'week':
      return begun(at - firstMonday, week) + firstMonday
    case 'month':
      return monthAt(at, 0)
    case 'total':
      return 0
    default:
      return period satisfies never
  }
}

/** The end of the period that began then: Infinity for `total`. */
export function endOf (period: Period, start: number): number {
  switch (period) {
    case 'minute':
      return start + minute
    case 'hour':
      return start + hourMs
    case 'day':
      return start + dayMs
    case 'week':
      return start + week
    case 'month':
      return monthAt(start, 1)
    case 'total':
      return Infinity
    default:
      return period satisfies never
  }
}

function begun (at: number, length: number): number {
  return Math.floor(at / length) * length
}

/** The first moment of the month that contains the time, or of the `later`th month after it. */
function monthAt (at: number, later: number): number {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1)
}
