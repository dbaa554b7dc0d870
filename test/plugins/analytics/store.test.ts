import { type Kysely, sql } from 'kysely'
import t from 'tap'
import type { SystemTables } from '../../../lib/database/system-tables.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { Batch, Sum } from '../../../plugins/analytics/buffer.js'
import { bucketOf, RouteLines } from '../../../plugins/analytics/lines.js'
import { createStatsStore } from '../../../plugins/analytics/store.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { counted, created, day, hour, open } from './app.js'

const start = Date.parse('2026-06-01T12:00:00Z')
const at = new Date(start + 1000)
const scope = (tenant: string, hours = 1) => ({ tenant: tenantRef(tenant), from: new Date(start), until: new Date(start + hours * hour) })

/** Requests of a tenant, by the route `/name` and their durations. */
function sumOf (tenant: string, route: string, durations: readonly number[], { status = 200, own = false, since = created } = {}): Sum {
  const buckets = new Map<number, number>()
  for (const ms of durations) buckets.set(bucketOf(ms), (buckets.get(bucketOf(ms)) ?? 0) + 1)
  return { tenant: counted(tenant, since), line: new RouteLines(route, own).of('GET', status), buckets }
}

const batch = (number: number, ...sums: Sum[]): Batch => ({ number, hour: start, sums })

async function rowsOf (db: Kysely<SystemTables>, tenant: string, hourOf = start): Promise<number> {
  const { rows } = await db.selectFrom('tenantry.request_stats').select(({ fn }) => fn.countAll<string>().as('rows'))
    .where('tenant_id', '=', tenant).where('hour', '=', new Date(hourOf)).executeTakeFirstOrThrow()
  return Number(rows)
}

t.test('the store of figures', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app } = await open(t, engine, { tenants: ['acme', 'globex', 'many', 'gone'] })
    const { db } = app
    await db.updateTable('tenantry.tenants').set({ created_at: created }).execute()
    const store = () => createStatsStore(db, '')
    const clear = () => db.deleteFrom('tenantry.request_stats').execute()

    await t.test("a repeated batch counts once, and another process's batch counts too", async (t) => {
      const [one, other] = [store(), store()]
      const first = batch(1, sumOf('acme', '/a', [1, 1, 5]), sumOf('', '/a', [1]))
      await Promise.all([one.write(first, at), one.write(first, at), other.write(first, at)])
      await one.write(first, at)
      t.match(await one.read(scope('acme')), { total: 6, routes: [{ route: '/a', count: 6 }] })
      t.match(
        await one.read(scope('')),
        { total: 8, routes: [{ route: '/a', count: 8 }] },
        'the platform has the requests of all tenants and of none'
      )
      await one.write(batch(2, sumOf('acme', '/a', [1], { status: 500 })), at)
      await one.write(first, at)
      t.match(await one.read(scope('acme')), {
        total: 7,
        errors: 1,
        errorRate: 1 / 7,
        routes: [{ route: '/a', count: 7, errorRate: 1 / 7 }]
      })
      await clear()
    })

    await t.test('servers that write the same lines at once lose nothing', async (t) => {
      const servers = Array.from({ length: 4 }, store)
      const names = ['/a', '/b', '/c', '/d']
      await Promise.all(servers.map(async (server, index) => {
        const sums = ['globex', 'acme', ''].flatMap((tenant) => names.map((name) => sumOf(tenant, name, [index + 1, 20])))
        for (const number of [1, 2, 3]) await server.write(batch(number, ...number % 2 === 0 ? sums : sums.toReversed()), at)
      }))
      t.equal((await store().read(scope('acme'))).total, 96)
      t.equal((await store().read(scope('globex'))).total, 96)
      t.equal((await store().read(scope(''))).total, 288)
      await clear()
    })

    await t.test('percentiles differ by at most 2.5 % from those of the durations themselves', async (t) => {
      const server = store()
      let seed = 1
      const random = () => (seed = seed * 48_271 % 2_147_483_647) / 2_147_483_647
      const durations = Array.from({ length: 5000 }, () => Math.exp(random() * 9 - 2))
      // In several batches, hours and statuses.
      for (let index = 0; index < 10; index++) {
        const part = durations.slice(index * 500, index * 500 + 500)
        await server.write({
          number: index + 1,
          hour: start + index % 3 * hour,
          sums: [sumOf('acme', '/a', part, { status: index % 2 === 0 ? 200 : 404 })]
        }, at)
      }
      const sorted = durations.toSorted((one, other) => one - other)
      const [route] = (await server.read(scope('acme', 3))).routes
      t.equal(route?.count, 5000)
      for (const [part, estimate] of [[0.5, route?.p50], [0.95, route?.p95], [0.99, route?.p99]] as const) {
        const exact = sorted[Math.ceil(part * 5000) - 1] ?? Number.NaN
        t.ok(Math.abs((estimate ?? Number.NaN) - exact) / exact <= 0.0251, `${part}: ${estimate} for ${exact}`)
      }
      t.equal((await server.read(scope('acme', 1))).total, 2000)
      const one = await server.read({ tenant: tenantRef('acme'), from: new Date(start - day), until: new Date(start) })
      t.strictSame(one, { total: 0, errors: 0, errorRate: 0, routes: [] })
      await clear()
    })

    await t.test('a tenant has rows for 200 lines an hour; the others share one name, and none is lost', async (t) => {
      const server = store()
      const sums = (from: number, count: number) =>
        Array.from({ length: count }, (_, index) => sumOf('many', `/route-${from + index}`, [1, 2], { own: true }))
      await server.write(batch(1, ...sums(0, 150)), at)
      await server.write(batch(2, ...sums(100, 500)), at)
      await store().write(batch(1, ...sums(5000, 500)), at)
      t.equal(await rowsOf(db, 'many'), 201)
      const { total, routes } = await server.read(scope('many'))
      t.equal(total, 2300)
      t.match(routes[0], { method: 'GET', route: '(other)', count: 1800 })
      t.equal(routes.find(({ route }) => route === '/route-120')?.count, 4, 'an existing line is still counted')
      await server.write({ number: 3, hour: start + hour, sums: sums(9000, 10) }, at)
      t.equal(await rowsOf(db, 'many', start + hour), 10, 'the next hour starts again')
      t.equal((await server.read(scope('globex'))).total, 0)

      await t.test("the platform's figures have room for 2000 tenant routes, and always for its own", async (t) => {
        for (let number = 4; number < 8; number++) {
          await server.write(
            batch(number, ...Array.from({ length: 1000 }, (_, index) => sumOf('', `/hostile-${number}-${index}`, [1], { own: true }))),
            at
          )
        }
        await server.write(batch(8, ...Array.from({ length: 50 }, (_, index) => sumOf('globex', `/platform-${index}`, [1]))), at)
        t.equal(await rowsOf(db, ''), 2000 + 1 + 50)
        const { total, routes } = await server.read(scope(''))
        t.equal(total, 2300 + 4000 + 50)
        t.equal(routes.length, 1000, 'a summary lists a thousand')
      })
      await clear()
    })

    await t.test("one tenant does not fill the platform's figures: its routes get as many names there as in its own", async (t) => {
      const server = store()
      const hostile = (number: number) =>
        batch(number, ...Array.from({ length: 1000 }, (_, index) => sumOf('many', `/hostile-${number}-${index}`, [1], { own: true })))
      for (let number = 1; number < 4; number++) await server.write(hostile(number), at)
      t.equal(await rowsOf(db, ''), 201)
      await server.write(
        batch(
          4,
          sumOf('globex', '/own', [1], { own: true }),
          sumOf('many', '/platform', [1]),
          sumOf('many', '/hostile-1-0', [1], { own: true })
        ),
        at
      )
      const { total, routes } = await server.read(scope(''))
      t.equal(total, 3003)
      t.equal(routes.find(({ route }) => route === '/own')?.count, 1, "another tenant's route has its name")
      t.equal(routes.find(({ route }) => route === '/platform')?.count, 1, 'and so has one of the platform, for every caller')
      t.equal(routes.find(({ route }) => route === '/hostile-1-0')?.count, 2)
      t.equal(routes.find(({ route }) => route === '(other)')?.count, 2800)
      await clear()
    })

    await t.test('unknown tenants and tenants in deletion get no rows', async (t) => {
      await db.updateTable('tenantry.tenants').set({ status: 'deleting' }).where('id', '=', 'gone').execute()
      await store().write(batch(1, sumOf('nobody', '/a', [1]), sumOf('gone', '/a', [1]), sumOf('acme', '/a', [1])), at)
      await store().write(batch(1, sumOf('gone', '/own-of-gone', [1], { own: true })), at)
      t.strictSame([await rowsOf(db, 'nobody'), await rowsOf(db, 'gone'), await rowsOf(db, 'acme'), await rowsOf(db, '')], [0, 0, 1, 2])
      t.match(await store().read(scope('')), { total: 4, routes: [{ route: '/a', count: 3 }, { route: '(other)', count: 1 }] })
      await clear()
    })

    await t.test('a tenant gets no rows of earlier and later tenants with its id', async (t) => {
      for (const [id, micros] of [['acme', 0], ['globex', 999]] as const) {
        await sql`update tenantry.tenants set created_at = created_at + ${micros} * interval '1 microsecond' where id = ${id}`.execute(db)
        const lives = [-1, 0, 1].map((ms) => sumOf(id, `/own-${ms}`, [1], { own: true, since: new Date(created.getTime() + ms) }))
        await store().write(batch(1, ...lives), at)
        t.match(await store().read(scope(id)), { total: 1, routes: [{ route: '/own-0' }] }, `${micros} microseconds`)
      }
      t.match(await store().read(scope('')), { total: 6, routes: [{ route: '(other)', count: 4 }, { count: 2 }] })
      await clear()
    })

    await t.test('services with different names have separate figures', async (t) => {
      const [one, other] = [createStatsStore(db, 'shop'), createStatsStore(db, 'office')]
      await one.write(batch(1, sumOf('acme', '/a', [1, 1])), at)
      await other.write(batch(1, sumOf('acme', '/a', [1])), at)
      t.strictSame(await Promise.all([one, other, store()].map(async (server) => (await server.read(scope('acme'))).total)), [2, 1, 0])
      await clear()
    })

    await t.test('a sweep removes old figures, and processes that ended long ago', async (t) => {
      const server = store()
      for (let number = 0; number < 3; number++) {
        await server.write(
          { number: number + 1, hour: start - number * day, sums: [sumOf('acme', '/a', [1])] },
          new Date(start - number * day)
        )
      }
      await server.sweep(new Date(start - day), new Date(start))
      t.strictSame(await Promise.all([0, 1, 2].map((number) => rowsOf(db, 'acme', start - number * day))), [1, 1, 0])
      await store().sweep(new Date(start + day), new Date(start + 2 * day))
      t.strictSame([await rowsOf(db, 'acme'), await rowsOf(db, '')], [0, 0])
      t.strictSame(await db.selectFrom('tenantry.request_stats_writers').selectAll().execute(), [])
    })

    await t.test('a sweep removes figures of a former service name after the longest retention', async (t) => {
      const [former, present] = [createStatsStore(db, 'former'), createStatsStore(db, 'present')]
      await former.write(batch(1, sumOf('acme', '/a', [1])), at)
      for (const [days, rows] of [[1, 1], [366, 1], [367, 0]] as const) {
        await present.sweep(new Date(start + days * day), new Date(start + days * day))
        t.equal(await rowsOf(db, 'acme', start), rows, `${days} days`)
      }
      await clear()
    })

    await t.test('a pattern may contain any text', async (t) => {
      const server = store()
      const names = ['/ä/:name', '/"quoted"\\', "/it's", '/\u0000nul', '/\ud800lone', `/${'x'.repeat(3000)}`, '/{1,2}']
      await server.write(batch(1, ...names.map((name) => sumOf('acme', name, [1]))), at)
      const { routes } = await server.read(scope('acme'))
      t.strictSame(
        routes.map(({ route }) => route).sort(),
        ['/ä/:name', '/"quoted"\\', "/it's", '/\ufffdnul', '/\ufffdlone', `/${'x'.repeat(499)}`, '/{1,2}'].sort()
      )
    })
  }))
