import { sql } from 'kysely'
import { test } from 'tap'
import { createPlans } from '../../../lib/plans/plans.js'
import { createUsage } from '../../../plugins/usage/service.js'
import { fakeClock } from '../../helpers/clock.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { open } from './app.js'

test('a million increments over a thousand tenants are all in the ledger after a stop', (t) =>
  forEachEngine(t, async (t, engine) => {
    // The embedded engine writes rows more slowly, so it gets fewer tenants.
    const tenants = engine.provider === 'postgres' ? 1000 : 200
    const { app } = await open(t, engine, { now: fakeClock().now })
    await sql`insert into tenantry.tenants (id, name) select 't' || i, 't' from generate_series(0, ${tenants - 1}::int) i`.execute(app.db)
    // It stops before the app's database does, so that its rows can be read.
    const service = createUsage({ engine: app.engine, tenants: app.tenants, plans: createPlans(), log: app.log, now: fakeClock().now })
    const expected = new Map<string, number>()
    for (let index = 0; index < 1_000_000; index++) {
      const tenant = `t${(index * 7919 + (index >> 9)) % tenants}`
      const amount = index % 5 === 0 ? 3 : 1
      service.record(tenant, 'api_calls', amount)
      expected.set(tenant, (expected.get(tenant) ?? 0) + amount)
      // Others write while it counts.
      if (index % 250_000 === 200_000) await service.flush()
    }
    await service.close()
    t.equal(service.waiting, 0)
    const { rows } = await sql<{ tenant_id: string, sum: number }>`select tenant_id, sum(api_calls)::float8 as sum
    from tenantry.usage_requests group by 1`.execute(app.db)
    t.equal(rows.length, tenants)
    t.equal(rows.filter(({ tenant_id: id, sum }) => expected.get(id) === sum).length, tenants, 'each is exact')
    t.equal(rows.reduce((all, { sum }) => all + sum, 0), 1_400_000)
  }))

test('memory contains only waiting figures: ten thousand tenants leave nothing behind', async (t) => {
  const { app } = await open(t, await postgresSection(t))
  await sql`insert into tenantry.tenants (id, name) select 't' || i, 't' from generate_series(1, 10000) i`.execute(app.db)
  const service = createUsage({ engine: app.engine, tenants: { get: () => null }, plans: createPlans(), log: app.log })
  const createdAt = new Date((await sql<{ at: Date }>`select created_at as at from tenantry.tenants limit 1`.execute(app.db)).rows[0]!.at)
  const tenant = (index: number) => ({ ...scopeTenant(`t${index}`), name: 't', plan: 'free', status: 'active', createdAt } as const)
  for (let round = 0; round < 3; round++) {
    for (let index = 1; index <= 10_000; index++) service.request(tenant(index), 10)
    t.equal(service.waiting, 10_000)
    await service.flush()
    t.equal(service.waiting, 0)
  }
  const { rows: [sum] } =
    await sql`select count(*)::int as rows, sum(api_calls)::float8 as calls, sum(bandwidth_bytes)::float8 as bytes from tenantry.usage_requests`
      .execute(app.db)
  t.same(sum, { rows: 10_000, calls: 30_000, bytes: 300_000 })
  service.record('nobody', 'api_calls')
  t.equal(service.waiting, 0, 'an id without a tenant takes no room')
  await service.close()
})

test('a sum that is reported stops at 2^53 - 1', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app } = await open(t, engine, { now: fakeClock(Date.parse('2026-06-10T12:00:00Z')).now, tenants: { acme: 'much' } })
    const most = Number.MAX_SAFE_INTEGER
    await sql`insert into tenantry.usage_counters (tenant_id, counter, period, amount)
      select 'acme', counter, day, ${most}::bigint
      from unnest(array['llm_tokens', 'ai_cost']) counter, unnest(array['2026-06-08', '2026-06-09']) day
      union all select 'acme', 'storage_bytes', 'total', ${most}::bigint`.execute(app.db)
    await app.usage.reserve('acme', 'storage_bytes', most)
    t.match(await app.usage.report('acme'), {
      usage: { fileStorage: { storage: { current: most } }, ai: { llmTokens: { current: most }, cost: { current: most / 1_000_000 } } }
    })
    t.match(await app.usage.summary('acme'), { llm_tokens: most, storage_bytes: most })
  }))
