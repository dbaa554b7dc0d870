/** The time that a summary is asked for: `from` and `to` of its query. */
import { failure, type TenantryError } from '../../lib/errors.js'

const [hour, day] = [3_600_000, 86_400_000] // ms
const datePattern = /^\d{4}-\d{2}-\d{2}$/
const dateTimePattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i

export interface Range {
  readonly from: Date
  /** Exclusive. */
  readonly until: Date
}

export interface RangeQuery {
  readonly from?: string | undefined
  readonly to?: string | undefined
}

/**
 * A date is a day of UTC, as `to` the whole of it. Without `to` the time ends now, without `from` it begins 24 hours
 * before its end. Throws `validationFailed` where one is no date, they are in the wrong order, or too far from each other.
 */
export function rangeOf ({ from, to }: RangeQuery, now: number, maxDays: number): Range {
  // What is counted at this moment is in it.
  const until = to === undefined ? now + 1 : timeOf(to, '/query/to') + (datePattern.test(to) ? day : 0)
  const begin = from === undefined ? until - day : timeOf(from, '/query/from')
  if (begin > until) throw invalid('/query/from', 'must not be after `to`, which is now where it is left out', 'maximum')
  // Whoever counts back from their own now is not refused for the time that the request took.
  if (until - begin > maxDays * day + hour) throw invalid('/query/from', `must be at most ${maxDays} days before \`to\`: figures are kept for as long`, 'minimum')
  return { from: new Date(begin), until: new Date(until) }
}

function timeOf (text: string, path: string): number {
  if (datePattern.test(text) || dateTimePattern.test(text)) {
    const day = text.slice(0, 10)
    const midnight = new Date(`${day}T00:00:00Z`)
    const time = Date.parse(text)
    // JavaScript reads the 30th of February as the 2nd of March.
    if (!Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day) && !Number.isNaN(time)) return time
  }
  throw invalid(path, 'must be a date such as 2026-01-31, or a date and time with its zone such as 2026-01-31T12:00:00Z', 'format')
}

function invalid (path: string, message: string, keyword: string): TenantryError {
  return failure('validationFailed', { extras: { details: [{ path, message, keyword }] } })
}
