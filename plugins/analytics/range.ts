/** The time that a summary is asked for: `from` and `to` of its query. */
import { invalidInput } from '../../lib/validation/detail.js'
import { endOf, timeOf } from '../../lib/http/time-range.js'

const [hour, day] = [3_600_000, 86_400_000] // ms

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
  const until = to === undefined ? now + 1 : endOf(to, '/query/to')
  const begin = from === undefined ? until - day : timeOf(from, '/query/from')
  if (begin > until) throw invalidInput('/query/from', 'must not be after `to`, which is now where it is left out', 'maximum')
  // A caller who counts back from its own clock is not refused for the duration of the request.
  if (until - begin > maxDays * day + hour) {
    throw invalidInput('/query/from', `must be at most ${maxDays} days before \`to\`: figures are kept for as long`, 'minimum')
  }
  return { from: new Date(begin), until: new Date(until) }
}
