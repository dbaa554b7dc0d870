import { test } from 'tap'
import { endOf, type Period, periods, startOf } from '../../../plugins/resource-limits/periods.js'

const text = (time: number) => time === Infinity ? 'never' : new Date(time).toISOString()
const spanOf = (period: Period, at: string) => {
  const start = startOf(period, Date.parse(at))
  return `${text(start)} ${text(endOf(period, start))}`
}

test('periods are in UTC', async (t) => {
  for (
    const [period, at, expected] of [
      ['minute', '2026-06-03T12:34:56.789Z', '2026-06-03T12:34:00.000Z 2026-06-03T12:35:00.000Z'],
      ['minute', '2026-06-03T12:34:00.000Z', '2026-06-03T12:34:00.000Z 2026-06-03T12:35:00.000Z'],
      ['hour', '2026-06-03T12:59:59.999Z', '2026-06-03T12:00:00.000Z 2026-06-03T13:00:00.000Z'],
      ['day', '2026-06-03T23:59:59.999Z', '2026-06-03T00:00:00.000Z 2026-06-04T00:00:00.000Z'],
      ['total', '2026-06-03T12:34:56.789Z', '1970-01-01T00:00:00.000Z never']
    ] as const
  ) t.equal(spanOf(period, at), expected, `${period} at ${at}`)
})

test('weeks begin on Monday, across months and years', async (t) => {
  for (
    const [at, monday] of [
      ['2026-06-07T23:59:59.999Z', '2026-06-01'],
      ['2026-06-08T00:00:00.000Z', '2026-06-08'], // a Sunday, a Monday
      ['2027-01-01T12:00:00.000Z', '2026-12-28'], // a Friday in the 53rd week of 2026
      ['2024-02-29T12:00:00.000Z', '2024-02-26'],
      ['1970-01-01T00:00:00.000Z', '1969-12-29'],
      ['1970-01-05T00:00:00.000Z', '1970-01-05']
    ] as const
  ) {
    const start = startOf('week', Date.parse(at))
    t.equal(text(start), `${monday}T00:00:00.000Z`, at)
    t.equal(new Date(start).getUTCDay(), 1)
  }
})

test('months end on their own last day, also in leap years', async (t) => {
  for (
    const [at, start, end] of [
      ['2026-01-31T23:59:59.999Z', '2026-01-01', '2026-02-01'],
      ['2026-02-28T23:59:59.999Z', '2026-02-01', '2026-03-01'],
      ['2024-02-29T23:59:59.999Z', '2024-02-01', '2024-03-01'],
      ['2100-02-28T12:00:00.000Z', '2100-02-01', '2100-03-01'],
      ['2026-12-31T23:59:59.999Z', '2026-12-01', '2027-01-01']
    ] as const
  ) t.equal(spanOf('month', at), `${start}T00:00:00.000Z ${end}T00:00:00.000Z`, at)
})

test('every moment is in one period, and a period starts where the previous one ends', async (t) => {
  let wrong = 0
  for (let day = 0; day < 1500; day++) {
    const at = Date.parse('2023-01-01T00:00:00Z') + day * 86_400_000 + (day * 7_919_313) % 86_400_000
    for (const period of periods) {
      const start = startOf(period, at)
      const end = endOf(period, start)
      if (start > at || end <= at || startOf(period, start) !== start) wrong++
      if (end !== Infinity && (startOf(period, end) !== end || startOf(period, end - 1) !== start)) wrong++
    }
  }
  t.equal(wrong, 0)
})
