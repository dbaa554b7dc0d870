import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { whenStopping } from '../../../lib/plugin/lifecycle.js'
import type { Job } from '../../../plugins/queue/index.js'
import { gate } from '../../helpers/gate.js'
import { postgresDatabase, postgresServer } from '../../helpers/postgres.js'
import { runProgram, startProgram } from '../../helpers/program.js'
import { until } from '../../helpers/until.js'
import { queueApp } from './app.js'

const program = 'test/programs/queue.ts'
const tables = 'create table done (n int primary key, pid int); create table begun (job uuid, attempt int, pid int)'

test('two processes run each job once, and one takes over the jobs of a killed one', async (t) => {
  const database = await postgresDatabase(t)
  const { connectionString, query } = database
  // This process only sends.
  const { app, run, change } = await queueApp(t, { provider: 'postgres', postgres: { connectionString } }, (app) => {
    for (const name of ['count', 'hang']) {
      app.queue.define(name, {}, async () => {
        t.fail('this process runs no jobs')
      })
    }
  }, { workers: 0 })
  await query(tables)
  const programs = await Promise.all([1, 2].map(() => startProgram(t, program, { TEST_DATABASE: connectionString })))
  for (let part = 0; part < 3; part++) {
    await Promise.all(
      Array.from({ length: 1000 }, (_, n) => app.queue.send('count', { tenant: n % 2 === 0 ? 'a' : 'b', data: { n: part * 1000 + n } }))
    )
  }
  await until(
    'all have ended',
    async () => (await run("select from tenantry_queue.job where task = 'count' and state <> 'completed' limit 1")).length === 0
  )
  // A job that ran twice would have failed, and been retried.
  t.same(await run("select count(*)::int as jobs, max(retry_count) as retries from tenantry_queue.job where task = 'count'"), [{
    jobs: 3000,
    retries: 0
  }])
  t.same(await query('select count(*)::int as jobs, count(distinct pid)::int as processes from done'), [{ jobs: 3000, processes: 2 }])

  const id = await app.queue.send('hang', { tenant: 'a', data: {} })
  await until('one has begun', async () => (await query('select from begun')).length === 1)
  const [first] = await query('select pid from begun')
  const killed = programs.find(({ pid }) => pid === first?.['pid'])
  const other = programs.find(({ pid }) => pid !== first?.['pid'])
  t.equal(await killed?.stop('SIGKILL'), null)
  t.match(await run('select state from tenantry_queue.job where id = $1', id), [{ state: 'active' }], 'the kill is not detected yet')
  // As if it had timed out.
  await change("update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active'")
  await until('the other process has it', async () => (await query('select from begun')).length === 2)
  t.match(await query('select attempt, pid from begun where job = $1 order by attempt', [id]), [{ attempt: 1 }, {
    attempt: 2,
    pid: other?.pid
  }])

  // The job does not end within the time of a stop.
  t.equal(await other?.stop(), 0)
  t.match(await run('select state, retry_count, output from tenantry_queue.job where id = $1', id), [{
    state: 'retry',
    retry_count: 0,
    output: { message: 'its process ended while it ran' }
  }], 'it is handed back, and the attempt does not count')
})

test('a stop waits for running jobs, and hands back those that take too long', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const door = gate()
  const begun: Job[] = []
  let closing = gate()
  const start = (stopTimeoutMs: number) =>
    queueApp(t, { provider: 'postgres', postgres: { connectionString } }, (app) => {
      // Runs after the queue's own work.
      whenStopping(app, async () => closing.open())
      app.queue.define('work', {}, async (job) => {
        begun.push(job)
        await door.opened
      })
    }, { workers: 2, stopTimeoutMs })
  const observer = await queueApp(
    t,
    { provider: 'postgres', postgres: { connectionString } },
    (app) => app.queue.define('work', {}, async () => {}),
    { workers: 0 }
  )
  const states = async () =>
    (await observer.run('select state, retry_count, started_on is null as fresh from tenantry_queue.job order by created_on')).map((row) =>
      Object.values(row).join(' ')
    )
  const send = (n: number) => observer.app.queue.send('work', { tenant: 'a', data: { n } })

  const hasty = await start(50)
  await send(1)
  await until('it runs', () => begun.length === 1)
  await hasty.app.close()
  t.equal(begun[0]?.signal.aborted, true)
  t.same(await states(), ['retry 0 true'])

  const patient = await start(60_000)
  await until('another process has it', () => begun.length === 2)
  t.equal(begun[1]?.attempt, 1, 'as the first attempt')
  closing = gate()
  const closed = patient.app.close()
  await closing.opened
  await send(2)
  door.open()
  await closed
  t.equal(begun[1]?.signal.aborted, false)
  t.same(await states(), ['completed 0 false', 'created 0 true'], 'running jobs end, and none starts')
})

test('a stalled process keeps its job, and ends its attempt when it runs the job again for another process', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const door = gate()
  const begun: Job[] = []
  const start = (task: string) =>
    queueApp(t, { provider: 'postgres', postgres: { connectionString } }, (app) =>
      app.queue.define(task, {}, async (job) => {
        begun.push(job)
        await door.opened
      }), { workers: 2 })
  const { app, run, change } = await start('work')
  const id = await app.queue.send('work', { tenant: '', data: {} })
  await until('it runs', () => begun.length === 1)
  // As if it had not been renewed in time.
  const stall = () => change("update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active' and retry_count = 0")
  await stall()
  await until('it is renewed', async () =>
    Number((await run('select extract(epoch from expire_in)::float8 as held from tenantry_queue.job'))[0]?.['held']) > 3600)
  t.equal(begun.length, 1)

  // This process takes jobs over, but does not run them.
  await start('other')
  await until('it runs again', async () => {
    // Again, since it may be renewed before it is taken over.
    await stall()
    return begun.length > 1
  })
  await until('the earlier attempt is aborted', () => begun[0]?.signal.aborted === true)
  t.equal(begun[1]?.signal.aborted, false)
  door.open()
  await until('it is completed', async () => (await run('select state from tenantry_queue.job where id = $1', id))[0]?.['state'] === 'completed')
  t.strictSame(begun.map(({ attempt }) => attempt), [1, 2])
})

test('jobs continue when a lost database is back', async (t) => {
  const server = await postgresServer(t)
  const door = gate()
  const seen: unknown[] = []
  const { app, run, warnings } = await queueApp(
    t,
    { provider: 'postgres', postgres: { connectionString: server.connectionString } },
    (app) => {
      app.queue.define('work', {}, async ({ data, attempt }) => {
        seen.push([data['n'], attempt])
        if (data['n'] === 1) await door.opened
      })
    }
  )
  await app.queue.send('work', { tenant: 'a', data: { n: 1 } })
  await until('it runs', () => seen.length === 1)
  await server.stop()
  await until('the loss is reported', () => warnings.filter((message) => message.startsWith('jobs do not run')).length === 1)
  // It is done, but cannot be recorded.
  door.open()
  await server.start()
  await until('the job that ended meanwhile is completed', async () => {
    try {
      return (await run('select state from tenantry_queue.job'))[0]?.['state'] === 'completed'
    } catch {
      return false
    }
  })
  await app.queue.send('work', { tenant: 'a', data: { n: 2 } })
  await until('another one is run', () => seen.length === 2)
  t.same(seen, [[1, 1], [2, 1]])
  t.equal(warnings.filter((message) => message.startsWith('jobs do not run')).length, 1)
})

test('a job that ends its process twice is set aside, and the third process lives; a job that ran beside it completes', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app, run, change } = await queueApp(t, { provider: 'postgres', postgres: { connectionString } }, (app) => {
    for (const name of ['kill', 'linger', 'count']) {
      app.queue.define(name, {}, async () => {
        t.fail('this process runs no jobs')
      })
    }
  }, { workers: 0 })
  await query(tables)
  const linger = await app.queue.send('linger', { tenant: 'b', data: {} })
  const kill = await app.queue.send('kill', { tenant: 'a', data: {} })
  const overdue = "update tenantry_queue.job set started_on = started_on - interval '1 hour' where state = 'active'"
  for (let round = 0; round < 2; round++) {
    t.equal((await runProgram(t, program, { TEST_DATABASE: connectionString })).code, null, 'the job ends its process')
    await change(overdue)
  }
  await startProgram(t, program, { TEST_DATABASE: connectionString })
  await until(
    'the job has failed',
    async () => (await run('select state from tenantry_queue.job where id = $1', kill))[0]?.['state'] === 'failed'
  )
  t.match(await run('select output, retry_count, retry_limit from tenantry_queue.job where id = $1', kill), [{
    output: { message: 'its process ended twice while it ran' },
    retry_count: 1,
    retry_limit: 3
  }])
  t.same(await query('select attempt from begun where job = $1 order by attempt', [kill]), [{ attempt: 1 }, { attempt: 2 }])
  await until(
    'the other job completes',
    async () => (await run('select state from tenantry_queue.job where id = $1', linger))[0]?.['state'] === 'completed'
  )
  await app.queue.send('count', { tenant: 'b', data: { n: 1 } })
  await until('the third process runs jobs', async () => (await query('select from done')).length === 1)
})

test('jobs of a process that died are run one at a time, beside others', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const doors = new Map([1, 2, 3, 4].map((n) => [n, gate()]))
  const begun: number[] = []
  const define = (app: FastifyInstance) =>
    app.queue.define('work', {}, async ({ data }) => {
      begun.push(Number(data['n']))
      await doors.get(Number(data['n']))?.opened
    })
  const sender = await queueApp(t, { provider: 'postgres', postgres: { connectionString } }, define, { workers: 0 })
  for (const n of [1, 2, 3, 4]) await sender.app.queue.send('work', { tenant: n % 2 === 0 ? 'a' : 'b', data: { n } })
  await sender.run(
    "update tenantry_queue.job set lost = 1, state = 'retry', retry_count = 1, started_on = now() where (data->'data'->>'n')::int <= 3"
  )
  const { app } = await queueApp(t, { provider: 'postgres', postgres: { connectionString } }, define, { workers: 8 })
  await until('one of them runs beside the other job', () => begun.length === 2)
  t.ok(begun.includes(4))
  for (const count of [3, 4]) {
    const last = begun.filter((n) => n !== 4).at(-1)
    doors.get(last ?? 0)?.open()
    await until('then the next', () => begun.length === count)
  }
  for (const door of doors.values()) door.open()
  await app.close()
  t.same((await sender.run('select state from tenantry_queue.job')).map(({ state }) => state), [
    'completed',
    'completed',
    'completed',
    'completed'
  ])
})
