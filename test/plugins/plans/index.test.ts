import { sql } from 'kysely'
import { test } from 'tap'
import { builtInPlans } from '../../../lib/plans/plans.js'
import type { Plans } from '../../../lib/schema/plans.js'
import { sweepAudit } from '../../../plugins/audit/store.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'

const value = secretText('the value of a secret of a plan')
const platform = signToken({ role: 'admin', sub: 'root' })
const adminOf = (tenant: string) => signToken({ role: 'admin', tenant_id: tenant, sub: 'ada' })
const day = 86_400_000 // ms

test('the plugin works alone', async (t) => {
  const plansOf = async (plans?: Plans) => (await testApp(t, { plugins: { plans: { plans } } })).app.plans
  t.equal((await plansOf({ gold: { price: { monthly: 5 } } })).of('gold').price.monthly, 5)
  t.strictSame((await plansOf()).all, builtInPlans.all, 'without a section the plans are the built-in ones')
})

test("a document's plans", async (t) => {
  const app = await testServer(t, {
    plans: {
      free: { limits: { tenantConfig: { maxSecrets: 2, auditRetentionDays: 3 } } },
      pro: { limits: { tenantConfig: { rotation: false } } },
      gold: {
        name: 'Gold',
        price: { monthly: 50, currency: 'EUR' },
        limits: {
          api: { requestsPerMinute: 7 },
          fileStorage: { maxStorageMB: 1, maxFileSizeMB: 1 },
          ai: { llmTokensPerMonth: -1 },
          tenantConfig: { maxSecrets: 3, rotation: true }
        }
      }
    }
  }, { tenants: [{ id: 'acme', plan: 'free' }, { id: 'globex', plan: 'free' }] })
  const root = caller(t, app, { token: platform })
  const acme = caller(t, app, { token: adminOf('acme') })
  const put = (ask: typeof acme, key: string) => ask('POST /tenant/secrets', { body: { key, value } })

  await t.test('plans are listed for every caller, from the lowest to the highest', async (t) => {
    const { status, body } = await caller(t, app)('GET /billing/plans')
    t.equal(status, 200)
    t.strictSame(body, { plans: app.plans.all })
    t.strictSame(app.plans.tiers, ['free', 'pro', 'gold', 'team', 'scale', 'enterprise'])
    t.match(body['plans'], [{ limits: { tenantConfig: { maxSecrets: 2 } } }, {}, {
      name: 'Gold',
      price: { monthly: 50, yearly: 0, currency: 'EUR' },
      limits: { ai: { llmTokensPerMonth: -1 } }
    }])
    t.equal((await caller(t, app, { token: 'no.token.at-all' })('GET /billing/plans')).status, 200)
    refused(t, await caller(t, app)('POST /billing/plans', { body: {} }), 405, 'METHOD_NOT_ALLOWED')
  })

  await t.test("a tenant can only have the document's plans", async (t) => {
    const names = 'must be one of free, pro, gold, team, scale, enterprise'
    for (const plan of ['silver', 'Gold', '', '__proto__', 'constructor']) {
      for (const target of ['PATCH /tenants/acme', 'POST /tenants']) {
        const response = await root(target, { body: { ...target.startsWith('POST') && { id: 'other', name: 'other' }, plan } })
        refused(t, response, 400, 'VALIDATION_FAILED', `${target} ${plan}`)
        t.strictSame(response.body.details, [{ path: '/body/plan', message: names, keyword: 'enum' }], plan)
      }
    }
    const unknown = { code: 'TENANTRY_VALIDATION_FAILED', extras: { details: [{ path: '/body/plan', message: names, keyword: 'enum' }] } }
    await t.rejects(app.tenants.update('acme', { plan: 'silver' }), unknown, 'nor through the service')
    await t.rejects(app.tenants.create({ id: 'other', name: 'other', plan: 'silver' }), unknown)
    t.match(await root('POST /tenants', { body: { id: 'initech', name: 'initech', plan: 'gold' } }), {
      status: 201,
      body: { plan: 'gold' }
    })
    const info = caller(t, app, { token: adminOf('initech') })
    t.match((await info('GET /tenant/info')).body, { plan: 'gold', limits: { apiCalls: 7, llmTokens: -1, storage: 1_048_576 } })
    const { body: { paths } } = await root('GET /doc')
    t.same(
      Object(paths)['/tenants/{id}'].patch.requestBody.content['application/json'].schema.properties.plan.enum,
      app.plans.tiers,
      'the documentation lists them'
    )
  })

  await t.test('plans limit secrets, and an error names a plan with room', async (t) => {
    for (const key of ['a', 'b']) t.equal((await put(acme, key)).status, 201)
    t.match(await put(acme, 'c'), {
      status: 402,
      body: { message: 'The plan "free" includes 2 secrets', allowed: false, upgrade: { plan: 'pro', limit: 50 } }
    })
    const rotate = () => acme('POST /tenant/secrets/a/rotate', { body: { newValue: value } })
    t.match(await rotate(), {
      status: 402,
      body: { message: 'The plan "free" does not include rotation of secrets', allowed: false, upgrade: { plan: 'gold', limit: -1 } }
    }, 'not pro, which has no rotation here')
    await root('PATCH /tenants/acme', { body: { plan: 'gold' } })
    t.equal((await rotate()).status, 200)
    t.equal((await put(acme, 'c')).status, 201)
    t.match(await put(acme, 'd'), {
      status: 402,
      body: { message: 'The plan "gold" includes 3 secrets', upgrade: { plan: 'team', limit: 200 } }
    }, 'a lower plan is not an upgrade')
    await root('PATCH /tenants/acme', { body: { plan: 'free' } })
    t.match(await put(acme, 'd'), { status: 402, body: { upgrade: { plan: 'pro', limit: 50 } } }, 'beyond the limit of a lower plan')
    t.equal((await put(acme, 'a')).status, 200, 'existing ones stay, and can be stored again')
  })

  await t.test("a stored plan that is unknown has free's limits", async (t) => {
    await sql`insert into tenantry.tenants (id, name, plan) values ('old', 'old', 'platinum')`.execute(app.db)
    const old = caller(t, app, { token: adminOf('old') })
    t.match((await old('GET /tenant/info')).body, { plan: 'platinum', limits: { apiCalls: 100, llmTokens: 100_000, storage: 209_715_200 } })
    t.match((await root('GET /tenants/old')).body, { plan: 'platinum' }, 'as it is stored')
    for (const key of ['a', 'b']) t.equal((await put(old, key)).status, 201)
    t.match(await put(old, 'c'), {
      status: 402,
      body: { message: 'The plan "free" includes 2 secrets', upgrade: { plan: 'pro', limit: 50 } }
    })
    t.match(await root('PATCH /tenants/old', { body: { name: 'renamed' } }), { status: 200, body: { plan: 'platinum' } })
    t.match(await root('PATCH /tenants/old', { body: { plan: 'platinum' } }), { status: 400 })
  })

  await t.test('plans set how long audit entries are kept', async (t) => {
    t.equal((await put(caller(t, app, { token: adminOf('initech') }), 'a')).status, 201)
    await sql`update tenantry.tenants set plan = 'enterprise' where id = 'globex'`.execute(app.db)
    t.equal((await put(caller(t, app, { token: adminOf('globex') }), 'a')).status, 201)
    const kept = async (days: number) => {
      await sweepAudit(app.db, { plans: app.plans, retentionDays: 365 }, new Date(Date.now() + days * day))
      const { rows } = await sql<{ tenant_id: string }>`select distinct tenant_id from tenantry.audit_log where tenant_id <> '' order by 1`
        .execute(app.db)
      return rows.map(({ tenant_id: tenant }) => tenant)
    }
    t.strictSame(await kept(2.9), ['acme', 'globex', 'initech', 'old'])
    t.strictSame(await kept(3.1), ['globex', 'initech'], 'free, as for an unknown plan')
    t.strictSame(await kept(7.1), ['globex'], 'gold, which does not set it')
    t.strictSame(await kept(40_000), ['globex'], 'enterprise')
  })
})

test('a change of plan applies on another server, which may have other plans', async (t) => {
  const engine = await postgresSection(t)
  const here = await testServer(t, { plans: { gold: { limits: { api: { requestsPerMinute: 7 }, tenantConfig: { maxSecrets: 1 } } } } }, {
    engine,
    tenants: [{ id: 'acme', plan: 'free' }]
  })
  const there = await testServer(t, { plans: { free: { limits: { api: { requestsPerMinute: 50 } } } } }, { engine })
  const root = caller(t, here, { token: platform })
  const [one, two] = [caller(t, here, { token: adminOf('acme') }), caller(t, there, { token: adminOf('acme') })]
  const callsAre = (ask: typeof one, calls: number) => async () => Object((await ask('GET /tenant/info')).body['limits']).apiCalls === calls
  t.ok(await callsAre(one, 100)() && await callsAre(two, 50)(), 'both have cached the tenant')

  t.equal((await root('PATCH /tenants/acme', { body: { plan: 'pro' } })).status, 200)
  t.ok(await callsAre(one, 1000)(), 'at once where it was changed')
  await until('a plan', callsAre(two, 1000))
  t.equal((await root('PATCH /tenants/acme', { body: { plan: 'gold' } })).status, 200)
  t.ok(await callsAre(one, 7)())
  await until('a plan that the other server does not know', callsAre(two, 50))
  t.match((await two('GET /tenant/info')).body, { plan: 'gold' })
  t.equal((await one('POST /tenant/secrets', { body: { key: 'a', value } })).status, 201)
  t.match(await one('POST /tenant/secrets', { body: { key: 'b', value } }), {
    status: 402,
    body: { message: 'The plan "gold" includes 1 secret' }
  })
  t.equal((await two('POST /tenant/secrets', { body: { key: 'b', value } })).status, 201, "with free's limits there")
})

test('without billing its paths are free for the document, and plans still apply', async (t) => {
  const app = await testServer(t, {
    plugins: { billing: false },
    routes: [{ method: 'get', path: '/billing/plans', response: { own: true } }]
  })
  t.strictSame((await caller(t, app)('GET /billing/plans')).body, { own: true })
  t.equal(app.plans.of('free').limits.tenantConfig.maxSecrets, 5)
})
