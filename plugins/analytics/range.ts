/** The period of a summary: `from` and `to` of its query. */
import { invalidInput } from '../../lib/validation/detail.js'
import { endOf, timeOf } from '../../lib/http/page.js'
import { dayMs, hourMs } from '../../lib/time/spans.js'

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
 * A date is a UTC day, as `to` including the whole day. Without `to` the period ends now, without `from` it begins 24 hours before its end.
 * Throws `validationFailed` for an invalid date, a wrong order, or too long a period.
 */
export function rangeOf ({ from, to }: RangeQuery, now: number, maxDays: number): Range {
  // Includes requests of this millisecond.
  const until = to === undefined ? now + 1 : endOf(to, '/query/to')
  const begin = from === undefined ? until - dayMs : timeOf(from, '/query/from')
  if (begin > until) throw invalidInput('/query/from', 'must not be after `to`, which is the current time by default', 'maximum')
  // A caller who computes the start from its own clock is not refused for the duration of the request.
  if (until - begin > maxDays * dayMs + hourMs) {
    throw invalidInput('/query/from', `must be at most ${maxDays} days before \`to\`, as long as counts are kept`, 'minimum')
  }
  return { from: new Date(begin), until: new Date(until) }
}
