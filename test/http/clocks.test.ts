import { createHmac } from 'node:crypto'
import { sql } from 'kysely'
import { test } from 'tap'
import { gate } from '../helpers/gate.js'
import { clockAhead, startInstance } from '../helpers/instances.js'
import { secretText } from '../helpers/log-scan.js'
import { allowLongCalls } from '../helpers/long-calls.js'
import { payprovWorld } from '../helpers/payprov/index.js'
import { postgresSection } from '../helpers/postgres.js'
import { remote } from '../helpers/remote.js'
import { type TestDocument, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { envOf, sellAll } from '../plugins/billing/app.js'
import { caller, refused, remoteCaller } from './caller.js'

const secret = secretText('the secret of a webhook', 'a signing secret')

const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const
const tables: TestDocument['tables'] = { notes: { tenantScoped: true, columns: { id } }, settings: { columns: { id } } }

const documentOf = (baseUrl: string): TestDocument => ({
  customIntegrations: [{ name: 'service', baseUrl, actions: { call: { method: 'POST', path: '/' } } }],
  routes: [
    { path: '/calls', method: 'post', integrations: [{ type: 'service', action: 'call', params: {} }] },
    {
      path: '/hook',
      method: 'post',
      webhook: { provider: 'custom', header: 'x-signature', secret: '{{env.HOOK}}' },
      integrations: [{ type: 'service', action: 'call', params: {} }]
    }
  ]
})

test('a server whose clock is five minutes ahead repeats nothing that another server is doing', async (t) => {
  const { opened, open } = gate()
  const service = await remote(t, async (_request, response) => {
    if (service.requests.length <= 2) await opened
    response.setHeader('content-type', 'application/json').end('{"done":true}')
  })
  const document = documentOf(service.origin)
  const engine = await postgresSection(t)
  const env = { HOOK: secret }
  const app = await testServer(t, document, { engine, env, tenants: ['acme'] })
  allowLongCalls(t, app)
  const ahead = await startInstance(t, document, engine, { ...env, ...clockAhead })
  const token = signToken({ tenant_id: 'acme' })
  const signature = createHmac('sha256', secret).update('{}').digest('hex')
  const [callHere, callAhead] = [caller(t, app, { token }), remoteCaller(t, ahead.address, { token })]
  const [sendHere, sendAhead] = [caller(t, app, { tenant: 'acme' }), remoteCaller(t, ahead.address, { tenant: 'acme' })]
  const keyed = { body: {}, headers: { 'idempotency-key': 'one' } }
  const signed = { body: {}, headers: { 'x-signature': signature } }

  const running = [callHere('POST /calls', keyed), sendHere('POST /hook', signed)]
  await until('both requests are running', () => service.requests.length === 2)
  const [repeated, delivered] = await Promise.all([callAhead('POST /calls', keyed), sendAhead('POST /hook', signed)])
  open()
  refused(t, repeated, 409, 'IDEMPOTENCY_RUNNING')
  refused(t, delivered, 409, 'STATE_CONFLICT')
  for (const response of await Promise.all(running)) t.equal(response.status, 200)
  t.equal(service.requests.length, 2)
})

test('a server whose clock is five minutes ahead delays no schedule, and buys no plan beside another server', async (t) => {
  const engine = await postgresSection(t)
  const world = await payprovWorld(t, { now: Date.now() })
  const env = envOf('payprov', world, sellAll(world))
  const workflow = (id: string, table: string): NonNullable<TestDocument['workflows']>[number] => ({
    id,
    schedule: { cron: '*/5 * * * *' },
    steps: [{ id: 'read', type: 'database', operation: 'select', table }]
  })
  const document: TestDocument = { tables, queue: { workers: 1 }, workflows: [workflow('platform', 'settings')] }
  const ahead = await startInstance(t, document, engine, { ...env, ...clockAhead })
  const app = await testServer(t, { ...document, queue: { workers: 0 } }, { engine, env, tenants: [{ id: 'acme', plan: 'enterprise' }] })
  const token = signToken({ role: 'admin', tenant_id: 'acme', sub: 'ada', email: 'ada@acme.example' })
  const [acme, acmeAhead] = [caller(t, app, { token }), remoteCaller(t, ahead.address, { token })]

  t.match(await acmeAhead('POST /tenant/config', { body: { workflows: [workflow('own', 'notes')] } }), { status: 200 })
  const schedules = async () => (await sql<{ isLate: boolean }>`select next_at > now() + interval '5 minutes' as "isLate" from tenantry.workflow_schedules`.execute(app.db)).rows
  await until('the schedule of the platform is stored too', async () => (await schedules()).length === 2)
  t.strictSame((await schedules()).map(({ isLate }) => isLate), [false, false])

  const plan = { body: { targetPlan: 'pro', billingCycle: 'monthly' } }
  world.forget()
  // Delays the first upgrade until the second one arrives.
  world.misfortune({ status: 429, retryAfter: 2 })
  const first = acme('POST /billing/upgrade', plan)
  await until('the first upgrade is running', () => world.calls.length > 0)
  refused(t, await acmeAhead('POST /billing/upgrade', plan), 409, 'CONFLICT')
  t.match(await first, { status: 200 })
})
