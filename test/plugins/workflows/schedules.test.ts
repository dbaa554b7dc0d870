/** Scheduled workflows: one run for each time, whatever the processes do. */
import type { FastifyInstance } from 'fastify'
import { CompiledQuery } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { ConfigError, formatFault } from '../../../lib/schema/faults.js'
import { gate } from '../../helpers/gate.js'
import { startInstances } from '../../helpers/instances.js'
import { untilBlocked } from '../../helpers/locks.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { testServer, testServers } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'

type Workflows = NonNullable<TestDocument['workflows']>

const tables: TestDocument['tables'] = {
  notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text' } } },
  ticks: { columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text' } } }
}
const workflows: Workflows = [
  {
    id: 'tick',
    schedule: { cron: '*/10 * * * *', input: { name: 'ten' } },
    steps: [{ id: 'write', type: 'database', operation: 'insert', table: 'ticks', data: { title: '{{input.name}}' } }]
  },
  { id: 'plain', steps: [{ id: 'write', type: 'database', operation: 'insert', table: 'ticks', data: { title: 'plain' } }] }
]
const nightly = (cron = '0 3 * * *', id = 'nightly'): Workflows[number] => ({
  id,
  schedule: { cron, timezone: 'Europe/Berlin' },
  steps: [{ id: 'write', type: 'database', operation: 'insert', table: 'notes', data: { title: 'of {{tenant.id}}' } }]
})

/** Two servers that start workflows only at the times that a test sets. */
const idle: TestDocument = { tables, workflows, queue: { workers: 0 } }

async function runsOf (app: FastifyInstance, tenant = ''): Promise<string[]> {
  const { rows } = await app.db.executeQuery<{ workflow: string }>(
    CompiledQuery.raw('select workflow from tenantry.workflow_runs where tenant_id = $1 order by created_at', [tenant])
  )
  return rows.map(({ workflow }) => workflow)
}

async function endRuns (app: FastifyInstance): Promise<void> {
  await app.db.executeQuery(CompiledQuery.raw("update tenantry.workflow_runs set status = 'completed'"))
}

async function save (app: FastifyInstance, tenant: string, own: Workflows) {
  const response = await app.inject({
    method: 'POST',
    url: '/tenant/config',
    headers: bearer({ role: 'admin', tenant_id: tenant }),
    payload: { workflows: own }
  })
  return { status: response.statusCode, body: response.json() }
}

const minute = 60_000
/** A time of the fake clock, after every time of the servers' own clock. */
const start = Math.ceil(Date.now() / (1440 * minute) + 2) * 1440 * minute
const at = (minutes: number): Date => new Date(start + minutes * minute)

/** As if the schedules had been saved at this time. */
async function setClock (app: FastifyInstance, time: Date): Promise<void> {
  await app.db.executeQuery(CompiledQuery.raw('update tenantry.workflow_schedules set next_at = $1', [time]))
}

test('schedules of two servers', async (t) => {
  const [first, second] = await testServers(t, idle, {
    engine: await postgresSection(t),
    tenants: ['acme', 'globex']
  })
  await first.workflows.startDue(new Date(0))
  await second.workflows.startDue(new Date(0))
  /** Both check at the same time, twice. */
  const look = async (time: Date): Promise<number> => {
    const started = await Promise.all([first, second, first, second].map((app) => app.workflows.startDue(time)))
    return started.reduce((sum, count) => sum + count, 0)
  }

  await t.test('each time has exactly one run', async (t) => {
    await setClock(first, at(0))
    t.equal(await look(at(-1)), 0, 'before its time')
    for (let index = 0; index < 10; index++) {
      t.equal(await look(at(index * 10)), 1, `at ${index * 10}`)
      t.equal(await look(at(index * 10 + 9)), 0, `until ${index * 10 + 9}`)
      await endRuns(first)
    }
    t.strictSame(await runsOf(first), Array.from({ length: 10 }, () => 'tick'))
  })

  await t.test('times that passed without a running server get one run together', async (t) => {
    t.equal(await look(at(1000)), 1)
    await endRuns(first)
    t.equal(await look(at(1009)), 0)
    t.equal(await look(at(1010)), 1, 'and then the schedule continues as before')
  })

  await t.test('a time is skipped while the previous run has not ended', async (t) => {
    t.equal(await look(at(1020)), 0)
    t.equal(await look(at(1030)), 0)
    await endRuns(first)
    t.equal(await look(at(1035)), 0, 'a skipped time does not come back')
    t.equal(await look(at(1040)), 1)
    await endRuns(first)
  })

  await t.test("a tenant's scheduled workflows run in its scope, by its document", async (t) => {
    t.equal((await save(first, 'acme', [nightly()])).status, 200)
    t.equal((await save(first, 'globex', [nightly(), nightly('30 3 * * *', 'later')])).status, 200)
    await setClock(first, at(2000))
    t.equal(await look(at(2000)), 4)
    t.strictSame([await runsOf(first, 'acme'), (await runsOf(first, 'globex')).sort()], [['nightly'], ['later', 'nightly']])
    const { rows } = await first.db.executeQuery<{ tenant_id: string, next_at: Date }>(
      CompiledQuery.raw("select tenant_id, next_at from tenantry.workflow_schedules where workflow = 'nightly'", [])
    )
    t.ok(rows.length > 0)
    for (const { next_at: next } of rows) t.equal(next.toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin' }), '03:00:00')
    await endRuns(first)
  })

  await t.test('a document that is saved again keeps the times of unchanged schedules', async (t) => {
    const times = async () =>
      (await first.db.executeQuery<{ workflow: string, next_at: Date }>(
        CompiledQuery.raw("select workflow, next_at from tenantry.workflow_schedules where tenant_id = 'globex' order by workflow", [])
      )).rows
    await setClock(first, at(3000))
    await save(second, 'globex', [nightly('0 4 * * *'), nightly('30 3 * * *', 'later')])
    const [later, changed] = await times()
    t.strictSame(later?.next_at, at(3000))
    t.not(changed?.next_at.getTime(), at(3000).getTime())
    await save(second, 'globex', [nightly('0 4 * * *')])
    t.strictSame((await times()).map(({ workflow }) => workflow), ['nightly'])
    await save(second, 'globex', [])
    t.strictSame(await times(), [])
  })

  await t.test('a suspended tenant has no runs', async (t) => {
    const update = async (status: 'active' | 'suspended') => {
      await first.tenants.update('acme', { status })
      await until('the other server is notified', async () => (await second.tenants.get('acme'))?.status === status)
    }
    await update('suspended')
    await setClock(first, at(4000))
    t.equal(await look(at(4000)), 1, "only the platform's")
    t.strictSame(await runsOf(first, 'acme'), ['nightly'])
    await update('active')
    await endRuns(first)
  })

  await t.test("a tenant's schedules are bounded", async (t) => {
    const refused = async (own: Workflows) => (await save(first, 'acme', own)).body.details
    t.match(await refused([nightly('*/4 * * * *')]), [{
      path: '/workflows/0/schedule/cron',
      message: 'runs of a tenant must be at least 5 minutes apart, but these are 4'
    }])
    t.match(await refused([nightly('0,58 * * * *')]), [{
      path: '/workflows/0/schedule/cron',
      message: 'runs of a tenant must be at least 5 minutes apart, but these are 2'
    }])
    t.match(await refused(Array.from({ length: 22 }, (_, index) => nightly('0 0 * * *', `w${index}`))), [{
      path: '/workflows/20/schedule',
      message: 'a document can have at most 20 workflows with a schedule'
    }])
    t.match(await refused([nightly('* * * * * *')]), [{ path: '/workflows/0/schedule/cron' }])
    t.match(await refused([{ ...nightly(), schedule: { cron: '0 0 * * *', timezone: 'Mars/Olympus' } }]), [{
      path: '/workflows/0/schedule/timezone'
    }])
  })

  await t.test('times of five hundred tenants whose documents cannot be read do not delay those of others', async (t) => {
    await setClock(first, at(5000))
    await first.db.executeQuery(
      CompiledQuery.raw(
        "insert into tenantry.workflow_schedules (tenant_id, workflow, schedule, next_at) select 'gone-' || n % 500, 'w ' || n, 'x', $1::timestamptz from generate_series(1, 10000) n",
        [at(4500)]
      )
    )
    t.equal(await look(at(5000)), 2, "the platform's and acme's")
  })
})

test('a tenant that uses its share of the database does not delay the schedules of others', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const app = await testServer(t, idle, {
    engine: { provider: 'postgres', postgres: { connectionString, pool: { max: 5, acquireTimeoutMs: 2000 } } },
    tenants: ['acme', 'globex']
  })
  for (const tenant of ['acme', 'globex']) t.equal((await save(app, tenant, [nightly(), nightly('30 3 * * *', 'later')])).status, 200)
  await setClock(app, at(0))
  await app.workflows.startDue(at(0))
  await endRuns(app)
  await setClock(app, at(10))
  await app.db.executeQuery(CompiledQuery.raw("update tenantry.workflow_schedules set next_at = $1 where tenant_id = 'acme'", [at(5)]))
  const held = gate()
  let begun = 0
  const work = Array.from({ length: 4 }, () =>
    app.engine.transaction({ tenant: tenantRef('acme') }, async () => {
      begun++
      await held.opened
    }))
  await until('all work has begun', () => begun === work.length)
  t.equal(await app.workflows.startDue(at(10)), 3, "the platform's and those of globex")
  t.equal((await runsOf(app, 'globex')).length, 4)
  held.open()
  await Promise.all(work)
  t.equal(await app.workflows.startDue(at(10)), 2, 'the others stayed due')
})

test('processes that start the same schedules in other orders do not block each other', async (t) => {
  const app = await testServer(t, { ...idle, workflows: [] }, { engine: await postgresSection(t), tenants: ['acme', 'globex'] })
  const start = async (tenant: string, id: string) => {
    const named = await app.workflows.documents.find(tenantRef(tenant), id)
    const compiled = named?.compiled()
    if (compiled === undefined || compiled === null) throw new Error(`no workflow ${id}`)
    return () => app.workflows.startAt({ tenant: tenantRef(tenant), workflow: id, at: at(0), next: at(10) }, compiled, {})
  }
  for (const tenant of ['acme', 'globex']) await save(app, tenant, [nightly(), nightly('0 3 * * *', 'daily')])
  await setClock(app, at(0))
  const starts = [await start('globex', 'daily'), await start('acme', 'nightly'), await start('acme', 'daily')]
  let waiting: Promise<unknown> | undefined
  await app.db.transaction().execute(async (transaction) => {
    await transaction.executeQuery(
      CompiledQuery.raw("select from tenantry.workflow_schedules where (tenant_id, workflow) = ('acme', 'daily') for update")
    )
    const started = Promise.all(starts.map((each) => each()))
    started.catch(() => {})
    await untilBlocked(app.db, started)
    const unlocked = CompiledQuery.raw(
      'select tenant_id, workflow from tenantry.workflow_schedules order by tenant_id, workflow for update skip locked'
    )
    // A start that does not wait for the locked schedule may still be committing.
    await until('the schedules after the locked one are not locked', async () => (await transaction.executeQuery(unlocked)).rows.length === 4)
    waiting = started
  })
  await waiting
  t.same([await runsOf(app, 'globex'), (await runsOf(app, 'acme')).sort()], [['daily'], ['daily', 'nightly']])
})

test('a server that stops starts no more due schedules', async (t) => {
  const own = ['first', 'second'].map((id) => ({ ...workflows[0]!, id }))
  const app = await testServer(t, { tables, workflows: own, queue: { workers: 1 } }, { engine: await postgresSection(t) })
  await app.workflows.startDue(new Date(0))
  await setClock(app, at(0))
  let starting: Promise<number> | undefined
  let closed: Promise<unknown> | undefined
  await app.db.transaction().execute(async (transaction) => {
    await transaction.executeQuery(CompiledQuery.raw("select from tenantry.workflow_schedules where workflow = 'first' for update"))
    const check = app.workflows.startDue(at(0))
    // The plugins stay open for the check.
    app.stopping.until(check.then(() => {}))
    await untilBlocked(app.db, check)
    closed = app.close()
    await until('the server stops', () => app.stopping.signal.aborted)
    starting = check
  })
  t.equal(await starting, 1, 'the one that has begun')
  await closed
})

test('a schedule that would not move on starts no run', async (t) => {
  const app = await testServer(t, { ...idle, workflows: [] }, { engine: await postgresSection(t), tenants: ['acme'] })
  await save(app, 'acme', [nightly()])
  await setClock(app, at(10))
  const compiled = (await app.workflows.documents.find(tenantRef('acme'), 'nightly'))?.compiled() ?? null
  if (compiled === null) throw new Error('no workflow')
  for (const next of [at(0), at(10)]) {
    const started = app.workflows.startAt({ tenant: tenantRef('acme'), workflow: 'nightly', at: at(10), next }, compiled, {})
    await t.rejects(started, /must be later/)
  }
  t.strictSame(await runsOf(app, 'acme'), [])
})

test('of two processes that start after a time has passed, one runs the workflow to its end', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const app = await testServer(t, idle, { engine })
  await app.workflows.startDue(new Date(0))
  await query("update tenantry.workflow_schedules set next_at = now() - interval '3 hours'")
  await app.close()
  const instances = await startInstances(t, { tables, workflows }, engine)
  await until('the run', async () => (await query('select title from ticks')).length > 0)
  for (const instance of instances) await instance.stop()
  t.strictSame(await query('select title from ticks'), [{ title: 'ten' }])
  t.strictSame(await query('select status, user_id from tenantry.workflow_runs'), [{ status: 'completed', user_id: null }])
})

test('a platform schedule that cannot run is a fault of the document', async (t) => {
  const cases: [Workflows[number], string][] = [
    [
      nightly(),
      '/workflows/0/schedule: a scheduled run has no tenant here, but the workflow uses rows of tenants: move the schedule to the documents of tenants'
    ],
    [
      { ...workflows[0]!, schedule: { cron: '0 0 * *' } },
      '/workflows/0/schedule/cron: expected five fields, such as `30 6 * * 1-5`'
    ],
    [
      { ...workflows[0]!, schedule: { cron: '0 0 30 2 *' } },
      '/workflows/0/schedule/cron: the date never occurs: the workflow would never run'
    ],
    [
      { ...workflows[0]!, schedule: { cron: '0 0 * * *', timezone: 'Berlin' } },
      '/workflows/0/schedule/timezone: there is no time zone "Berlin": expected a name such as "Europe/Berlin"'
    ]
  ]
  for (const [workflow, expected] of cases) await faultOf(t, workflow, expected)
})

async function faultOf (t: Test, workflow: Workflows[number], expected: string): Promise<void> {
  const error: unknown = await testServer(t, { tables, workflows: [workflow] }).then(() => undefined, (reason: unknown) => reason)
  t.equal(error instanceof ConfigError ? formatFault(error.faults[0]!) : String(error), expected)
}
