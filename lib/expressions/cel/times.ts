/** Timestamps and durations, and their parts in a time zone. */
import { evaluate, EvaluationError } from '@marcbachmann/cel-js'
import { Duration } from '@marcbachmann/cel-js/evaluator'
import { LRUCache } from 'lru-cache'
import { isCalendarDay } from '../../json/typed-values.js'
import { inZone, zoneFormat } from '../../time/zones.js'
import type { Budget } from './frame.js'
import { type Functions, type Implementation, NotComputable, refuse, text } from './values.js'

const earliest = -62_135_596_800_000 // year 1
const latest = 253_402_300_799_999 // year 9999
const millisecondsPerDay = 86_400_000
const longestTimestamp = 35 // characters: with nanoseconds and an offset
/** ISO 8601, also with the blank and the short zone of PostgreSQL: `2026-01-31 12:00:00+02`. */
const moment = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(?:Z|([+-]\d\d)(?::?(\d\d))?)?$/i
const shortestMonth = '28' // days
const longestZone = 64 // characters
const mostFormats = 32

/** Creating a format takes about 100 µs, using it about 12. */
const newFormatSteps = 10_000
const formatSteps = 600
/** Parsing a text, in addition to the call. */
const parseSteps = 20

type Part = (date: Date) => number

/** Parts by the names of their methods. The date's UTC fields have the time of the zone. */
const parts = {
  getDate: (date) => date.getUTCDate(),
  getDayOfMonth: (date) => date.getUTCDate() - 1,
  getDayOfWeek: (date) => date.getUTCDay(),
  getDayOfYear: (date) => Math.floor((date.getTime() - startOfYear(date)) / millisecondsPerDay),
  getFullYear: (date) => date.getUTCFullYear(),
  getHours: (date) => date.getUTCHours(),
  getMilliseconds: (date) => date.getUTCMilliseconds(),
  getMinutes: (date) => date.getUTCMinutes(),
  getMonth: (date) => date.getUTCMonth(),
  getSeconds: (date) => date.getUTCSeconds()
} as const satisfies Record<string, Part>

/** Methods of durations, which share some names with those of timestamps. */
const durationParts = ['getHours', 'getMinutes', 'getSeconds', 'getMilliseconds'] as const

export const timeFunctions: Functions = {
  'timestamp/1': (budget, value) => {
    budget.spend(parseSteps)
    return toTimestamp(value)
  }
}

export const timeMethods: Functions = Object.fromEntries(
  Object.entries(parts).flatMap(([name, part]): [string, Implementation][] => {
    const ofDuration = durationParts.find((known) => known === name)
    return [
      [
        `${name}/1`,
        (_budget, value) => value instanceof Duration && ofDuration !== undefined ? value[ofDuration]() : whole(part(date(value)))
      ],
      [`${name}/2`, (budget, value, zone) => whole(part(timeIn(date(value), text(zone), budget)))]
    ]
  })
)

/** The value of `duration()`. The library's parser takes cubic time: the text must be short and constant. */
export function durationOf (written: unknown): unknown {
  try {
    return evaluate('duration(written)', { written })
  } catch (error) {
    if (error instanceof EvaluationError) throw new NotComputable('a duration must be written like "90s" or "1h30m"')
    throw error
  }
}

function toTimestamp (value: unknown): Date {
  const time = typeof value === 'bigint' ? Number(value) * 1000 : timeOf(text(value))
  if (!(time >= earliest && time <= latest)) throw new NotComputable('the value cannot be converted to a timestamp')
  return new Date(time)
}

/** NaN for other texts. A text without a zone, such as that of a column `timestamp`, is in UTC. */
function timeOf (written: string): number {
  const match = written.length <= longestTimestamp ? moment.exec(written) : null
  if (match === null) return NaN
  const [, day = '', time = '', hours, minutes = '00'] = match
  // `Date.parse` reads other formats in the server's time zone, and the 30th of February as a day in March.
  if (day.slice(8) > shortestMonth && !isCalendarDay(day)) return NaN
  return Date.parse(`${day}T${time}${hours === undefined ? 'Z' : `${hours}:${minutes}`}`)
}

function date (value: unknown): Date {
  return value instanceof Date ? value : refuse(value, 'timestamp')
}

function whole (value: number): bigint {
  if (Number.isNaN(value)) throw new NotComputable('the timestamp is out of range')
  return BigInt(value)
}

function startOfYear (date: Date): number {
  const start = new Date(0)
  start.setUTCFullYear(date.getUTCFullYear(), 0, 1)
  return start.getTime()
}

const formats = new LRUCache<string, Intl.DateTimeFormat>({ max: mostFormats })

function formatOf (zone: string, budget: Budget): Intl.DateTimeFormat {
  const known = formats.get(zone)
  if (known !== undefined) return known
  budget.spend(newFormatSteps)
  if (zone.length > longestZone) throw new NotComputable('the time zone is unknown')
  let made
  try {
    made = zoneFormat(zone)
  } catch {
    throw new NotComputable('the time zone is unknown')
  }
  formats.set(zone, made)
  return made
}

function timeIn (date: Date, zone: string, budget: Budget): Date {
  budget.spend(formatSteps)
  budget.allocate(2048)
  const format = formatOf(zone, budget)
  if (Number.isNaN(date.getTime())) throw new NotComputable('the timestamp is out of range')
  return inZone(date, format)
}
