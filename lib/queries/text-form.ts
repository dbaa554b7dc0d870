/**
 * The text form of other types. Texts that PostgreSQL accepts always pass. Most others are rejected here, so that the response
 * can name the field, which the database's error does not.
 */

/** The expected form of a type's texts. */
export interface TextForm {
  readonly fits: (text: string) => boolean
  /** For messages. */
  readonly description: string
}

const day: TextForm = { fits: isMoment, description: 'a date, such as 2026-01-31' }
const moment: TextForm = { fits: isMoment, description: 'a date and time, such as 2026-01-31T12:00:00Z' }

const forms: Readonly<Record<string, TextForm>> = {
  uuid: { fits: isUuid, description: 'a UUID' },
  date: day,
  'timestamp with time zone': moment,
  'timestamp without time zone': moment
}

/** The form of a type's texts; undefined if any text is allowed. */
export function formOf (type: string): TextForm | undefined {
  return Object.hasOwn(forms, type) ? forms[type] : undefined
}

/** PostgreSQL accepts hyphens between any groups of four digits, no hyphens, and braces around the whole. */
const uuid = /^(?:\{(?:[\da-f]{4}-?){7}[\da-f]{4}\}|(?:[\da-f]{4}-?){7}[\da-f]{4})$/i

function isUuid (text: string): boolean {
  return uuid.test(text)
}

/** PostgreSQL's special date and time values. */
const words = /^\s*(?:[+-]?infinity|epoch|now|today|tomorrow|yesterday)\b/i
const calendar = /^\s*(\d{4})-(\d\d?)-(\d\d?)(?:[t\s]+(\d\d?):(\d\d)(?::(\d\d))?)?/i

/** Whether the calendar date exists. PostgreSQL accepts other notations too; all of them have digits. */
function isMoment (text: string): boolean {
  const match = calendar.exec(text)
  if (match === null) return /\d/.test(text) || words.test(text)
  const [year, month, date, hour = 0, minute = 0, second = 0] = match.slice(1).map((part) => part === undefined ? undefined : Number(part))
  // 24:00 is the end of the day, and second 60 a leap second.
  return hour <= 24 && minute <= 59 && second <= 60 && month! >= 1 && month! <= 12 && date! >= 1 &&
    date! <= daysOf(year!, month!, /bc/i.test(text))
}

function daysOf (year: number, month: number, beforeChrist: boolean): number {
  if (month === 2) return isLeap(beforeChrist ? year - 1 : year) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

function isLeap (year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}
