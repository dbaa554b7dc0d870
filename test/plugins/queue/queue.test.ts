import type { Test } from 'tap'
import { test } from 'tap'
import type { Handler, Job } from '../../../plugins/queue/index.js'
import { HandedBack } from '../../../plugins/queue/index.js'
import { createJobStore } from '../../../plugins/queue/store.js'
import { gate } from '../../helpers/gate.js'
import { secretText } from '../../helpers/log-scan.js'
import { type DatabaseSection, forEachEngine, postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { queueApp } from './app.js'

const secret = secretText('what a job is about', 'the data of a job')

async function works (t: Test, engine: DatabaseSection): Promise<void> {
  let handle: Handler = async () => {}
  const seen: Job[] = []
  const handler: Handler = async (job) => {
    seen.push(job)
    await handle(job)
  }
  const ticks: Job[] = []
  const { app, run, change, warnings } = await queueApp(t, engine, (app) => {
    app.queue.define('any', { retryLimit: 2, retryDelay: 0 }, handler)
    app.queue.define('single', { concurrency: 1 }, handler)
    app.queue.define('patient', { retryDelay: 60 }, handler)
    app.queue.define('short', { expireIn: 1, retryLimit: 0 }, handler)
    app.queue.define('tick', {}, async (job) => {
      ticks.push(job)
    })
    app.queue.every('tick', 86_400)
  })
  const { send } = app.queue
  const numbers = () => seen.map(({ data }) => data['n'])
  const isRun = (...expected: unknown[]) =>
    until(`jobs ${expected.join(', ')} are run`, () => JSON.stringify(numbers()) === JSON.stringify(expected))
  const stateOf = async (id: string | null) => (await run('select state from tenantry_queue.job where id = $1', id))[0]?.['state']
  t.beforeEach(() => {
    seen.length = 0
    handle = async () => {}
  })

  await t.test('a job runs once, with its data', async (t) => {
    const id = await send('any', { tenant: 'a', data: { n: 1, nested: [null, 'é', '\u{1f600}'], secret } })
    const platform = await send('any', { tenant: '', data: {} })
    await until('both are done', async () => await stateOf(id) === 'completed' && await stateOf(platform) === 'completed')
    t.match(seen.find((job) => job.id === id), {
      tenant: 'a',
      data: { n: 1, nested: [null, 'é', '\u{1f600}'], secret },
      attempt: 1,
      signal: { aborted: false }
    })
    t.match(seen.find((job) => job.id === platform), { tenant: '', attempt: 1 })
    t.equal(seen.length, 2)
  })

  await t.test('an invalid job is rejected', async (t) => {
    for (const tenant of ['nobody', 'leaving']) await t.rejects(send('any', { tenant, data: {} }), { code: 'TENANTRY_TENANT_UNKNOWN' })
    const own = { tenant: '', data: {} }
    await t.rejects(send('unheard', own), /the job "unheard" is not defined/)
    await t.rejects(send('any', { tenant: "a' or true", data: {} }), /the job "any" has no valid `tenant`: expected the id of a tenant/)
    for (const delay of [-1, NaN, Infinity, 31_536_001]) await t.rejects(send('any', { ...own, delay }), /delay is .*: expected/)
    for (const priority of [0.5, 1001, -1001, NaN]) await t.rejects(send('any', { ...own, priority }), /priority is .*: expected/)
    for (const key of ['', 'k'.repeat(256)]) await t.rejects(send('any', { ...own, key }), /the key of a job must have/)
    for (const data of [[1], Object.assign(() => {}, {})]) {
      await t.rejects(send('any', { tenant: '', data }), /must be a JSON object/)
    }
    await t.rejects(send('any', { tenant: '', data: { text: 'x'.repeat(1_048_576) } }), /the maximum is 1048576/)
    await t.rejects(send('any', { tenant: '', data: { text: '\0' } }), { code: 'TENANTRY_INVALID_VALUE' })
    t.throws(() => app.queue.define('late', {}, async () => {}), /too late/)
    t.throws(() => app.queue.every('any', 60), /too late/)
    t.same(await run("select id from tenantry_queue.job where task = 'any' and state < 'active'"), [])
  })

  await t.test('a transaction that is rolled back sends nothing', async (t) => {
    const rolledBack = app.db.transaction().execute(async (transaction) => {
      t.ok(await send('any', { tenant: 'a', data: { n: 'never' } }, transaction))
      throw new Error('no')
    })
    await t.rejects(rolledBack, /no/)
    const held = gate()
    const committed = app.db.transaction().execute(async (transaction) => {
      await send('any', { tenant: 'a', data: { n: 'committed' } }, transaction)
      await held.opened
    })
    if (engine.provider === 'postgres') {
      await send('any', { tenant: 'a', data: { n: 'meanwhile' } })
      await isRun('meanwhile')
    }
    held.open()
    await committed
    await until('the committed one is run', () => numbers().includes('committed'))
    t.notOk(numbers().includes('never'))
  })

  await t.test('at most one job of a key waits, and one runs', async (t) => {
    const door = gate()
    handle = () => door.opened
    t.ok(await send('any', { tenant: 'a', data: { n: 1 }, key: 'k' }))
    await isRun(1)
    const second = await send('any', { tenant: 'a', data: { n: 2 }, key: 'k' })
    t.ok(second, 'the running one does not wait any more')
    t.equal(await send('any', { tenant: 'a', data: { n: 3 }, key: 'k' }), null)
    t.equal(await app.db.transaction().execute((transaction) => send('any', { tenant: 'a', data: { n: 3 }, key: 'k' }, transaction)), null)
    t.ok(await send('any', { tenant: 'b', data: { n: 'other tenant' }, key: 'k' }))
    await isRun(1, 'other tenant')
    t.ok(await send('patient', { tenant: 'a', data: { n: 'other name' }, key: 'k' }))
    await isRun(1, 'other tenant', 'other name')
    t.equal(await stateOf(second), 'created', 'the second does not run beside the first, although there is room')
    door.open()
    await isRun(1, 'other tenant', 'other name', 2)
  })

  await t.test('the highest priority comes first, and at most `concurrency` jobs run', async () => {
    const door = gate()
    handle = () => door.opened
    await send('single', { tenant: 'a', data: { n: 'first' } })
    await isRun('first')
    for (const [n, priority] of [[1, 0], [2, -5], [3, 7], [4, 0]] as const) await send('single', { tenant: 'a', data: { n }, priority })
    await send('any', { tenant: 'a', data: { n: 'of another name' } })
    await isRun('first', 'of another name')
    door.open()
    await isRun('first', 'of another name', 3, 1, 4, 2)
  })

  await t.test('tenants take turns, however much one of them sends', async (t) => {
    const door = gate()
    handle = () => door.opened
    await send('single', { tenant: 'a', data: { n: 'first' } })
    await isRun('first')
    await app.db.transaction().execute(async (transaction) => {
      for (let n = 0; n < 30; n++) await send('single', { tenant: 'a', data: { n }, priority: 1000 }, transaction)
    })
    for (const n of [100, 101]) await send('single', { tenant: 'b', data: { n } })
    await send('single', { tenant: '', data: { n: 200 } })
    door.open()
    await until('all are run', () => seen.length === 34)
    t.ok(numbers().indexOf(100) <= 4 && numbers().indexOf(101) <= 7 && numbers().indexOf(200) <= 4, numbers().join(' '))
  })

  await t.test('one tenant uses at most half of the slots, and others the rest', async (t) => {
    const door = gate()
    handle = () => door.opened
    const ids = await Promise.all([1, 2].map((n) => send('any', { tenant: 'a', data: { n } })))
    await until('two run', () => seen.length === 2)
    const third = await send('patient', { tenant: 'a', data: { n: 'third' } })
    await send('patient', { tenant: 'b', data: { n: 'other tenant' } })
    await send('any', { tenant: '', data: { n: 'platform' } })
    await until("other tenants' jobs run", () => seen.length === 4)
    t.equal(numbers().includes('third'), false)
    t.equal(await stateOf(third), 'created')
    door.open()
    await until('it has its slot', () => numbers().includes('third'))
    for (const id of [...ids, third]) await until('it ends', async () => await stateOf(id) === 'completed')
  })

  await t.test('the last place is for jobs of the platform', async (t) => {
    const [door, short] = [gate(), gate()]
    handle = ({ tenant }) => tenant === '' ? short.opened : door.opened
    await Promise.all([1, 2].map((n) => send('any', { tenant: 'a', data: { n: `a${n}` } })))
    await until('both run', () => seen.length === 2)
    await send('any', { tenant: 'b', data: { n: 'b' } })
    await until('the third runs', () => seen.length === 3)
    const waiting = await send('patient', { tenant: 'c', data: { n: 'c' } })
    const own = await send('any', { tenant: '', data: { n: 'platform' } })
    await until("the platform's job runs", () => seen.length === 4)
    t.same(numbers().slice(2), ['b', 'platform'])
    short.open()
    await until('it ends', async () => await stateOf(own) === 'completed')
    await send('any', { tenant: '', data: { n: 'another' } })
    await until('another job runs', () => seen.length === 5)
    t.same(numbers().slice(4), ['another'])
    t.equal(await stateOf(waiting), 'created')
    door.open()
    await until('it has a place', async () => await stateOf(waiting) === 'completed')
  })

  await t.test('a job that its handler hands back runs again as the same attempt', async (t) => {
    handle = async () => {
      if (seen.length < 3) throw new HandedBack('others first')
    }
    const id = await send('any', { tenant: 'a', data: { n: 1 } })
    await until('it is done', async () => await stateOf(id) === 'completed')
    t.same(seen.map(({ attempt }) => attempt), [1, 1, 1])
  })

  await t.test('a delayed job waits until it is due', async (t) => {
    const id = await send('any', { tenant: 'a', data: { n: 'delayed' }, delay: 3600.25, key: 'd' })
    t.equal(await send('any', { tenant: 'a', data: {}, key: 'd' }), null, 'and counts as waiting')
    t.match(await run('select extract(epoch from start_after - created_on)::float8 as s from tenantry_queue.job where id = $1', id), [{
      s: 3600.25
    }])
    await send('any', { tenant: 'a', data: { n: 'at once' } })
    await isRun('at once')
    await change(
      "update tenantry_queue.job set start_after = start_after - interval '1 hour', created_on = created_on - interval '1 hour' where state = 'created'"
    )
    await isRun('at once', 'delayed')
  })

  await t.test('a failing job is retried, and finally fails', async (t) => {
    warnings.length = 0
    handle = async ({ attempt }) => {
      if (attempt < 3) throw new Error(`${secret} \0 \ud800`)
    }
    await send('any', { tenant: 'a', data: { n: 1, secret } })
    await isRun(1, 1, 1)
    t.same(seen.map(({ attempt }) => attempt), [1, 2, 3])
    handle = () => {
      throw new TypeError(secret)
    }
    const id = await send('any', { tenant: 'a', data: { n: 2, secret } })
    await until('it has finally failed', async () => await stateOf(id) === 'failed')
    t.same(numbers(), [1, 1, 1, 2, 2, 2])
    t.match(
      await run('select output from tenantry_queue.job where id = $1', id),
      [{ output: { name: 'TypeError', message: secret } }],
      'its row contains the reason'
    )
    t.same(warnings.filter((message) => message.startsWith('a job failed')), [
      ...Array(4).fill('a job failed and will be retried'),
      'a job failed permanently'
    ])
    warnings.length = 0
    for (
      const error of [
        Object.create(null),
        Object.assign(new Error('odd'), { name: 7, stack: 7 }),
        Object.defineProperty(new Error('odd'), 'message', {
          get () {
            throw new Error('no message')
          }
        })
      ]
    ) {
      handle = () => {
        throw error
      }
      const poison = await send('any', { tenant: 'a', data: { n: 3, secret } })
      await until('an unreadable job has finally failed, too', async () => await stateOf(poison) === 'failed')
    }
    t.notOk(warnings.some((message) => message.startsWith('jobs do not run')))
  })

  await t.test('the delay between attempts grows', async (t) => {
    handle = async () => {
      throw new Error('no')
    }
    const id = await send('patient', { tenant: 'a', data: { n: 1 } })
    for (const [index, [least, most]] of ([[60, 120], [120, 240], [240, 480]] as const).entries()) {
      await until('it waits for another attempt', async () => seen.length === index + 1 && await stateOf(id) === 'retry')
      const [row] = await run(
        'select extract(epoch from start_after - started_on)::float8 as pause from tenantry_queue.job where id = $1',
        id
      )
      const pause = Number(row?.['pause'])
      t.ok(pause >= least && pause < most + 5, `${pause} s`)
      await change("update tenantry_queue.job set start_after = now(), created_on = now() - interval '1 second' where state = 'retry'")
    }
    await until('it has finally failed', async () => await stateOf(id) === 'failed')
  })

  await t.test('an attempt that takes too long is aborted', async (t) => {
    const aborted: unknown[] = []
    handle = ({ signal }) => new Promise(() => signal.addEventListener('abort', () => aborted.push(signal.reason)))
    const id = await send('short', { tenant: 'a', data: {} })
    await until('it has failed', async () => await stateOf(id) === 'failed')
    t.match(aborted, [{ message: 'the attempt took longer than 1 s' }])
  })

  await t.test("a dead process's jobs are run by another", async (t) => {
    const put = (n: string, retries: number, age: string) =>
      change(`insert into tenantry_queue.job (name, data, state, retry_limit, retry_count, started_on, expire_in)
      values ('jobs', '{"tenant": "a", "task": "any", "data": {"n": "${n}"}}', 'active', 2, ${retries}, now() - interval '${age}', interval '30 minutes')`)
    await put('alive', 0, '5 seconds')
    await put('gone', 0, '1 hour')
    await put('gone too often', 2, '1 hour')
    await isRun('gone')
    t.equal(seen[0]?.attempt, 2, 'the attempt counts')
    await until('a job without retries has failed', async () => {
      const states = await run(
        "select state from tenantry_queue.job where data #>> '{data,n}' in ('alive', 'gone', 'gone too often') order by data #>> '{data,n}'"
      )
      return states.map(({ state }) => state).join() === 'active,completed,failed'
    })
    t.ok(warnings.includes('jobs of a stopped process run again'))
    await run("delete from tenantry_queue.job where state = 'active'")
  })

  // The heartbeat runs every five seconds on each engine.
  if (engine.provider === 'postgres') {
    await t.test('a handler is notified when its job is gone, for example with its tenant', async (t) => {
      let aborted = false
      handle = ({ signal }) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => {
            aborted = true
            reject(new Error(secret))
          })
        )
      const id = await send('any', { tenant: 'a', data: { n: 1 } })
      await isRun(1)
      await run('delete from tenantry_queue.job where id = $1', id)
      await until('it is reported', () => aborted)
      t.equal(await stateOf(id), undefined)
    })
  }

  await t.test('a periodic job is sent automatically', async (t) => {
    await until('it was run', () => ticks.length === 1)
    t.strictSame(ticks.map(({ tenant, data }) => [tenant, data]), [['', {}]])
  })

  await t.test('jobs that ended long ago are swept', async (t) => {
    await change(`insert into tenantry_queue.job (name, data, state, completed_on, keep_until)
      select 'jobs', json_build_object('tenant', 'a', 'task', task, 'data', '{}'::json), state::tenantry_queue.job_state, now() - age::interval, now() + keep::interval
      from (values ('old', 'completed', '26 hours', '1 day'), ('new', 'completed', '24 hours', '1 day'), ('cancelled', 'cancelled', '26 hours', '1 day'), ('failed', 'failed', '13 days', '1 day'),
        ('long', 'failed', '15 days', '1 day'), ('nobody', 'created', null, '-1 second'), ('waiting', 'created', null, '1 minute')) as rows (task, state, age, keep)`)
    t.equal(await createJobStore(app.db).sweep(), true)
    t.same(
      await run(
        "select task from tenantry_queue.job where task in ('old', 'new', 'cancelled', 'failed', 'long', 'nobody', 'waiting') order by 1"
      ),
      ['failed', 'new', 'waiting'].map((task) => ({ task }))
    )
  })
}

// Most of the time is spent waiting for delays between attempts, and for a heartbeat.
test('jobs', (t) => forEachEngine(t, works, { atOnce: true }))

test('a job of 30 seconds no longer takes a place', async (t) => {
  const { now } = performance
  let ahead = 0
  t.intercept(performance, 'now', { value: () => now.call(performance) + ahead })

  /** An app whose jobs run until the end of the test; `started` has their numbers. */
  async function hanging (t: Test, workers: number) {
    const { connectionString } = await postgresDatabase(t)
    const door = gate()
    const started: unknown[] = []
    const handler: Handler = async ({ data }) => {
      started.push(data['n'])
      await door.opened
    }
    const { app } = await queueApp(t, { provider: 'postgres', postgres: { connectionString } }, (app) => {
      app.queue.define('any', {}, handler)
      app.queue.define('single', { concurrency: 1 }, handler)
    }, { workers, stopTimeoutMs: 0 })
    const send = (tenant: string, n: string, task = 'any') => app.queue.send(task, { tenant, data: { n } })
    const run = (...numbers: string[]) => until(`${numbers.join()} run`, () => numbers.every((n) => started.includes(n)))
    return { app, started, send, run }
  }

  await t.test("other tenants' jobs run, and none beyond its tenant's share or the concurrency of its name", async (t) => {
    const { app, started, send, run } = await hanging(t, 4)
    await Promise.all([send('a', 'a1'), send('a', 'a2', 'single'), send('b', 'b1')])
    await run('a1', 'a2', 'b1')
    ahead += 30_000
    await Promise.all([send('a', 'a3'), send('b', 'b2', 'single'), send('c', 'c1'), send('c', 'c2'), send('', 'platform')])
    await run('c1', 'c2', 'platform')
    t.same(started.slice(3).sort(), ['c1', 'c2', 'platform'])
    t.same(app.queue.status(), { workers: 4, running: 6, working: true })
    await send('b', 'b3')
    await run('b3')
    t.equal(started.length, 7)
  })

  await t.test('a process runs four times its number of jobs, and the last one is of the platform', async (t) => {
    const { started, send, run } = await hanging(t, 1)
    for (const tenant of ['a', 'b', 'c']) {
      await send(tenant, tenant)
      await run(tenant)
      ahead += 30_000
    }
    await send('d', 'd')
    await send('', 'platform')
    await run('platform')
    ahead += 30_000
    await send('', 'a fifth')
    t.same(started, ['a', 'b', 'c', 'platform'])
  })
})

test('a periodic job is sent once per interval, and never beside a waiting one', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const door = gate()
  let ticks = 0
  const start = (workers: number) =>
    queueApp(t, { provider: 'postgres', postgres: { connectionString } }, (app) => {
      app.queue.define('tick', {}, async () => {
        ticks++
        await door.opened
      })
      app.queue.define('other', {}, async () => {})
      app.queue.every('tick', 86_400)
    }, { workers })
  const { app, run } = await start(0)
  const jobs = async () =>
    (await run("select state from tenantry_queue.job where task = 'tick' order by created_on")).map(({ state }) => state).join()
  /** Every process sends its initial jobs before jobs with another name. */
  const another = async () => {
    const { app: { queue } } = await start(2)
    const id = await queue.send('other', { tenant: '', data: {} })
    await until(
      'another process runs jobs',
      async () => (await run('select state from tenantry_queue.job where id = $1', id))[0]?.['state'] === 'completed'
    )
  }
  t.equal(await jobs(), '', 'a process without workers sends none')
  await another()
  await until('it runs', () => ticks === 1)
  await another()
  t.equal(await jobs(), 'active', 'one for all')
  // As if their intervals had ended long ago.
  const nextSlot = "update tenantry_queue.job set singleton_on = null where task = 'tick'"
  await run(nextSlot)
  await another()
  t.equal(await jobs(), 'active,created', 'the next interval has its own, which waits for the running one')
  await run(nextSlot)
  await another()
  t.equal(await jobs(), 'active,created', 'and no other waits beside it')
  t.equal(ticks, 1)
  door.open()
  await until('it runs then', async () => await jobs() === 'completed,completed')
  t.equal(ticks, 2)
  await app.close()
})

test('an invalid definition is rejected at start', async (t) => {
  const engine = await postgresSection(t)
  await t.rejects(queueApp(t, engine, () => {}, { workers: 101 }), /workers is 101/)
  await t.rejects(
    queueApp(t, engine, (app) => {
      const handler = async () => {}
      app.queue.define('a', {}, handler)
      t.throws(() => app.queue.define('a', {}, handler), /already defined/)
      for (const name of ['', 'A', '1a', 'a b', 'a'.repeat(65)]) t.throws(() => app.queue.define(name, {}, handler), /invalid job name/)
      for (const options of [{ retryLimit: -1 }, { retryDelay: 0.5 }, { expireIn: 0 }, { concurrency: 0 }]) {
        t.throws(() => app.queue.define('b', options, handler), /expected a whole number/)
      }
      t.throws(
        () => app.queue.define('b', JSON.parse('{"retrylimit": 2}'), handler),
        /the job "b": unknown option "retrylimit", did you mean "retryLimit"\?/
      )
      // JavaScript without types: the options were left out.
      t.throws(() => Reflect.apply(app.queue.define, null, ['b', handler]), /the job "b" has no handler: expected define/)
      t.throws(() => app.queue.every('a', 0), /seconds is 0/)
      app.queue.every('unheard', 1)
    }),
    /the job "unheard" is not defined/
  )
})
