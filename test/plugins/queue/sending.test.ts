import { sql } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import type { SendWith } from '../../../plugins/queue/index.js'
import { gate } from '../../helpers/gate.js'
import { type DatabaseSection, forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { type QueueApp, queueApp } from './app.js'

const maxData = 1_048_576

async function sends (t: Test, engine: DatabaseSection): Promise<void> {
  let sendWith: SendWith<number> = async () => null
  let mayWrite = async () => {}
  const { app, run }: QueueApp = await queueApp(t, engine, (app) => {
    app.queue.define('job', {}, async () => {})
    sendWith = app.queue.sendWith<number>('job', async (transaction, sent) => {
      await mayWrite()
      await sql`insert into public.numbers (job, n) select * from unnest(${sent.map(({ id }) => id)}::uuid[], ${
        sent.map(({ row }) => row)
      }::int[])`.execute(transaction)
    })
  }, { workers: 0, maxWaitingPerTenant: 200 })
  await run('create table public.numbers (job uuid primary key, n int check (n >= 0))')
  const { send } = app.queue
  t.beforeEach(() => run('delete from tenantry_queue.job'))

  await t.test('many sends use few statements, and only those of missing tenants fail', async (t) => {
    const tenants = ['a', 'b', 'nobody', '', 'leaving']
    const sent = await Promise.allSettled(
      Array.from({ length: 500 }, (_, n) => send('job', { tenant: tenants[n % 5] ?? '', data: { n }, priority: n % 3 }))
    )
    const ids = sent.map((result) => result.status === 'fulfilled' ? result.value : result.reason.code)
    t.equal(new Set(ids.filter((_, n) => n % 5 !== 2 && n % 5 !== 4)).size, 300)
    t.same(new Set(ids.filter((_, n) => n % 5 === 2 || n % 5 === 4)), new Set(['TENANTRY_TENANT_UNKNOWN']))
    // The duration of one statement.
    t.ok((await run('select from tenantry_queue.job group by created_on')).length < 20)
    t.match(await run("select tenant_id, data #>> '{data,n}' as n, priority, state from tenantry_queue.job where id = $1", ids[6]), [{
      tenant_id: 'b',
      n: '6',
      priority: 0,
      state: 'created'
    }])
  })

  await t.test('data of 1 MiB is accepted, one byte more or text that no database stores is not', async (t) => {
    const text = (bytes: number) => ({ text: 'x'.repeat(bytes - '{"text":""}'.length) })
    t.ok(await send('job', { tenant: 'a', data: text(maxData) }))
    await t.rejects(send('job', { tenant: 'a', data: text(maxData + 1) }), /1048577 bytes: the maximum is 1048576/)
    for (const poison of ['\0', 'half \ud800', '\udc00 half', '\\\0']) {
      const both = await Promise.allSettled([
        send('job', { tenant: 'a', data: { poison } }),
        send('job', { tenant: 'b', data: { [poison]: 1 } }),
        send('job', { tenant: 'b', data: { poison: '\\u0000 \\ud800 😀' } })
      ])
      t.match(both, [{ reason: { code: 'TENANTRY_INVALID_VALUE' } }, { reason: { code: 'TENANTRY_INVALID_VALUE' } }, {
        status: 'fulfilled'
      }])
    }
    for (const priority of [1001, -1001, 0.5, NaN, 2 ** 53]) {
      await t.rejects(send('job', { tenant: 'a', data: {}, priority }), /priority is/)
    }
    t.ok(await send('job', { tenant: 'a', data: {}, priority: -0, delay: -0 }))
  })

  await t.test('jobs with rows: both are written or neither, and a row that cannot be written affects only its own job', async (t) => {
    const sent = await Promise.allSettled([1, -1, 2, 3].map((n) => sendWith({ tenant: n === 3 ? 'nobody' : 'a', data: { n } }, n, 8)))
    t.match(sent.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled', 'rejected'])
    t.match(sent[3], { reason: { code: 'TENANTRY_TENANT_UNKNOWN' } })
    t.same(await run('select numbers.n from tenantry_queue.job join public.numbers on numbers.job = job.id order by 1'), [{ n: 1 }, {
      n: 2
    }])
    t.same(await run('select count(*)::int as rows from public.numbers union all select count(*)::int from tenantry_queue.job'), [{
      rows: 2
    }, { rows: 2 }])
    t.ok(await sendWith({ tenant: 'a', data: {}, key: 'k' }, 4, 8))
    t.equal(await sendWith({ tenant: 'a', data: {}, key: 'k' }, 5, 8), null, 'if one with the key waits, no row is written either')
    t.same(await run('select n from public.numbers where n > 3'), [{ n: 4 }])
  })

  await t.test("a tenant at its bound does not use another's", async (t) => {
    await app.db.transaction().execute(async (transaction) => {
      for (let n = 0; n < 5; n++) await send('job', { tenant: 'a', data: {} }, transaction)
    })
    let sent = 5
    while (
      await send('job', { tenant: 'a', data: {} }).then(() => true, (error) => {
        t.equal(error.code, 'TENANTRY_QUEUE_FULL')
        return false
      })
    ) sent++
    t.ok(sent >= 200 && sent <= 205, `${sent} jobs`)
    const inTransaction = app.db.transaction().execute((transaction) => send('job', { tenant: 'a', data: {} }, transaction))
    await t.rejects(inTransaction, { code: 'TENANTRY_QUEUE_FULL' })
    await t.rejects(sendWith({ tenant: 'a', data: {} }, 6, 8), { code: 'TENANTRY_QUEUE_FULL' })
    t.ok(await send('job', { tenant: 'b', data: {} }))
    t.ok(await send('job', { tenant: '', data: {} }))
    // Whatever their name, and whether they wait for a first attempt or another one.
    await run("update tenantry_queue.job set state = 'completed', completed_on = now() where tenant_id = 'a'")
    await until(
      'it may send again when they have ended',
      () => send('job', { tenant: 'a', data: {} }).then(() => true, () => false)
    )
  })

  if (engine.provider !== 'postgres') return
  await t.test('a change of a tenant, or of its key, delays no other', async (t) => {
    const door = gate()
    const held = gate()
    const change = app.db.transaction().execute(async (transaction) => {
      await sql`select from tenantry.tenants where id = 'a' for update`.execute(transaction)
      await send('job', { tenant: 'b', data: {}, key: 'k' }, transaction)
      held.open()
      await door.opened
    })
    await held.opened
    let waits = true
    const own = [
      send('job', { tenant: 'a', data: {} }),
      sendWith({ tenant: 'a', data: {} }, 7, 8),
      send('job', { tenant: 'b', data: {}, key: 'k' })
    ]
    Promise.race(own).then(() => {
      waits = false
    }, () => {})
    for (let n = 0; n < 3; n++) {
      t.ok(
        await Promise.all([
          send('job', { tenant: 'b', data: {} }),
          sendWith({ tenant: 'b', data: {} }, 8, 8),
          send('job', { tenant: '', data: {} })
        ])
      )
    }
    t.ok(waits)
    door.open()
    await change
    const [first, second, keyed] = await Promise.all(own)
    t.ok(first)
    t.ok(second)
    t.equal(keyed, null)
  })

  await t.test('a slow write delays only the jobs of its own batch', async (t) => {
    const door = gate()
    mayWrite = () => door.opened
    const slow = sendWith({ tenant: 'a', data: {} }, 9, 8)
    t.ok(await send('job', { tenant: 'b', data: {} }))
    mayWrite = async () => {}
    door.open()
    t.ok(await slow)
  })
}

test('sends', (t) => forEachEngine(t, sends))

test('workers of other processes are notified after the commit, once for many jobs', async (t) => {
  const engine = await postgresSection(t)
  const define = (app: QueueApp['app']) => app.queue.define('job', {}, async () => {})
  const { app } = await queueApp(t, engine, define, { workers: 0 })
  const other = await queueApp(t, engine, define, { workers: 0 })
  let notices = 0
  other.app.events.on('queue', () => {
    notices++
  })
  await t.rejects(
    app.db.transaction().execute(async (transaction) => {
      await app.queue.send('job', { tenant: 'a', data: {} }, transaction)
      throw new Error('no')
    }),
    /no/
  )
  await app.db.transaction().execute(async (transaction) => {
    for (let n = 0; n < 3; n++) await app.queue.send('job', { tenant: 'a', data: {} }, transaction)
  })
  await until("a caller's transaction announces its jobs at the commit", () => notices > 0)
  // Notifications arrive in the order of commits: one of the rolled back transaction would have come before.
  t.equal(notices, 1)
  await app.queue.send('job', { tenant: 'a', data: {} })
  await until('a job is announced', () => notices === 2)
  await Promise.all(Array.from({ length: 1000 }, () => app.queue.send('job', { tenant: 'a', data: {} })))
  await until('a thousand are announced', () => notices > 2)
  t.ok(notices < 100, `${notices} notices`)
})
