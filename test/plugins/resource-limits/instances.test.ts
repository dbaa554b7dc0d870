/** Two servers, and two processes, on one database. */
import { test } from 'tap'
import { sweepUsage } from '../../../plugins/resource-limits/store.js'
import { fakeClock } from '../../helpers/clock.js'
import { startInstances } from '../../helpers/instances.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import { remoteCaller } from '../../http/caller.js'
import { open, rule, use, user } from './app.js'

test('changed rules apply on another server when it is notified, and counts apply at once', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock()
  const { app: here } = await open(t, engine, { tenants: ['acme'], ...clock })
  const { app: there } = await open(t, engine, clock)
  const limitOf = async (app: typeof here) => (await app.resourceLimits.check(user(), use())).usage.limit
  t.same(await Promise.all([limitOf(here), limitOf(there)]), [-1, -1])

  for (const [changing, other, limit] of [[here, there, 7], [there, here, 9], [here, there, 3]] as const) {
    const notified = new Promise<void>((resolve) => {
      const end = other.events.on('limits', () => {
        end()
        resolve()
      })
    })
    await changing.resourceLimits.replace('acme', [rule({ limit })])
    t.equal(await limitOf(changing), limit, 'at once where it was changed')
    await notified
    t.equal(await limitOf(other), limit, 'on the other server')
  }
  await here.resourceLimits.track(user(), use(2))
  t.match(await there.resourceLimits.check(user(), use(2)), { allowed: false, usage: { current: 2, limit: 3 } })
  const taken = await there.resourceLimits.take(user(), use())
  t.match(await here.resourceLimits.check(user(), use()), { allowed: false, usage: { current: 3 } })
  const given = taken.give()
  await Promise.all([given, there.close()])
  t.match(
    await here.resourceLimits.check(user(), use()),
    { allowed: true, usage: { current: 2 } },
    'a stopping server completes its refunds'
  )
})

test('servers whose clocks differ by minutes count in one period', async (t) => {
  const engine = await postgresSection(t)
  const midnight = Date.parse('2026-06-02T00:00:00Z')
  const { app: ahead } = await open(t, engine, { tenants: ['acme'], now: () => midnight + 150_000 })
  const { app: behind } = await open(t, engine, { now: () => midnight - 150_000 })
  await ahead.resourceLimits.replace('acme', [rule()])
  const results = await Promise.allSettled(Array.from({ length: 40 }, async (_, index) => {
    await (index % 2 === 0 ? ahead : behind).resourceLimits.take(user(), use())
  }))
  const admitted = results.filter(({ status }) => status === 'fulfilled').length
  // Until the first use of the new day, each counts in its own.
  t.ok(admitted >= 7 && admitted <= 14, `${admitted}`)
  for (const { resourceLimits } of [ahead, behind]) {
    t.match(await resourceLimits.check(user(), use()), { allowed: false, usage: { current: 7 } })
  }
})

test('limits work with row-level security', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString, rowLevelSecurity: true } }, {
    tenants: ['acme', 'globex'],
    maxCounters: 2
  })
  const { resourceLimits: limits } = app
  for (const tenant of ['acme', 'globex']) await limits.replace(tenant, [rule()])
  const taken = await limits.take(user(), use(5))
  t.match(await limits.track(user({ tenant: 'globex' }), use()), { usage: { current: 1 } })
  t.match(await limits.usage(user()), [{ current: 5 }])
  await t.rejects(limits.track(user(), use(3)), { code: 'TENANTRY_RESOURCE_LIMIT' })
  await taken.give()
  t.match(await limits.usage(user()), [{ current: 0 }])
  await limits.track(user({ id: 'ben' }), use())
  await t.rejects(limits.track(user({ id: 'third' }), use()), { code: 'TENANTRY_CONFLICT' })
  await sweepUsage(app.db, new Date(Date.now() + 10 * 86_400_000))
  t.match(await limits.track(user({ id: 'third' }), use()), { usage: { current: 1 } })
})

test('concurrent rule changes, sweeps and counts do not deadlock, and every row stays counted', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const clock = fakeClock()
  const { app } = await open(t, engine, { tenants: ['acme', 'globex'], ...clock })
  const { resourceLimits: limits } = app
  const rules = [rule({ limit: -1 }), rule({ metric: 'calls', limit: -1, period: 'total' })]
  for (const tenant of ['acme', 'globex']) await limits.replace(tenant, rules)
  for (let round = 0; round < 10; round++) {
    clock.forward(3 * 86_400_000)
    await Promise.all(Array.from({ length: 60 }, async (_, index) => {
      const tenant = index % 2 === 0 ? 'acme' : 'globex'
      if (index % 20 === 7) await sweepUsage(app.db, new Date(clock.now()))
      else if (index % 20 === 9) await limits.replace(tenant, index % 40 === 9 ? rules.slice(0, 1) : rules)
      else await limits.track({ tenant, id: `u${(index * 7 + round) % 30}` }, { ...use(), metric: index % 3 === 0 ? 'calls' : 'tokens' })
    }))
  }
  const counted = await query(
    'select l.tenant_id, l.counters, (select count(*)::int from tenantry.resource_usage u where u.tenant_id = l.tenant_id) as rows from tenantry.resource_limits l'
  )
  t.ok(counted.length > 0)
  for (const { tenant_id: tenant, counters, rows } of counted) t.equal(counters, rows, String(tenant))
})

test('a hundred concurrent requests to two processes take exactly the available amount', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const document = {
    rateLimit: { enabled: false },
    routes: [{
      path: '/one',
      method: 'get' as const,
      requireAuth: true,
      resourceLimit: { resource: 'llm', metric: 'tokens' },
      response: { ok: true }
    }]
  }
  const instances = await startInstances(t, document, { provider: 'postgres', postgres: { connectionString } })
  const asks = instances.map(({ address }) =>
    remoteCaller(t, address, { token: signToken({ sub: 'uma', role: 'admin', tenant_id: 'acme' }) })
  )
  const [here, there] = asks
  if (here === undefined || there === undefined) throw new Error('there are two')
  const rules = [rule(), rule({ period: 'month', limit: 100 }), rule({ period: 'total', limit: 50 })]
  t.equal((await here('PUT /tenant/limits/resources', { body: rules })).status, 200)

  const responses = await Promise.all(Array.from({ length: 100 }, (_, index) => (index % 2 === 0 ? here : there)('GET /one')))
  t.equal(responses.filter(({ status }) => status === 200).length, 7)
  for (const { status, body } of responses) {
    if (status !== 200) t.match({ status, body }, { status: 402, body: { allowed: false, usage: { current: 7, limit: 7 } } })
  }

  const tracked = await Promise.all(
    Array.from({ length: 100 }, (_, index) =>
      (index % 2 === 0 ? here : there)('POST /tenant/limits/resources/track', {
        body: { userId: `u${index % 4}`, resource: 'llm', metric: 'tokens' }
      }))
  )
  t.equal(tracked.filter(({ status }) => status === 200).length, 28, 'seven each of four users')
  const rows = await query(
    'select user_id, day_amount::int, month_amount::int, total_amount::int from tenantry.resource_usage order by user_id'
  )
  t.same(rows, ['u0', 'u1', 'u2', 'u3', 'uma'].map((name) => ({ user_id: name, day_amount: 7, month_amount: 7, total_amount: 7 })))
  t.same(await query('select counters from tenantry.resource_limits'), [{ counters: 5 }], 'each row was counted once')
})
