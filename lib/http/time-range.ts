/** `from` and `to` of a query string: dates, or dates and times. */
import { invalidInput } from '../validation/detail.js'
import { dayMs } from '../time/spans.js'

const lastTime = Date.parse('9999-12-31T23:59:59.999Z') // beyond it, and before the year 1, PostgreSQL cannot read JavaScript's dates
const datePattern = /^\d{4}-\d{2}-\d{2}$/
const dateTimePattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i

/** The time of a text in milliseconds, not before 1970; a date is the beginning of that UTC day. Throws `validationFailed`. */
export function timeOf (text: string, path: string): number {
  if (datePattern.test(text) || dateTimePattern.test(text)) {
    const day = text.slice(0, 10)
    const midnight = new Date(`${day}T00:00:00Z`)
    const time = Date.parse(text)
    // JavaScript reads the 30th of February as the 2nd of March.
    if (!Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day) && !Number.isNaN(time)) {
      return Math.min(Math.max(time, 0), lastTime)
    }
  }
  throw invalidInput(path, 'must be a date such as 2026-01-31, or a date and time with its zone such as 2026-01-31T12:00:00Z', 'format')
}

/** The exclusive end of a time range: a date includes the whole day. Throws `validationFailed`. */
export function endOf (text: string, path: string): number {
  return Math.min(timeOf(text, path) + (datePattern.test(text) ? dayMs : 0), lastTime)
}
