import { sql } from 'kysely'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createPlans } from '../../../lib/plans/plans.js'
import { noFigures } from '../../../plugins/usage/counts.js'
import { createGauges } from '../../../plugins/usage/gauges.js'
import { createUsageStore, sweepUsage } from '../../../plugins/usage/store.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { admitted, instanceSilentFor, open, smallPlans } from './app.js'

const gauges = ['connections', 'rooms', 'entities_watched'] as const

test('of a hundred concurrent uses a plan with room for seven admits seven; released ones make room', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app } = await open(t, engine, { tenants: { acme: 'seven', globex: 'seven', big: 'much' } })
    for (const gauge of gauges) {
      t.equal(await admitted(t, Array.from({ length: 100 }, () => app.usage.take('acme', gauge))), 7, gauge)
      for (let index = 0; index < 4; index++) app.usage.give('acme', gauge)
      t.equal(await admitted(t, Array.from({ length: 10 }, () => app.usage.take('acme', gauge))), 4, 'before that was written')
      t.equal(await admitted(t, [app.usage.take('globex', gauge)]), 1)
      t.equal(await admitted(t, Array.from({ length: 2500 }, () => app.usage.take('big', gauge))), 2500)
    }
    const error = await app.usage.take('acme', 'connections').then(() => t.fail('it was admitted'), (error) => error)
    t.match(error, {
      statusCode: 402,
      message: 'The plan "seven" includes 7 concurrent websocket connections',
      extras: { allowed: false, upgrade: { plan: 'eight', limit: 8 } }
    })
    t.match(await app.usage.report('acme'), {
      usage: {
        websocket: { connections: { current: 7, limit: 7, percentage: 100 }, rooms: { current: 7 }, entitiesWatched: { current: 7 } }
      }
    })
    t.match(await app.usage.report('big'), { usage: { websocket: { connections: { current: 2500, limit: -1, percentage: 0 } } } })
    for (let index = 0; index < 20; index++) app.usage.give('acme', 'connections')
    app.usage.give('nobody', 'rooms')
    t.match(
      await app.usage.report('acme'),
      { usage: { websocket: { connections: { current: 0 } } } },
      'at most the acquired amount is released'
    )
  }))

test("servers count together; a dead one's gauges drop out, and return with it", async (t) => {
  const engine = await postgresSection(t)
  const { app: here } = await open(t, engine, { tenants: { acme: 'seven' } })
  const { app: there } = await open(t, engine)
  const attempts = Array.from({ length: 100 }, (_none, index) => (index % 2 === 0 ? here : there).usage.take('acme', 'rooms'))
  t.equal(await admitted(t, attempts), 7)
  const ofHere = (await Promise.allSettled(attempts)).filter(({ status }, index) => status === 'fulfilled' && index % 2 === 0).length
  const current = async () => (await here.usage.report('acme')).usage.websocket.rooms.current
  t.equal(await current(), 7)

  t.equal(await admitted(t, Array.from({ length: 5 }, () => here.usage.take('acme', 'connections'))), 5)
  const connections = async () => (await there.usage.report('acme')).usage.websocket.connections.current
  const silent = await instanceSilentFor(here, 25)
  await sql`insert into tenantry.usage_gauges (instance_id, tenant_id, gauge, value, written) values (${silent}::uuid, 'acme', 'connections', 2, 1)`
    .execute(here.db)
  t.equal(await connections(), 7)
  t.equal(await admitted(t, [here.usage.take('acme', 'connections')]), 0)
  await sql`update tenantry.usage_instances set seen_at = seen_at - interval '6 seconds' where id = ${silent}::uuid`.execute(here.db)
  t.equal(await connections(), 5, 'silent for 31 s')
  t.equal(
    await admitted(t, [
      here.usage.take('acme', 'connections'),
      there.usage.take('acme', 'connections'),
      there.usage.take('acme', 'connections')
    ]),
    2
  )
  await sql`update tenantry.usage_instances set seen_at = clock_timestamp() where id = ${silent}::uuid`.execute(here.db)
  t.equal(await connections(), 9, 'it was alive')
  await sql`update tenantry.usage_instances set seen_at = seen_at - interval '8 days' where id = ${silent}::uuid`.execute(here.db)
  await sweepUsage(here.db, Date.now())
  t.same((await sql`select from tenantry.usage_gauges where instance_id = ${silent}::uuid`.execute(here.db)).rows, [])

  await there.close()
  t.equal(await current(), ofHere, 'one that stops cleanly drops out at once')
})

test('a late older value changes nothing, and closed gauges leave the memory', async (t) => {
  const { app } = await open(t, await postgresSection(t), { tenants: { acme: 'much' } })
  const store = createUsageStore(app.engine)
  const instance = await instanceSilentFor(app, 0)
  const own = createGauges({ store, instance, plans: createPlans(smallPlans), registered: () => {}, notices: { reached: () => {} } })
  const value = async () =>
    (await sql<{ value: number }>`select value::int as value from tenantry.usage_gauges where instance_id = ${instance}::uuid`.execute(
      app.db
    )).rows[0]?.value
  await own.take(tenantRef('acme'), 'rooms')
  await own.take(tenantRef('acme'), 'rooms')
  own.give(tenantRef('acme'), 'rooms')
  const late = own.changed()
  t.match(late, [{ tenant: 'acme', gauge: 'rooms', value: 1 }])
  await own.take(tenantRef('acme'), 'rooms')
  t.equal(await value(), 2)
  t.equal(await store.write(instance, { number: 2, figures: noFigures }, late), true)
  t.equal(await value(), 2)
  own.rewrite()
  t.equal(own.isChanged(), true, 'a gauge with an unknown outcome is written again')
  own.give(tenantRef('acme'), 'rooms')
  own.give(tenantRef('acme'), 'rooms')
  const last = own.changed()
  await store.write(instance, { number: 3, figures: noFigures }, last)
  own.written()
  t.equal(await value(), 0)
  t.equal(own.size, 0)
  t.equal(own.isChanged(), false)
  await t.rejects(own.take(tenantRef('nobody'), 'rooms'), { code: 'TENANTRY_TENANT_UNKNOWN' })
})
