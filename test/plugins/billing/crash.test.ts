/**
 * A server that is killed between the receipt and the commit of a webhook: no part of the event is stored, and its redelivery is processed
 * once.
 */
import pg from 'pg'
import { test } from 'tap'
import type { SignedEvent } from '../../helpers/payment-world.js'
import { payprovWorld } from '../../helpers/payprov/index.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { startProgram } from '../../helpers/program.js'
import { testDocument, testEnv } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { remoteCaller } from '../../http/caller.js'
import { envOf, paths, sellAll } from './app.js'

test('a webhook is processed exactly once despite a kill -9 before or after its commit', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const world = await payprovWorld(t, { now: Date.now() })
  const sales = sellAll(world)
  const document = testDocument({}, { provider: 'postgres', postgres: { connectionString } })
  const env = { ...testEnv, ...envOf('payprov', world, sales), TEST_DOCUMENT: JSON.stringify(document) }
  const start = () => startProgram(t, 'test/programs/server.ts', env)
  const send = async (origin: string, { headers, body }: SignedEvent) => {
    const response = await fetch(origin + paths.payprov, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: new Uint8Array(body)
    })
    return { status: response.status, body: await response.text() }
  }
  const state = async () => ({
    plan: (await query("select plan from tenantry.tenants where id = 'acme'"))[0]?.['plan'],
    events: (await query('select id from tenantry.billing_events')).length,
    subscriptions: (await query('select id from tenantry.billing_subscriptions')).length,
    audit: (await query("select action from tenantry.audit_log where action like 'billing.%' order by id")).map(({ action }) => action)
  })
  const nothing = { plan: 'free', events: 0, subscriptions: 0, audit: [] }
  const once = { plan: 'pro', events: 1, subscriptions: 1, audit: ['billing.subscription', 'billing.plan'] }

  const first = await start()
  const token = signToken({ role: 'admin', tenant_id: 'acme' })
  t.match(await remoteCaller(t, first.address, { token })('GET /billing/subscription'), {
    status: 200,
    body: { subscription: { plan: 'free' } }
  })
  const subscription = world.subscribe('acme', sales.pro_monthly)
  const event = world.event('created', subscription)

  // Holding a lock on the tenants' plans blocks the transaction before its last statements, after everything else was written.
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  await holder.query('begin; lock table tenantry.audit_log in access exclusive mode')
  const cut = send(first.address, event).catch((error: unknown) => ({ status: 0, body: String(error) }))
  await until(
    'the webhook waits within its transaction',
    async () =>
      (await query(
        "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%audit_log%'"
      )).length > 0
  )
  t.equal(await first.stop('SIGKILL'), null)
  t.equal((await cut).status, 0, 'the provider got no response')
  await holder.query('commit')
  await until(
    "the killed server's transaction is rolled back",
    async () =>
      (await query(
        "select 1 from pg_stat_activity where datname = current_database() and query like '%audit_log%' and state <> 'idle' and pid <> pg_backend_pid()"
      )).length === 0
  )
  t.strictSame(await state(), nothing, 'nothing is half-done')

  const second = await start()
  t.strictSame(await send(second.address, event), { status: 200, body: '{"received":true}' })
  t.strictSame(await state(), once, 'the redelivery completes it')

  // Committed, but killed before the response: for the provider this looks the same.
  t.equal(await second.stop('SIGKILL'), null)
  const third = await start()
  t.strictSame(await Promise.all([send(third.address, event), send(third.address, event)]), [{ status: 200, body: '{"received":true}' }, {
    status: 200,
    body: '{"received":true}'
  }])
  t.strictSame(await state(), once, 'once')
  t.match(await remoteCaller(t, third.address, { token })('GET /tenant/info'), { status: 200, body: { plan: 'pro' } })
})
