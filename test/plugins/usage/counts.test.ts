import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createPlans } from '../../../lib/plans/plans.js'
import { add, createCounts, noFigures } from '../../../plugins/usage/counts.js'
import { allowed, bytesText, checkAmount } from '../../../plugins/usage/metrics.js'
import { dayOf, daysOf, monthOf } from '../../../plugins/usage/periods.js'
import { fakeClock } from '../../helpers/clock.js'
import { smallPlans } from './app.js'

test('days and months are in UTC, leap years included', async (t) => {
  t.equal(dayOf(Date.parse('2026-02-28T23:59:59.999Z')), '2026-02-28')
  t.equal(dayOf(Date.parse('2026-03-01T00:00:00+02:00')), '2026-02-28')
  t.equal(monthOf('2026-12-31'), '2026-12')
  const lengths = (...months: string[]) => months.map((month) => daysOf(month, '9999-12-31').length)
  t.same(lengths('2024-02', '2026-02', '2000-02', '1900-02', '0004-02', '0099-02'), [29, 28, 29, 28, 29, 28])
  t.same(lengths(...Array.from({ length: 12 }, (_none, index) => `2026-${String(index + 1).padStart(2, '0')}`)), [
    31,
    28,
    31,
    30,
    31,
    30,
    31,
    31,
    30,
    31,
    30,
    31
  ])
  t.same(daysOf('2026-06', '2026-06-03'), ['2026-06-01', '2026-06-02', '2026-06-03'])
  t.same(daysOf('2026-07', '2026-06-30'), [], 'a future month')
  t.equal(daysOf('2026-05', '2026-06-03').at(-1), '2026-05-31')
})

test('sizes are formatted for people', async (t) => {
  const sizes: [number, string][] = [
    [0, '0 B'],
    [1, '1 B'],
    [1023, '1023 B'],
    [1024, '1 KB'],
    [1_572_864, '1.5 MB'],
    [200 * 1_048_576, '200 MB'],
    [5120 * 1_048_576, '5 GB'],
    [1_048_575, '1 MB'],
    [1_048_000, '1023.44 KB'],
    [Number.MAX_SAFE_INTEGER, '8 PB']
  ]
  for (const [bytes, text] of sizes) t.equal(bytesText(bytes), text)
})

test("figures belong to the clock's day, forwards and backwards", async (t) => {
  const clock = fakeClock(Date.parse('2028-02-29T23:59:59.999Z'))
  const counts = createCounts(clock.now)
  const call = () => {
    counts.of(tenantRef('acme'), 1)!.calls++
  }
  call()
  clock.forward(1)
  call()
  call()
  clock.forward(-1)
  call()
  t.equal(counts.size, 2)
  const acme = { tenants: ['acme'], since: [1], calls: [2], bandwidth: [0], freed: [] }
  t.same(counts.take(10), { figures: { day: '2028-02-29', ...acme }, more: true })
  t.same(counts.take(10), { figures: { day: '2028-03-01', ...acme }, more: false })
  t.equal(counts.size, 0)
  t.same(counts.take(10), { figures: noFigures, more: false })
  call()
  t.equal(counts.take(10).figures.day, '2028-02-29')
})

test('figures belong to the tenant of their time, not to the next one with its id', async (t) => {
  const counts = createCounts(() => 0)
  counts.of(tenantRef('acme'), 1)!.calls = 5
  t.equal(counts.of(tenantRef('acme'), null)?.calls, 5)
  counts.of(tenantRef('acme'), 2)!.calls++
  t.equal(counts.of(tenantRef('acme'), 1), undefined, 'a late request of the previous one')
  t.match(counts.take(10).figures, { since: [2], calls: [1] })
  counts.of(tenantRef('acme'), null)!.calls = 1
  counts.of(tenantRef('acme'), 3)!.calls++
  t.match(counts.take(10).figures, { since: [3], calls: [2] })
})

test('freed storage is counted separately, without a day', async (t) => {
  const counts = createCounts(() => 0)
  counts.of(tenantRef('acme'), 1)!.freed = 5
  Object.assign(counts.of(tenantRef('globex'), null)!, { bandwidth: 7, freed: 6 })
  t.same(counts.take(10), {
    figures: {
      day: '1970-01-01',
      tenants: ['globex'],
      since: [null],
      calls: [0],
      bandwidth: [7],
      freed: [{ tenant: 'acme', since: 1, amount: 5 }, { tenant: 'globex', since: null, amount: 6 }]
    },
    more: false
  })
})

test('memory is bounded; written figures make room', async (t) => {
  const counts = createCounts(() => 0, 1000)
  for (let index = 0; index < 3000; index++) {
    const entry = counts.of(tenantRef(`t${index}`), 1)
    if (entry !== undefined) entry.calls++
  }
  t.equal(counts.size, 1000)
  t.equal(counts.dropped(), 2000)
  t.equal(counts.dropped(), 0)
  t.ok(counts.of(tenantRef('t5'), 1), 'an existing tenant is still counted')
  const first = counts.take(400)
  t.equal(first.figures.tenants.length, 400)
  t.equal(first.more, true)
  t.equal(counts.size, 600)
  t.equal(counts.take(600).more, false)
  t.equal(counts.size, 0)
})

test("amounts are whole and exact; a plan's limits are converted to the ledger's units", async (t) => {
  for (const amount of [0, -1, 1.5, NaN, Infinity, 2 ** 53, -0]) t.throws(() => checkAmount(amount, 1), TypeError, String(amount))
  for (const amount of [-1, 0.1, NaN, -Infinity, 2 ** 53]) t.throws(() => checkAmount(amount, 0), TypeError, String(amount))
  checkAmount(0, 0)
  checkAmount(2 ** 53 - 1, 1)
  t.equal(add(2 ** 53 - 2, 5), 2 ** 53 - 1)
  const plans = createPlans({ ...smallPlans, odd: { limits: { ai: { maxCostPerMonth: 0.0000015 }, fileStorage: { maxStorageMB: 1e12 } } } })
  t.equal(allowed('ai_cost', plans.of('seven')), 7_000_000)
  t.equal(allowed('storage_bytes', plans.of('seven')), 7 * 1_048_576)
  t.equal(allowed('llm_tokens', plans.of('none')), 0)
  t.equal(allowed('connections', plans.of('much')), null)
  t.equal(allowed('ai_cost', plans.of('odd')), 1)
  t.equal(allowed('storage_bytes', plans.of('odd')), 2 ** 53 - 1)
})
