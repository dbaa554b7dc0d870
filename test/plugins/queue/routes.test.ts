import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { CompiledQuery } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createServer } from '../../../lib/server.js'
import type { Handler } from '../../../plugins/queue/index.js'
import { createJobList } from '../../../plugins/queue/list.js'
import { gate } from '../../helpers/gate.js'
import { scanLog, secretText } from '../../helpers/log-scan.js'
import { type DatabaseSection, forEachEngine } from '../../helpers/postgres.js'
import { rowsRead } from '../../helpers/rows-read.js'
import { testDocument, testEnv } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'

const secret = secretText('what a tenant has in its job', 'the data of a job')
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** A server whose document has the queue's workers, with the jobs `work` and `other`. */
async function start (t: Test, engine: DatabaseSection, handler: Handler): Promise<FastifyInstance> {
  const app = createServer(testDocument({ queue: { workers: 2 }, server: { bodyLimit: 2_097_152 } }, engine), {
    env: { ...testEnv },
    logger: { level: 'trace', stream: scanLog(t, 'the log of the server') }
  })
  t.teardown(() => app.close())
  app.register(async () => {
    app.queue.define('work', { retryLimit: 0 }, handler)
    app.queue.define('other', {}, async () => {})
  })
  await app.ready()
  for (const id of ['acme', 'globex']) await app.tenants.create({ id, name: id, plan: 'free' })
  return app
}

async function served (t: Test, engine: DatabaseSection): Promise<void> {
  let handle: Handler = async () => {}
  const app = await start(t, engine, (job) => handle(job))
  const admin = caller(t, app, { token: signToken({ role: 'admin', sub: 'ops' }) })
  const run = async (text: string, ...values: unknown[]) =>
    (await app.db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, values))).rows
  const send = async (body: object) => String((await admin('POST /queue/jobs', { body })).body['id'])
  const jobOf = async (id: string) => (await admin(`GET /queue/jobs/${id}`)).body
  const ended = (id: string, state: string) => until(`it is ${state}`, async () => (await jobOf(id))['state'] === state)
  const entriesOfQueue = async () =>
    await run(
      "select tenant_id, action, user_id, target, details from tenantry.audit_log where action like 'queue.%' order by created_at, id"
    )

  await t.test("platform administrators send jobs, and see them with a tenant's data", async (t) => {
    const seen: unknown[] = []
    handle = async ({ tenant, data }) => {
      seen.push([tenant, data])
    }
    const id = await send({ name: 'work', data: { secret, n: 1 }, options: { tenant: 'acme', priority: -5, key: 'k' } })
    await ended(id, 'completed')
    t.same(seen, [['acme', { secret, n: 1 }]])
    const job = await jobOf(id)
    t.match(job, {
      id,
      name: 'work',
      tenant: 'acme',
      state: 'completed',
      priority: -5,
      key: 'k',
      attempts: 1,
      retryLimit: 0,
      createdAt: time,
      startAfter: time,
      startedAt: time,
      endedAt: time,
      error: null,
      data: { secret, n: 1 }
    })
    const platform = await send({ name: 'other' })
    await ended(platform, 'completed')
    const { tenant, data, key } = await jobOf(platform)
    t.strictSame({ tenant, data, key }, { tenant: null, data: {}, key: null })
    const listed = await admin('GET /queue/jobs?state=completed&name=work')
    t.match(listed.body, { data: [{ id }], pagination: { limit: 20, offset: 0, total: 1 } })
    t.ok((await admin('GET /queue/jobs')).body.data?.some((job) => job['id'] === platform))
    t.notMatch(listed.text, secret, 'a list contains no data')
    t.same(Object.keys(listed.body.data?.[0] ?? {}).sort(), Object.keys(job).filter((name) => name !== 'data').sort())
  })

  await t.test('a waiting job can be cancelled and retried', async (t) => {
    handle = async () => {}
    const body = { name: 'work', options: { tenant: 'acme', delay: 3600, key: 'later' } }
    const id = await send(body)
    refused(t, await admin('POST /queue/jobs', { body }), 409, 'STATE_CONFLICT')
    t.match(await jobOf(id), { state: 'created', attempts: 0, startedAt: null, endedAt: null })
    refused(t, await admin(`POST /queue/jobs/${id}/retry`), 409, 'STATE_CONFLICT')
    t.match(await admin(`DELETE /queue/jobs/${id}`), { status: 200, body: { success: true } })
    t.match(await jobOf(id), { state: 'cancelled', endedAt: time })
    t.match(refusedBody(await admin(`DELETE /queue/jobs/${id}`)), { code: 'TENANTRY_STATE_CONFLICT', state: 'cancelled' })
    t.match(await admin(`POST /queue/jobs/${id}/retry`), { status: 200, body: { success: true } }, 'it is due at once')
    await ended(id, 'completed')
    refused(t, await admin(`POST /queue/jobs/${id}/retry`), 409, 'STATE_CONFLICT')
    refused(t, await admin(`DELETE /queue/jobs/${id}`), 409, 'STATE_CONFLICT')
  })

  await t.test('a job that finally failed is a dead letter until it is retried', async (t) => {
    handle = async () => {
      throw new TypeError(`no: ${secret}`)
    }
    const id = await send({ name: 'work', data: { secret }, options: { tenant: 'globex' } })
    await ended(id, 'failed')
    t.match((await admin('GET /queue/jobs?state=failed')).body, {
      data: [{ id, attempts: 1, error: { name: 'TypeError', message: `no: ${secret}` } }],
      pagination: { total: 1 }
    })
    const attempts: number[] = []
    handle = async ({ attempt }) => {
      attempts.push(attempt)
      if (attempts.length === 1) throw new Error('again')
    }
    for (const state of ['failed', 'completed']) {
      t.equal((await admin(`POST /queue/jobs/${id}/retry`, { body: {} })).status, 200)
      await ended(id, state)
    }
    t.same(attempts, [2, 3], 'each time once, and as another attempt')
    t.match(await jobOf(id), { error: null, attempts: 3 })
  })

  await t.test('a running job can be cancelled, and its result is then ignored', async (t) => {
    const door = gate()
    let begun = false
    handle = async () => {
      begun = true
      await door.opened
    }
    const id = await send({ name: 'work' })
    await until('it runs', () => begun)
    t.equal((await admin(`DELETE /queue/jobs/${id}`)).status, 200)
    door.open()
    await ended(await send({ name: 'work' }), 'completed')
    t.match(await jobOf(id), { state: 'cancelled' })
  })

  await t.test("changes are in the platform's audit log", async (t) => {
    const entries = await entriesOfQueue()
    t.same(
      entries.map(({ action }) => action),
      ['add', 'add', 'add', 'cancel', 'retry', 'add', 'retry', 'retry', 'add', 'cancel', 'add'].map((action) => `queue.job.${action}`)
    )
    t.ok(entries.every(({ tenant_id: tenant, user_id: user }) => tenant === '' && user === 'ops'))
    t.match(entries[0], { details: { name: 'work', tenant: 'acme' } })
    t.notMatch(JSON.stringify(entries), secret)
  })

  await t.test('faults of the input are reported', async (t) => {
    const isRefused = async (body: unknown, path: string, message: RegExp) => {
      const { status, body: { details } } = await admin('POST /queue/jobs', { body })
      t.match({ status, detail: details?.[0] }, { status: 400, detail: { path, message } }, JSON.stringify(body).slice(0, 100))
    }
    await isRefused({}, '/body/name', /required/)
    await isRefused({ name: 'unheard' }, '/body/name', /must be one of .*other/)
    await isRefused({ name: 'No Name' }, '/body/name', /1 to 64/)
    for (const data of [[], 1, null, 'x']) await isRefused({ name: 'work', data }, '/body/data', /must be an object/)
    await isRefused({ name: 'work', data: { n: 'x'.repeat(1_048_577 - '{"n":""}'.length) } }, '/body/data', /at most 1048576/)
    for (const priority of [1001, -1001, 0.5, '1', 2 ** 53]) {
      await isRefused({ name: 'work', options: { priority } }, '/body/options/priority', /must be/)
    }
    for (const delay of [-1, 31_536_001, 1e308]) await isRefused({ name: 'work', options: { delay } }, '/body/options/delay', /must be at/)
    for (const key of ['', 'k'.repeat(256)]) await isRefused({ name: 'work', options: { key } }, '/body/options/key', /must have/)
    await isRefused({ name: 'work', options: { tenant: "a' or true" } }, '/body/options/tenant', /the id of a tenant/)
    await isRefused({ name: 'work', options: { retryLimit: 1 } }, '/body/options/retryLimit', /not a known field/)
    for (const key of ['\0', '\ud800']) {
      refused(t, await admin('POST /queue/jobs', { body: { name: 'work', options: { key } } }), 400, 'INVALID_VALUE')
    }
    refused(t, await admin('POST /queue/jobs', { body: { name: 'work', data: { nul: '\0' } } }), 400, 'INVALID_VALUE')
    refused(t, await admin('POST /queue/jobs', { body: { name: 'work', options: { tenant: 'nobody' } } }), 404, 'TENANT_UNKNOWN')
    for (
      const query of ['state=done', 'state=', 'name=A', 'tenant=a%27', 'limit=0', 'limit=x', 'offset=-1', 'offset=10001', 'order=name']
    ) {
      t.equal((await admin(`GET /queue/jobs?${query}`)).status, 400, query)
    }
    for (const target of ['GET /queue/jobs/1', 'DELETE /queue/jobs/x', 'POST /queue/jobs/1/retry']) {
      t.equal((await admin(target)).status, 400, target)
    }
    for (const target of ['GET /queue/jobs/', 'DELETE /queue/jobs/', 'POST /queue/jobs/']) {
      refused(t, await admin(`${target}${randomUUID()}${target.startsWith('POST') ? '/retry' : ''}`), 404, 'NOT_FOUND')
    }
    t.equal((await entriesOfQueue()).length, 11, 'nothing of it is in the log')
  })

  await t.test('other callers are rejected before their requests are validated', async (t) => {
    const id = randomUUID()
    const callers = {
      stranger: [caller(t, app), 401],
      user: [caller(t, app, { token: signToken({ tenant_id: 'acme' }) }), 403],
      "tenant's administrator": [caller(t, app, { token: signToken({ tenant_id: 'acme', role: 'admin' }) }), 403],
      'user without a tenant': [caller(t, app, { token: signToken({}) }), 403]
    } as const
    for (const [who, [ask, status]] of Object.entries(callers)) {
      for (
        const target of [
          'GET /queue/stats',
          'GET /queue/jobs?limit=x',
          'POST /queue/jobs',
          `GET /queue/jobs/${id}`,
          'DELETE /queue/jobs/x',
          `POST /queue/jobs/${id}/retry`
        ]
      ) {
        t.equal((await ask(target, target.startsWith('POST') ? { body: { name: 7 } } : {})).status, status, `${who}: ${target}`)
      }
    }
  })

  if (engine.provider !== 'postgres') return
  await t.test('lists can be filtered, and are cheap with 100,000 jobs', async (t) => {
    await run('delete from tenantry_queue.job')
    // Younger than the ended jobs that a sweep removes.
    await run(`insert into tenantry_queue.job (name, data, state, created_on, start_after, started_on, completed_on)
      select 'jobs', json_build_object('tenant', case when n % 4 = 0 then 'acme' else 'globex' end, 'task', case when n % 10 = 0 then 'rare.' || n % 3 else 'many' end, 'data', '{}'::json),
        case when n % 1000 = 7 then 'failed' when n % 2 = 0 then 'completed' else 'created' end::tenantry_queue.job_state, at, now() + interval '1 hour', at, at
      from (select n, now() - n * interval '0.5 seconds' as at from generate_series(1, 100000) n) numbers`)
    await run('analyze tenantry_queue.job')
    const numbers = async (query: string) => {
      const { body } = await admin(`GET /queue/jobs?${query}`)
      return { total: Number(Object(body['pagination']).total), data: body.data ?? [] }
    }
    const all = await numbers('limit=500')
    t.equal(all.data.length, 100, 'a page has at most 100')
    t.equal(all.total, 10_000, 'the count is bounded')
    t.same(all.data.map(({ createdAt }) => createdAt), all.data.map(({ createdAt }) => createdAt).sort().reverse(), 'the newest come first')
    const second = await numbers('limit=50&offset=50')
    t.same(second.data, all.data.slice(50))
    t.equal((await numbers('state=failed')).total, 100)
    t.equal((await numbers('state=failed&tenant=acme')).total, 0)
    t.equal((await numbers('state=failed&tenant=globex&name=many')).total, 100)
    t.equal((await numbers('name=rare.1')).total, 3334)
    const rare = await numbers('name=rare.1&tenant=acme&state=completed&limit=10')
    t.equal(rare.total, 1667)
    t.equal(rare.data.length, 10)
    t.ok(rare.data.every(({ name, tenant, state }) => name === 'rare.1' && tenant === 'acme' && state === 'completed'))
    t.same(await numbers('tenant=nobody'), { total: 0, data: [] })
    t.equal((await numbers('offset=10000&limit=1')).data.length, 1)
    const tenant = tenantRef('globex')
    for (const filter of [{}, { state: 'retry' }, { state: 'cancelled', tenant }, { tenant }] as const) {
      const rows = await rowsRead(app.db, (db) => createJobList(db).page(filter, { limit: 20, offset: 0 }))
      t.ok(rows < 30_000, `${rows} rows of ${JSON.stringify(filter)}`)
    }
    const { body } = await admin('GET /queue/stats')
    t.match(body, {
      names: [
        { name: 'many', states: { created: 49_900, failed: 100, completed: 40_000, active: 0, retry: 0, cancelled: 0 } },
        { name: 'rare.0' },
        { name: 'rare.1' },
        { name: 'rare.2' }
      ]
    })
    t.equal(body['oldestWaiting'], null, 'a delayed job does not count as waiting')
    await run(
      "update tenantry_queue.job set start_after = created_on where state = 'created' and created_on < now() - interval '49995 seconds'"
    )
    const oldest = Number((await admin('GET /queue/stats')).body['oldestWaiting'])
    t.ok(oldest >= 49_995 && oldest < 51_000, `${oldest} s`)
    // The rows that the database reads for a page, whose number does not grow with the jobs. The policies apply.
    const rolledBack = app.db.transaction().execute(async (transaction) => {
      for (
        const statement of [
          'create role queue_reader', 'grant usage on schema tenantry_queue to queue_reader',
          'grant select on tenantry_queue.job to queue_reader', 'set local role queue_reader'
        ]
      ) await transaction.executeQuery(CompiledQuery.raw(statement))
      for (
        const [condition, index] of [
          ["task = 'many' and state = 'failed'", 'job_failed_of_task'], ["tenant_id = 'acme' and state = 'completed'", 'job_completed_of_tenant'],
          ["tenant_id = 'globex' and state = 'created'", 'job_created_of_tenant'], ["task = 'many' and state = 'retry'", 'job_retry_of_task']
        ]
      ) {
        const page = `explain (format json) select id from tenantry_queue.job where ${condition} order by created_on desc, id desc limit 20`
        const plan = JSON.stringify((await transaction.executeQuery(CompiledQuery.raw(page))).rows)
        t.match(plan, index)
        t.notMatch(plan, 'Sort')
      }
      throw new Error('rolled back')
    })
    await t.rejects(rolledBack, { message: 'rolled back' })
  })
}

function refusedBody ({ body }: { body: Record<string, unknown> }): Record<string, unknown> {
  return body
}

test('the endpoints of the queue', (t) => forEachEngine(t, served))
