/** A replica that lags becomes the primary: positions are lost with the changes that it lacks. */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { test } from 'tap'
import type { SystemTables } from '../../../lib/database/system-tables.js'
import { positionLock } from '../../../plugins/realtime/store.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { open } from './app.js'

/** Runs while no transaction gives positions: no transaction of a server continues on another primary. */
async function failOver (app: FastifyInstance, changes: (transaction: Kysely<SystemTables>) => Promise<unknown>): Promise<void> {
  await app.db.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${positionLock}, 0))`.execute(transaction)
    await changes(transaction)
  })
}

test('after a failover to a replica that lags, watches end, and every earlier position is a gap', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, connect, ask } = await open(t, {}, { engine })
    const acme = ask('acme')
    const [watching, other] = [await connect('acme'), await connect('acme')]
    await watching.ask({ type: 'watch', table: 'notes' })
    for (const title of ['one', 'two', 'three']) {
      await acme('POST /notes', { body: { title } })
      await watching.change()
    }

    // The replica has the log up to the first change, and no entry for the table.
    await failOver(app, async (db) => {
      await sql`update tenantry.realtime_heads set position = 2, stamp = 1`.execute(db)
      await sql`delete from tenantry.realtime_changes where position > 2`.execute(db)
      await sql`delete from tenantry.realtime_recorded`.execute(db)
      await sql`select setval('tenantry.realtime_stamps', 1), setval(gate, 0) from unnest(tenantry.realtime_gates()) gate`.execute(db)
      await sql`update tenantry.realtime_timeline set timeline = 'FFFFFFFF'`.execute(db)
    })
    t.equal((await watching.closed).code, 1012)
    await other.settle()

    const back = await connect('acme')
    const { watch, position } = await back.ask({ type: 'watch', table: 'notes', since: 4 })
    t.ok(Number(position) > 1_000_000_000)
    t.same(await back.next(({ type }) => type === 'gap'), { type: 'gap', watch, position })
    await acme('POST /notes', { body: { title: 'four' } })
    t.match(await back.change(), { watch, record: { title: 'four' }, position: Number(position) + 1 })
    const again = await connect('acme')
    t.match(await again.ask({ type: 'watch', table: 'notes', since: Number(position) }), { type: 'ack' })
    t.match(await again.change(), { record: { title: 'four' } }, 'positions after the failover are no gap')
  }))

test('a failover to a replica that lacks an earlier failover ends watches, and repeats no position', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, connect, ask } = await open(t, {}, { engine })
    const acme = ask('acme')
    /** The replica has the first change, and the state before any failover. */
    const failOverTo = (timeline: string) =>
      failOver(app, async (db) => {
        await sql`update tenantry.realtime_heads set position = 2, stamp = 2`.execute(db)
        await sql`delete from tenantry.realtime_changes where position > 2`.execute(db)
        await sql`select setval('tenantry.realtime_stamps', 2)`.execute(db)
        await sql`update tenantry.realtime_timeline set timeline = ${timeline}, epoch = 0`.execute(db)
      })
    const first = await connect('acme')
    await first.ask({ type: 'watch', table: 'notes' })
    await acme('POST /notes', { body: { title: 'one' } })
    await first.change()
    await failOverTo('FFFFFFFF')
    t.equal((await first.closed).code, 1012)

    const second = await connect('acme')
    await second.ask({ type: 'watch', table: 'notes' })
    await acme('POST /notes', { body: { title: 'of the first' } })
    const { position: since } = await second.change()
    await failOverTo('FFFFFFFE')
    t.equal((await second.closed).code, 1012)

    const third = await connect('acme')
    const { watch, position } = await third.ask({ type: 'watch', table: 'notes', since })
    t.ok(Number(position) > Number(since))
    t.match(await third.next(({ type }) => type === 'gap'), { watch, position })
    await acme('POST /notes', { body: { title: 'of the second' } })
    t.match(await third.change(), { record: { title: 'of the second' }, position: Number(position) + 1 })
  }))

test('a failover while there is no watch is a gap for the next one', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, connect, ask } = await open(t, {}, { engine })
    const first = await connect('acme')
    await first.ask({ type: 'watch', table: 'notes' })
    await ask('acme')('POST /notes', { body: { title: 'one' } })
    t.match(await first.change(), { position: 2 })
    first.socket.close()
    await first.closed
    await sql`update tenantry.realtime_timeline set timeline = 'FFFFFFFF'`.execute(app.db)
    const early = await connect('acme')
    early.send({ type: 'watch', table: 'notes', since: 1 })
    t.equal((await early.closed).code, 1012, 'this process may lack the entry of the table')
    t.notOk(early.messages.some(({ type }) => type === 'change'))
    const back = await connect('acme')
    await back.ask({ type: 'watch', table: 'notes', since: 1 })
    const { position } = await back.next(({ type }) => type === 'gap')
    t.ok(Number(position) > 1_000_000_000)
  }))
