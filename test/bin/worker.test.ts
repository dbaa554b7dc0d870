/** The command `tenantry worker`. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { testEnv } from '../helpers/server.js'
import { here, launch, tenantry } from './tenantry.js'

const insert =
  'insert into tenantry_queue.job (name, data) values (\'jobs\', \'{"tenant": "", "task": "billing.settle", "data": {}}\') returning id'

t.test('worker runs jobs of servers that only send; SIGTERM ends it with 0, and a second signal at once', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({ databaseProvider: 'postgres', migrate: 'auto', queue: { workers: 0 }, routes: [] }),
    '.env': `DATABASE_URL=${connectionString}\nSECRETS_MASTER_KEY=${testEnv.SECRETS_MASTER_KEY}`
  })
  const is = async (id: unknown, state: string) => {
    for (const deadline = Date.now() + 120_000; ;) {
      const [job] = await query('select state from tenantry_queue.job where id = $1', [id])
      if (job?.['state'] === state) return t.pass(`the job is ${state}`)
      if (Date.now() > deadline) return t.fail(`the job is ${String(job?.['state'])}`)
      await sleep(20)
    }
  }
  const working = async () => {
    const worker = launch(t, folder, ['worker', '--workers', '2'])
    t.equal(await worker.line(/./), 'working on up to 2 jobs at a time')
    return worker
  }
  t.match(await tenantry(t, folder, ['worker']), {
    code: 1,
    output: { length: 0 },
    errors: ["the document's `queue.workers` is 0: set the number of concurrent jobs with --workers"]
  })

  // The first server creates the tables.
  const first = await working()
  const [job] = await query(insert)
  await is(job?.['id'], 'completed')
  first.kill('SIGTERM')
  t.match(await first.ended, { code: 0, output: ['working on up to 2 jobs at a time'], errors: { length: 0 } })

  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  await holder.query('begin; lock table tenantry.billing_tenants in access exclusive mode')
  const second = await working()
  const [stuck] = await query(insert)
  await is(stuck?.['id'], 'active')
  second.kill('SIGTERM')
  second.kill('SIGINT')
  t.equal((await second.ended).code, 1)
})

t.test('worker reports an obstacle in one line', async (t) => {
  const folder = t.testdir({
    'embedded.json': JSON.stringify({ databaseProvider: 'embedded', jwt: { secret: 'x'.repeat(32) }, routes: [] }),
    'down.json': JSON.stringify({
      databaseProvider: 'postgres',
      postgres: { connectionString: 'postgres://127.0.0.1:1/none' },
      routes: []
    }),
    'wrong.json': JSON.stringify({ queue: { worker: 1 }, routes: [] })
  })
  t.match(await here(['worker', `${folder}/embedded.json`]), {
    code: 1,
    errors: ['an embedded database can be used by one process only: the server runs its jobs']
  })
  t.match(await here(['worker', `${folder}/wrong.json`]), { code: 1, errors: [/^\/queue\/worker: .*did you mean "workers"/] })
  for (const workers of ['0', '101', '-1', '1.5', 'x', '']) {
    t.match(await here(['worker', `${folder}/embedded.json`, `--workers=${workers}`]), {
      code: 1,
      errors: [`--workers "${workers}" is invalid: expected a number from 1 to 100`]
    })
  }
  t.match(await tenantry(t, folder, ['worker', 'down.json'], testEnv), { code: 1, output: { length: 0 }, errors: [/^the database cannot be reached/] })
})
