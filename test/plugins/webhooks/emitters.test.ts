import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { builtInPlans } from '../../../lib/plans/plans.js'
import { optional } from '../../../lib/plugin/define.js'
import type { ProviderEvent, Snapshot } from '../../../plugins/billing/providers/provider.js'
import { createNotices } from '../../../plugins/usage/notices.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { missSuccession } from '../../helpers/succession.js'
import { until } from '../../helpers/until.js'

/** Events are written, and not sent. */
const document: TestDocument = {
  queue: { workers: 0 },
  webhooks: [{ name: 'all', url: 'https://example.com/hook', events: ['secret.*', 'subscription.*', 'usage.*'] }]
}

interface Told {
  readonly type: string
  readonly subject: string
  readonly data: Record<string, unknown>
}

async function toldOf (app: FastifyInstance, tenant: string): Promise<Told[]> {
  const rows = await app.db.selectFrom('tenantry.webhook_events').select(['type', 'subject', 'data']).where('tenant_id', '=', tenant)
    .orderBy('place').execute()
  return rows.map(({ type, subject, data }) => ({ type, subject, data: Object(data) }))
}

t.test('events of tenants are written in the transaction of the change', async (t) => {
  await forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, document, { engine, tenants: ['free', { id: 'pro', plan: 'pro' }, 'billed', 'used', 'months'] })
    await t.test("a secret's rotation writes an event", (t) => rotated(t, app))
    await t.test("a subscription's start, change and end write events", (t) => subscribed(t, app))
    await t.test('a reached limit writes one event', (t) => reached(t, app))
    await t.test('a reached limit writes another event in the next period', (t) => again(t, app))
    await t.test('a limit that a deleted tenant reached is announced for a later tenant with its id', () => reachedAnew(app))
  })
})

async function rotated (t: Test, app: FastifyInstance): Promise<void> {
  for (const tenant of ['free', 'pro']) await app.secrets.put(tenant, { key: 'K', value: 'the first value' }, noActor)
  t.strictSame(await toldOf(app, 'pro'), [], 'storing a value is not a rotation')
  await app.secrets.rotate('pro', { key: 'K', newValue: 'the second value', gracePeriodDays: 1 }, noActor)
  t.strictSame(
    await toldOf(app, 'pro'),
    [{ type: 'secret.rotated', subject: 'secret:K', data: { key: 'K' } }],
    'the key, and nothing of the value'
  )
  await t.rejects(app.secrets.rotate('pro', { key: 'L', newValue: 'x', gracePeriodDays: 1 }, noActor), { code: 'TENANTRY_NOT_FOUND' })
  await t.rejects(app.secrets.rotate('free', { key: 'K', newValue: 'x', gracePeriodDays: 1 }, noActor), { code: 'TENANTRY_PLAN_LIMIT' })
  t.strictSame(await toldOf(app, 'free'), [], 'a rejected rotation')
  t.equal((await toldOf(app, 'pro')).length, 1)
}

async function subscribed (t: Test, app: FastifyInstance): Promise<void> {
  const day = 86_400_000
  const from = new Date(Date.now() - 3_600_000)
  let events = 0
  const tell = async (changed: Partial<Snapshot>, id = `e-${++events}`) => {
    const at = new Date(from.getTime() + events * 1000)
    const snapshot: Snapshot = {
      id: 's-1',
      tenant: tenantRef('billed'),
      customerId: 'c-1',
      productIds: ['p-1'],
      status: 'active',
      startedAt: from,
      periodStart: from,
      periodEnd: new Date(from.getTime() + 30 * day),
      cancelAtPeriodEnd: false,
      endedAt: null,
      pastDueSince: null,
      paymentMethod: 'card',
      asOf: at,
      ...changed
    }
    const event: ProviderEvent = { id, type: 'subscription.updated', at, tenant: tenantRef('billed'), subscriptionId: 's-1', snapshot, payment: null }
    return await app.billing.receive('payprov', event)
  }
  const kinds = async () => (await toldOf(app, 'billed')).map(({ type, data }) => `${type} ${String(data['status'])}`)
  await tell({})
  t.match(await toldOf(app, 'billed'), [{
    type: 'subscription.created',
    subject: 'subscription:payprov:s-1',
    data: { provider: 'payprov', id: 's-1', status: 'active', cancelAtPeriodEnd: false }
  }])
  t.equal(await tell({}, 'e-1'), 'duplicate')
  await tell({})
  t.strictSame(await kinds(), ['subscription.created active'], 'an update without a change writes no event')
  await tell({ cancelAtPeriodEnd: true })
  await tell({ status: 'canceled', endedAt: new Date() })
  await tell({ status: 'canceled', endedAt: new Date() }, 'e-3')
  t.strictSame(await kinds(), ['subscription.created active', 'subscription.updated active', 'subscription.canceled canceled'])
  t.strictSame(await toldOf(app, ''), [], 'the platform has no subscription of its own')
}

async function reached (t: Test, app: FastifyInstance): Promise<void> {
  const used = await app.usage.reserve('used', 'llm_tokens', 100_000)
  const refusals = await Promise.allSettled(Array.from({ length: 20 }, () => app.usage.reserve('used', 'llm_tokens', 1)))
  t.ok(refusals.every(({ status }) => status === 'rejected'))
  await until('the limit is announced', async () => (await toldOf(app, 'used')).length > 0)
  await t.rejects(app.usage.reserve('used', 'llm_tokens', 1), { code: 'TENANTRY_PLAN_LIMIT' })
  const period = new Date().toISOString().slice(0, 7)
  t.strictSame(await toldOf(app, 'used'), [{
    type: 'usage.limit_reached',
    subject: 'usage:llm_tokens',
    data: { metric: 'llm_tokens', period, plan: 'free', limit: 100_000, upgrade: { plan: 'pro', limit: 10_000_000 } }
  }])
  await used.release()
  for (let open = 0; open < 10; open++) await app.usage.take('used', 'connections')
  await t.rejects(app.usage.take('used', 'connections'), { code: 'TENANTRY_PLAN_LIMIT' })
  await until(
    'the connection limit is announced',
    async () => (await toldOf(app, 'used')).some(({ data }) => data['metric'] === 'connections')
  )
  t.equal((await toldOf(app, 'used')).length, 2)
}

async function reachedAnew (app: FastifyInstance): Promise<void> {
  for (const tenant of ['The first', 'The second']) {
    await app.tenants.create({ id: 'anew', name: tenant, plan: 'free' })
    await app.usage.reserve('anew', 'llm_tokens', 100_000)
    await app.usage.reserve('anew', 'llm_tokens', 1).catch(() => {})
    await until(`the limit of ${tenant} is announced`, async () => (await toldOf(app, 'anew')).length === 1)
    await app.tenants.delete('anew')
    await until('its events are gone', async () => (await toldOf(app, 'anew')).length === 0)
  }
}

t.test('a limit is announced for a later tenant, also by a server that missed the deletion of an earlier one with its id', async (t) => {
  const app = await testServer(t, document, { engine: await postgresSection(t), tenants: ['acme'] })
  const refused = () => t.rejects(app.usage.reserve('acme', 'llm_tokens', 100_001), { code: 'TENANTRY_PLAN_LIMIT' })
  const isAnnounced = async () => (await toldOf(app, 'acme')).length === 1
  await refused()
  await until('the limit of the earlier tenant is announced', isAnnounced)
  await sql`delete from tenantry.usage_notices`.execute(app.db)
  await sql`delete from tenantry.webhook_events`.execute(app.db)
  await missSuccession(app, 'acme')
  await refused()
  await until('the limit of the later tenant is announced', isAnnounced)
})

async function again (t: Test, app: FastifyInstance): Promise<void> {
  let time = Date.UTC(2026, 0, 31, 23, 59, 59)
  const plan = builtInPlans.of('free')
  // Each with its own memory, like two processes.
  const servers = [1, 2].map(() => createNotices(app, optional(app, 'webhooks'), builtInPlans, () => time))
  const tell = async () => {
    for (const server of servers) {
      server.reached(tenantRef('months'), 'ai_cost', plan)
      server.reached(tenantRef('months'), 'rooms', plan)
      server.reached(tenantRef('nobody'), 'ai_cost', plan)
    }
    await Promise.all(servers.map((server) => server.close()))
    return (await toldOf(app, 'months')).map(({ data: { metric, period } }) => `${String(metric)} ${String(period)}`).sort()
  }
  t.strictSame(await tell(), ['ai_cost 2026-01', 'rooms 2026-01-31'])
  t.strictSame(await tell(), ['ai_cost 2026-01', 'rooms 2026-01-31'])
  time += 1000
  t.strictSame(await tell(), ['ai_cost 2026-01', 'ai_cost 2026-02', 'rooms 2026-01-31', 'rooms 2026-02-01'])
  const kept = async () =>
    await app.db.selectFrom('tenantry.usage_notices').select('period').where('tenant_id', '=', 'months').orderBy('period').execute()
  time += 62 * 86_400_000
  await servers[0]?.sweep()
  t.strictSame(await kept(), [{ period: '2026-02' }, { period: '2026-02-01' }], 'notes of periods that ended long ago are removed')
  t.strictSame(await toldOf(app, 'nobody'), [], 'a tenant that does not exist')
}
