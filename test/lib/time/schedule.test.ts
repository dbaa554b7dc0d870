import { test } from 'tap'
import { leastMinutes, parseSchedule } from '../../../lib/time/schedule.js'

/** The times after a moment, without seconds. */
function timesOf (cron: string, timezone: string, from: string, count: number): string[] {
  const read = parseSchedule({ cron, timezone })
  if ('reason' in read) throw new Error(read.reason)
  const times: string[] = []
  let date: Date | null = new Date(from)
  while (times.length < count) {
    date = read.next(date)
    if (date === null) break
    times.push(date.toISOString().slice(0, 16))
  }
  return times
}

test('a skipped local time runs after the clock change, and a repeated one runs once', (t) => {
  t.strictSame(timesOf('30 2 * * *', 'Europe/Berlin', '2026-03-27T12:00Z', 3), ['2026-03-28T01:30', '2026-03-29T01:30', '2026-03-30T00:30'])
  t.strictSame(timesOf('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 3), ['2026-10-25T00:30', '2026-10-26T01:30', '2026-10-27T01:30'])
  t.strictSame(timesOf('30 2 * * *', 'America/New_York', '2026-03-07T12:00Z', 2), ['2026-03-08T07:30', '2026-03-09T06:30'])
  t.strictSame(timesOf('30 1 * * *', 'America/New_York', '2026-10-31T12:00Z', 2), ['2026-11-01T05:30', '2026-11-02T06:30'])
  t.strictSame(timesOf('0 9 * * 1-5', 'Europe/Berlin', '2026-03-26T12:00Z', 3), [
    '2026-03-27T08:00',
    '2026-03-30T07:00',
    '2026-03-31T07:00'
  ], 'after the change, in the new time')
  t.end()
})

test('within and after a repeated hour, the next time is later than the moment', (t) => {
  for (
    const [cron, timezone, from, next] of [
      ['30 2 * * *', 'Europe/Berlin', '2026-10-25T01:00:05Z', '2026-10-26T01:30'],
      ['59 2 * * *', 'Europe/Berlin', '2026-10-25T01:00Z', '2026-10-26T01:59'],
      ['*/20 2 * * *', 'Europe/Berlin', '2026-10-25T00:40Z', '2026-10-26T01:00'],
      ['5 * * * 0', 'Europe/Berlin', '2026-10-25T01:01Z', '2026-10-25T02:05'],
      ['30 1 * * *', 'America/New_York', '2026-11-01T06:01Z', '2026-11-02T06:30'],
      ['30 23 * * *', 'Africa/Cairo', '2026-10-29T21:00:05Z', '2026-10-30T21:30'],
      ['30 0 * * *', 'America/Havana', '2026-11-01T05:01Z', '2026-11-02T05:30'],
      ['45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T15:01Z', '2026-04-05T15:15'],
      ['5 1 * * *', 'Antarctica/Troll', '2026-10-25T01:01Z', '2026-10-26T01:05']
    ] as const
  ) t.strictSame(timesOf(cron, timezone, from, 1), [next], `${cron} in ${timezone}`)
  t.end()
})

test('a repeated local time runs the first time, also if the clock goes back by half an hour or by two', (t) => {
  t.strictSame(timesOf('45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T10:00Z', 2), ['2026-04-04T14:45', '2026-04-05T15:15'])
  t.strictSame(timesOf('5 1 * * *', 'Antarctica/Troll', '2026-10-24T12:00Z', 2), ['2026-10-24T23:05', '2026-10-26T01:05'])
  t.end()
})

test('each skipped local time runs later by the shift, between the times after the change', (t) => {
  t.strictSame(timesOf('0,30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 3), [
    '2026-03-29T01:00',
    '2026-03-29T01:30',
    '2026-03-30T00:00'
  ])
  t.strictSame(timesOf('30 2 * * *', 'Europe/Berlin', '2026-03-29T01:10Z', 1), ['2026-03-29T01:30'], 'asked for after the change')
  t.strictSame(timesOf('30 2,3 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 2), [
    '2026-03-29T01:30',
    '2026-03-30T00:30'
  ], 'one time for both')
  t.strictSame(timesOf('15,35 2 * * *', 'Australia/Lord_Howe', '2026-10-03T12:00Z', 3), [
    '2026-10-03T15:35',
    '2026-10-03T15:45',
    '2026-10-04T15:15'
  ], 'a later time before the moved one')
  t.end()
})

test('a pattern of minutes alone is not interrupted by clock changes', (t) => {
  t.strictSame(timesOf('*/30 * * * *', 'Europe/Berlin', '2026-10-24T23:20Z', 7), [
    '2026-10-24T23:30',
    '2026-10-25T00:00',
    '2026-10-25T00:30',
    '2026-10-25T01:00',
    '2026-10-25T01:30',
    '2026-10-25T02:00',
    '2026-10-25T02:30'
  ])
  t.strictSame(timesOf('15 * * * *', 'Europe/Berlin', '2026-03-29T00:00Z', 3), ['2026-03-29T00:15', '2026-03-29T01:15', '2026-03-29T02:15'])
  t.strictSame(timesOf('7,43 * * * *', 'Australia/Lord_Howe', '2026-04-04T13:40Z', 5), [
    '2026-04-04T13:43',
    '2026-04-04T14:07',
    '2026-04-04T14:43',
    '2026-04-04T15:13',
    '2026-04-04T15:37'
  ], 'a change by half an hour')
  t.end()
})

test('a field with characters after its number is rejected, since the search for its next time would not end', (t) => {
  for (const field of ['15*', '5**', '0*-59', '15*60', '5,', ',5', '1-', '*/', '1/2/3', '1-2-3']) {
    for (const cron of [`${field} * * * *`, `0 ${field} * * *`, `0 0 * * ${field}`]) {
      const read = parseSchedule({ cron })
      t.match('reason' in read ? read.reason : 'parsed', /^expected five fields/, cron)
    }
  }
  for (const cron of ['*/15 6-18 1,15 jan-mar mon-fri', '5-50/5,59 0 * 12 SUN,7']) t.notOk('reason' in parseSchedule({ cron }), cron)
  t.end()
})

test('invalid patterns, unknown time zones and patterns that never match are rejected', (t) => {
  for (
    const cron of [
      '* * * * * *',
      '* * * *',
      '@daily',
      '* * L * *',
      '0 0 * * 5#2',
      '0 0 1W * *',
      '? * * * *',
      '2026-01-01T00:00:00',
      '61 * * * *',
      '0 24 * * *',
      '0 0 30 2 *',
      '0 0 31 4,6 *',
      'x * * * *',
      '*/0 * * * *',
      '5-1 * * * *',
      '0 0 * * foo',
      `${'1,'.repeat(60)}1 * * * *`
    ]
  ) {
    t.match(parseSchedule({ cron }), { at: 'cron', reason: String }, cron)
  }
  for (const timezone of ['Mars/Olympus', '', 'x'.repeat(64)]) {
    t.match(parseSchedule({ cron: '0 0 * * *', timezone }), { at: 'timezone' }, timezone)
  }
  for (const cron of ['0 0 29 2 *', '*/15 9-17 * jan-mar mon-fri', ' 0  6 * * 7 ']) t.notOk('reason' in parseSchedule({ cron }), cron)
  t.end()
})

test('the smallest gap of a pattern includes the turn of the hour', (t) => {
  for (
    const [cron, least] of [
      ['* * * * *', 1],
      ['*/5 * * * *', 5],
      ['0,57 * * * *', 3],
      ['1-3 6 * * *', 1],
      ['*/7 * * * *', 4],
      ['3/20 * * * *', 20],
      ['10-50/10 * * * *', 10],
      ['5 6 * * *', 60]
    ] as const
  ) t.equal(leastMinutes(cron), least, cron)
  t.end()
})
