/** Times of a schedule: a cron pattern of five fields in a time zone. */
import { Cron } from 'croner'
import { dayMs, hourMs } from './spans.js'
import { inZone, zoneFormat } from './zones.js'

/** The least number of minutes between two runs of a tenant's schedule. */
export const leastTenantMinutes = 5

export interface Schedule {
  /** Equal for equal times: a document that changes it restarts the schedule. */
  readonly text: string
  /** The first time after this one; null without one. */
  next(after: Date): Date | null
}

/** An invalid pattern or time zone. */
export interface ScheduleFault {
  readonly at: 'cron' | 'timezone'
  readonly reason: string
}

const minuteMs = 60_000
const quarterMs = 15 * minuteMs
const anyOf = (value: string) => {
  const part = `(?:\\*|${value}(?:-${value})?)(?:/\\d{1,2})?`
  return `(${part}(?:,${part}){0,59})`
}
const numbers = anyOf('\\d{1,2}')
const months = anyOf('(?:\\d{1,2}|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)')
const weekdays = anyOf('(?:\\d{1,2}|mon|tue|wed|thu|fri|sat|sun)')
/** Without croner's seconds, nicknames and extensions, which other programs do not support. croner accepts `15*` too, as 15. */
const pattern = new RegExp(`^${numbers} +${numbers} +${numbers} +${months} +${weekdays}$`, 'i')

/** Parses a schedule. The default time zone is UTC. */
export function parseSchedule (
  { cron, timezone = 'UTC' }: { readonly cron: string, readonly timezone?: string | undefined }
): Schedule | ScheduleFault {
  const zone = clockOf(timezone)
  if (zone === null) {
    return { at: 'timezone', reason: `there is no time zone "${timezone}": expected a name such as "Europe/Berlin"` }
  }
  const fields = pattern.exec(cron.trim())
  if (fields === null) {
    return { at: 'cron', reason: 'expected five fields, minute, hour, day of the month, month and day of the week, such as "30 6 * * 1-5"' }
  }
  let times: Cron
  try {
    // Of local times, as if they were UTC: croner omits some of them, or returns past ones, when the clocks of a zone change.
    times = new Cron(cron.trim(), { timezone: 'UTC', paused: true })
  } catch (error) {
    return { at: 'cron', reason: error instanceof Error ? error.message.replace(/^CronPattern: /, '') : 'no pattern' }
  }
  const schedule: Schedule = {
    text: `${cron.trim().replaceAll(/ +/g, ' ')} ${timezone}`,
    next: fields.slice(2).every((field) => field === '*') ? everyHour(cron, zone) : inTurn(times, zone)
  }
  return schedule.next(new Date()) === null ? { at: 'cron', reason: 'the date never occurs: the workflow would never run' } : schedule
}

/** The least number of minutes between two times of a parsed pattern. */
export function leastMinutes (cron: string): number {
  const minutes = minutesIn(cron)
  return Math.min(60, ...minutes.map((minute, index) => (minutes[index + 1] ?? minutes[0]! + 60) - minute))
}

/** The minutes of an hour that a pattern names. */
function minutesIn (cron: string): number[] {
  const [field = '*'] = cron.trim().split(/ +/)
  return [...new Set(field.split(',').flatMap(minutesOf))].sort((left, right) => left - right)
}

function minutesOf (part: string): number[] {
  const [range = '*', step = '1'] = part.split('/')
  const [first = 0, last = part.includes('/') ? 59 : first] = range === '*' ? [0, 59] : range.split('-').map(Number)
  return Array.from({ length: 60 }, (_, minute) => minute).filter((minute) =>
    minute >= first && minute <= last && (minute - first) % Number(step) === 0
  )
}

/** The milliseconds by which a zone is ahead of UTC at a time in milliseconds. */
type Clock = (time: number) => number

/** null without such a time zone. */
function clockOf (timezone: string): Clock | null {
  try {
    const format = zoneFormat(timezone)
    return (time) => inZone(new Date(time), format).getTime() - time
  } catch {
    return null
  }
}

/** A clock that remembers its answers: the format of a zone is slow, and clocks change at quarters of an hour only. */
function remembered (zone: Clock): Clock {
  const known = new Map<number, number>()
  return (time) => {
    const quarter = Math.floor(time / quarterMs)
    const ahead = known.get(quarter) ?? zone(time)
    known.set(quarter, ahead)
    return ahead
  }
}

/** Each local time runs once: a repeated one the first time, a skipped one later by the shift. */
function inTurn (times: Cron, clock: Clock): Schedule['next'] {
  return (after) => {
    const zone = remembered(clock)
    const from = after.getTime()
    let least = Infinity
    // Skipped times of the last day may be due after `from`.
    let local = times.nextRun(new Date(from + Math.min(zone(from - dayMs), zone(from))))
    for (; local !== null; local = times.nextRun(local)) {
      const time = timeOf(local.getTime(), zone)
      if (time <= from) continue
      least = Math.min(least, time)
      // A skipped time may run after later local times.
      const isSkipped = time + zone(time) !== local.getTime()
      if (!isSkipped) break
    }
    return least === Infinity ? null : new Date(least)
  }
}

/** The time of a local time: by the clock before a change if that is ambiguous. */
function timeOf (local: number, zone: Clock): number {
  const before = zone(local - dayMs)
  const after = zone(local + dayMs)
  const isBefore = zone(local - before) === before || zone(local - after) !== after
  return local - (isBefore ? before : after)
}

/** A pattern that names only minutes runs in every hour, including the repeated one when clocks go back. */
function everyHour (cron: string, zone: Clock): Schedule['next'] {
  const minutes = new Set(minutesIn(cron))
  return (after) => {
    const first = (Math.floor(after.getTime() / minuteMs) + 1) * minuteMs
    const offset = zone(after.getTime())
    const isDue = (time: number, ahead: number): boolean => minutes.has((Math.floor((time + ahead) / minuteMs) % 60 + 60) % 60)
    let time = first
    while (!isDue(time, offset)) time += minuteMs
    if ((zone(time) - offset) % hourMs === 0) return new Date(time)
    // The clock changes by a part of an hour.
    time = first
    while (!isDue(time, zone(time))) time += minuteMs
    return new Date(time)
  }
}
