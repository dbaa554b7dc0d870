import t from 'tap'
import { fakeClock } from '../../helpers/clock.js'
import { postgresSection } from '../../helpers/postgres.js'
import { countsOf, day, hour, open, summaryOf } from './app.js'

t.test('figures of requests', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock(Date.parse('2026-06-01T12:30:00Z'))
  const { app, admin, as, stranger } = await open(t, engine, {
    now: clock.now,
    tenants: ['acme', 'globex'],
    excludePaths: ['/analytics/*', '/internal/probe']
  })

  await t.test('figures are counted by route, errors from 500 on, for all callers', async (t) => {
    t.strictSame(await summaryOf(admin), { total: 0, errors: 0, errorRate: 0, routes: [] })
    for (const id of ['1', '2', '3']) await as('acme')(`GET /things/${id}`)
    await app.inject('/things/4?status=503')
    await app.inject('/things/5?status=422')
    await stranger('GET /nowhere/secret-4711?token=abc')
    await stranger('HEAD /things/5')
    const summary = await summaryOf(admin)
    t.match(summary, { total: 7, errors: 1, errorRate: 1 / 7 })
    t.strictSame(countsOf(summary), ['GET /things/:id 5', 'GET (unknown) 1', 'HEAD /things/:id 1'])
    t.strictSame(summary.routes.map(({ errorRate }) => errorRate), [0.2, 0, 0])
    for (const { p50, p95, p99 } of summary.routes) t.ok(p50 > 0 && p50 <= p95 && p95 <= p99)
    t.notMatch(
      JSON.stringify(await app.db.selectFrom('tenantry.request_stats').selectAll().execute()),
      /secret-4711|abc|ada|127\.0\.0\.1/,
      'only the route of a request is kept'
    )
  })

  await t.test('the figures of the tenant in the header cover only that tenant', async (t) => {
    await as('globex')('GET /things/1')
    t.strictSame(countsOf(await summaryOf(admin, '', 'acme')), ['GET /things/:id 3'])
    t.strictSame(countsOf(await summaryOf(admin, '', 'globex')), ['GET /things/:id 1'])
    t.equal((await admin('GET /analytics/summary', { tenant: 'nobody' })).status, 404)
  })

  await t.test('excluded routes are not counted', async (t) => {
    const { total } = await summaryOf(admin)
    await stranger('GET /internal/probe')
    await summaryOf(admin)
    t.equal((await summaryOf(admin)).total, total)
  })

  await t.test('the figures cover the hours that the period touches', async (t) => {
    const before = (await summaryOf(admin)).total
    clock.set('2026-06-03T10:59:59.999Z')
    await stranger('GET /things/1')
    clock.set('2026-06-03T11:00:00.000Z')
    await stranger('GET /things/1')
    await stranger('GET /things/1')
    const total = async (query: string) => (await summaryOf(admin, query)).total
    t.equal(await total(''), 3, 'the default is the last 24 hours')
    t.equal(await total('?from=2026-06-01'), before + 3)
    t.equal(await total('?from=2026-06-01&to=2026-06-01'), before, 'a whole day')
    t.equal(await total('?from=2026-06-03T10:30:00Z&to=2026-06-03T11:00:00Z'), 1)
    t.equal(await total('?from=2026-06-03T11:10:00Z&to=2026-06-03T11:20:00Z'), 2)
    t.equal(await total('?from=2026-06-03T13:10:00%2B02:00&to=2026-06-03T13:20:00%2B02:00'), 2)
    t.equal(await total('?from=2026-06-04&to=2026-06-05'), 0)
    clock.forward(-2 * hour)
    await stranger('GET /things/1')
    t.equal(
      await total('?from=2026-06-03T09:00:00Z&to=2026-06-03T10:00:00Z'),
      1,
      'a clock that is set back counts in the hour that it shows'
    )
    clock.forward(2 * hour)
  })

  await t.test('a wrong time is a 400 with the correct form', async (t) => {
    const fault = async (query: string) => {
      const { status, body: { details = [] } } = await admin(`GET /analytics/summary?${query}`)
      return `${status} ${details.map(({ path, message }) => `${path} ${message}`).join()}`
    }
    const format = 'must be a date such as 2026-01-31, or a date and time with its zone such as 2026-01-31T12:00:00Z'
    for (
      const wrong of [
        '',
        'yesterday',
        '2026-13-01',
        '2026-02-30',
        '2025-02-29',
        '2026-6-1',
        '2026-06-01T25:00:00Z',
        '2026-06-01T10:00:00',
        '1780000000',
        '2026-06-01T10:00:00Z%00',
        '2026-06-01T23:59:60Z'
      ]
    ) {
      t.equal(await fault(`from=${wrong}`), `400 /query/from ${format}`, wrong)
      t.equal(await fault(`to=${wrong}`), `400 /query/to ${format}`, wrong)
    }
    t.equal(
      await fault('from=2026-06-02&to=2026-06-01T23:00:00Z'),
      '400 /query/from must not be after `to`, which is the current time by default'
    )
    t.equal(await fault('from=2026-07-01'), '400 /query/from must not be after `to`, which is the current time by default')
    t.equal(
      await fault('from=2026-05-01&to=2026-06-01'),
      '400 /query/from must be at most 30 days before `to`, as long as counts are kept'
    )
    t.match(await fault('form=2026-05-01'), /^400 .*did you mean "from"/)
    t.match(await fault('from=2026-06-01&from=2026-06-02'), /^400 /)
    t.match(await fault(`from=${'2'.repeat(65)}`), /^400 .*at most 64 characters/)
    for (
      const right of [
        'from=2026-05-03&to=2026-06-01',
        'from=2024-02-29&to=2024-02-29',
        'from=0000-01-01&to=0000-01-02',
        'to=9999-12-31',
        'to=2026-06-01',
        'from=2026-06-03T11:00Z',
        'from=2026-06-01t10:00:00.123z&to=2026-06-01T10:00:00.123Z'
      ]
    ) t.equal(await fault(right), '200 ', right)
  })

  await t.test("only the platform's administrator may read the figures", async (t) => {
    t.equal((await stranger('GET /analytics/summary?from=x')).status, 401)
    t.equal((await as('acme')('GET /analytics/summary?from=x')).status, 403)
  })

  await t.test("a deleted tenant's figures are deleted, and late ones are not written", async (t) => {
    await as('globex')('GET /things/1')
    await app.tenants.delete('globex')
    await app.analytics.flush()
    const rows = await app.db.selectFrom('tenantry.request_stats').select('tenant_id').where('tenant_id', '=', 'globex').execute()
    t.strictSame(rows, [])
    t.match(countsOf(await summaryOf(admin)), ['GET /things/:id 5'], "the platform's figures keep these requests")
  })

  await t.test('figures are removed after the retention period', async (t) => {
    const total = async () => (await summaryOf(admin, '?from=2026-06-03&to=2026-06-03')).total
    t.equal(await total(), 5)
    await app.db.updateTable('tenantry.request_stats').set({ hour: new Date(clock.now() - 31 * day) })
      .where('hour', '=', new Date('2026-06-03T09:00:00Z')).execute()
    t.equal(await total(), 4)
  })
})
