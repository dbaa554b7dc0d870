/** The endpoints with both providers end to end, on two servers of one PostgreSQL. */
import { type Test, test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { ProviderName } from '../../../plugins/billing/providers/provider.js'
import { atOnce } from '../../helpers/at-once.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller, refused } from '../../http/caller.js'
import { appUrl, deliver, paths } from './app.js'
import { alone, type Opened, servers } from './worlds.js'

const day = 86_400_000 // ms

// Failing providers cause waits: other subtests run meanwhile.
test('the endpoints work with both providers', (t) =>
  atOnce(t, {
    'two servers with billing through payprov': (t) => together(t, 'payprov'),
    'two servers with billing through altprov': (t) => together(t, 'altprov'),
    'the plugin alone, with payprov': (t) => byItself(t, 'payprov'),
    'the plugin alone, with altprov': (t) => byItself(t, 'altprov')
  }))

async function together (t: Test, name: ProviderName): Promise<void> {
  const both = await servers(t, name)
  await t.test("a paid checkout becomes the tenant's plan on both servers", (t) => buys(t, both))
  await t.test('of two concurrent upgrades one is rejected', (t) => races(t, both))
  await t.test('an upgrade that outlasts its place does not free the place of the next one', (t) => outlasts(t, both))
  await t.test('upgrades and syncs need the permission to write billing', (t) => permits(t, both))
  await t.test("a tenant's requests to the provider are rate limited", (t) => limits(t, both))
}

async function byItself (t: Test, name: ProviderName): Promise<void> {
  const one = await alone(t, name)
  await t.test('an upgrade applies now, a downgrade at the end of the paid period', (t) => changes(t, one))
  await t.test('free ends the subscription at the end of the paid period, and choosing the same plan revokes that', (t) => leaves(t, one))
  await t.test('a sync or an upgrade detects changes without a webhook', (t) => syncs(t, one))
  await t.test('an Idempotency-Key belongs to its tenant', (t) => repeats(t, one))
  await t.test('an unavailable plan is rejected with the available ones', (t) => refuses(t, one))
  await t.test('a product that the provider does not have is a fault of the platform', (t) => misses(t, one))
  await t.test('a failing provider changes nothing, and the endpoint reports it in time', (t) => fails(t, one))
  await t.test("a deleted tenant's subscription is canceled at the provider", (t) => departs(t, one))
  await t.test('a subscription with a pending payment is not bought again', (t) => owes(t, one))
}

const planAt = async (ask: Ask) => (await ask('GET /tenant/info')).body['plan']
const upgradeTo = (plan: string, cycle = 'monthly') => ({ body: { targetPlan: plan, billingCycle: cycle } })

/** A subscription to pro, by checkout and webhooks. */
async function subscribed (t: Test, { world, as, tell }: Opened, tenant: string): Promise<string> {
  const { status, body, text } = await as(tenant)('POST /billing/upgrade', upgradeTo('pro'))
  t.equal(status, 200, text)
  const subscription = world.pay(String(Object(body['session'])['id']))
  t.match(await tell('created', subscription), { status: 200, body: { received: true } })
  return subscription
}

async function buys (t: Test, opened: Opened): Promise<void> {
  const { name, world, apps: [, other], as, tell, query } = opened
  t.match((await as('buyer')('GET /billing/subscription')).body, {
    tenantId: 'buyer',
    subscription: { plan: 'free', status: 'active', cancelAtPeriodEnd: false, paymentMethod: 'none' }
  })
  world.forget()
  const { status, body } = await as('buyer')('POST /billing/upgrade', upgradeTo('pro'))
  t.match({ status, body }, {
    status: 200,
    body: {
      success: true,
      checkoutUrl: /^https?:\/\//,
      session: { provider: name, plan: 'pro', billing_cycle: 'monthly', amount: 2900, currency: 'usd' }
    }
  })
  t.strictSame(Object.keys(Object(body['session'])).sort(), ['amount', 'billing_cycle', 'currency', 'id', 'plan', 'provider'])
  const sent = world.calls.map((call) => decodeURIComponent(call.body)).join('\n')
  t.ok(sent.includes(`${appUrl}/billing/success?session=`) && sent.includes(`${appUrl}/billing/cancel`), "the browser's return addresses")
  t.ok(sent.includes('ada@buyer.example'), 'who pays')
  t.equal(await planAt(as('buyer')), 'free', 'an unpaid checkout changes no plan')

  const subscription = world.pay(String(Object(body['session'])['id']))
  const events = [world.event('created', subscription), world.event('paid', subscription)]
  for (const event of [...events, ...events]) t.match(await deliver(opened.apps[0], name, event), { status: 200, body: { received: true } })
  const far = as('buyer', other)
  await until('the plan on the other server', async () => await planAt(far) === 'pro')
  const { headers } = await far('GET /tenant/info')
  t.equal(headers['x-ratelimit-limit'], '1000', 'and its rate limit')
  const { body: { subscription: shown } } = await far('GET /billing/subscription')
  t.match(shown, { plan: 'pro', status: 'active', cancelAtPeriodEnd: false })
  t.strictSame(Object.keys(Object(shown)).sort(), [
    'cancelAtPeriodEnd',
    'currentPeriodEnd',
    'paymentMethod',
    'plan',
    'renewalDate',
    'startDate',
    'status'
  ])
  const { startDate, renewalDate, currentPeriodEnd } = Object(shown)
  for (const time of [startDate, renewalDate, currentPeriodEnd]) t.equal(new Date(time).toISOString(), time)
  t.equal(currentPeriodEnd, renewalDate)
  t.ok(Date.parse(currentPeriodEnd) - Date.parse(startDate) > 27 * day)
  t.strictSame(
    await query("select count(*)::int as entries from tenantry.audit_log where tenant_id = 'buyer' and action = 'billing.plan'"),
    [{ entries: 1 }],
    'each event counts once'
  )

  world.change(subscription, 'end')
  t.match(await tell('ended', subscription), { status: 200 })
  await until('the end on the other server', async () => await planAt(far) === 'free')
  t.match((await far('GET /billing/subscription')).body, { subscription: { plan: 'free', status: 'canceled' } })
  t.match(await tell('other', subscription), { status: 200, body: { received: true } }, 'an irrelevant kind is accepted')
}

async function changes (t: Test, opened: Opened): Promise<void> {
  const { name, world, as, tell } = opened
  const subscription = await subscribed(t, opened, 'changer')
  const ask = as('changer')
  const charged = world.charges(subscription)
  t.match(await ask('POST /billing/upgrade', upgradeTo('team')), {
    status: 200,
    body: {
      success: true,
      checkoutUrl: null,
      session: {
        id: subscription,
        provider: name,
        plan: 'team',
        billing_cycle: 'monthly',
        amount: 9900,
        currency: 'usd',
        effectiveAt: String
      }
    }
  })
  t.equal(await planAt(ask), 'team', 'now, before any webhook')
  t.equal(world.charges(subscription), charged + 1, 'and is charged once')
  world.advance(60_000)
  t.match(await tell('updated', subscription), { status: 200 })
  t.equal(await planAt(ask), 'team')

  const lower = await ask('POST /billing/upgrade', upgradeTo('pro'))
  t.match(lower, { status: 200, body: { checkoutUrl: null, session: { id: subscription, plan: 'pro', amount: 2900 } } })
  const { body: { subscription: shown } } = await ask('GET /billing/subscription')
  t.equal(Object(lower.body['session'])['effectiveAt'], Object(shown)['currentPeriodEnd'], 'at the end of the paid period')
  t.equal(await planAt(ask), 'team', 'the plan stays until then')
  t.match(await ask('POST /billing/upgrade', upgradeTo('team')), {
    status: 200,
    body: { checkoutUrl: null, session: { id: subscription, plan: 'team' } }
  }, 'it can be revoked')
  refused(t, await ask('POST /billing/upgrade', upgradeTo('team')), 400, 'VALIDATION_FAILED', 'once')
  t.match(await ask('POST /billing/upgrade', upgradeTo('pro')), { status: 200 })
  world.advance(31 * day)
  world.change(subscription, 'renew')
  t.match(await tell('updated', subscription), { status: 200 })
  t.equal(await planAt(ask), 'pro')

  const yearly = await ask('POST /billing/upgrade', upgradeTo('pro', 'yearly'))
  t.match(yearly, { status: 200, body: { session: { plan: 'pro', billing_cycle: 'yearly', amount: 29_000 } } })
  t.equal(Date.parse(Object(yearly.body['session'])['effectiveAt']), world.now(), 'a change from monthly to yearly applies now')
  world.advance(60_000)
  const monthly = await ask('POST /billing/upgrade', upgradeTo('pro'))
  t.ok(Date.parse(Object(monthly.body['session'])['effectiveAt']) > world.now(), 'a change from yearly to monthly applies later')
}

async function leaves (t: Test, opened: Opened): Promise<void> {
  const { world, as, tell } = opened
  const subscription = await subscribed(t, opened, 'leaver')
  const ask = as('leaver')
  refused(t, await ask('POST /billing/upgrade', upgradeTo('pro')), 400, 'VALIDATION_FAILED', 'the current plan')
  t.match(await ask('POST /billing/upgrade', upgradeTo('free')), {
    status: 200,
    body: { success: true, checkoutUrl: null, session: { id: subscription, plan: 'free', amount: 0, effectiveAt: String } }
  })
  t.match((await ask('GET /billing/subscription')).body, { subscription: { plan: 'pro', status: 'active', cancelAtPeriodEnd: true } })
  refused(t, await ask('POST /billing/upgrade', upgradeTo('free')), 400, 'VALIDATION_FAILED', 'twice')
  const away = await ask('POST /billing/upgrade', upgradeTo('team'))
  refused(t, away, 409, 'CONFLICT', 'another plan while a cancellation is pending')
  t.match(away.body['message'], /take that back first, by an upgrade to pro monthly/)
  world.advance(60_000)
  t.match(await ask('POST /billing/upgrade', upgradeTo('pro')), {
    status: 200,
    body: { checkoutUrl: null, session: { id: subscription, plan: 'pro' } }
  })
  t.match((await ask('GET /billing/subscription')).body, { subscription: { plan: 'pro', cancelAtPeriodEnd: false } })
  world.advance(60_000)
  t.match(await ask('POST /billing/upgrade', upgradeTo('free')), { status: 200 })
  world.advance(31 * day)
  world.change(subscription, 'renew')
  t.match(await tell('ended', subscription), { status: 200 })
  t.equal(await planAt(ask), 'free')
  refused(t, await ask('POST /billing/upgrade', upgradeTo('free')), 400, 'VALIDATION_FAILED', 'nothing to cancel')
  t.match(
    await ask('POST /billing/upgrade', upgradeTo('team')),
    { status: 200, body: { checkoutUrl: String, session: { plan: 'team' } } },
    'and it can be revoked'
  )
}

async function departs (t: Test, opened: Opened): Promise<void> {
  const { world, apps: [app], query } = opened
  const subscription = await subscribed(t, opened, 'gone')
  const provider = await world.open()
  await query(`create function refuse_job () returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$;
    create trigger refuse_job before insert on tenantry_queue.job for each row when (new.data->>'task' = 'billing.depart') execute function refuse_job()`)
  await t.rejects(app.tenants.delete('gone'), /does not satisfy a constraint/, 'the job that cancels it cannot be sent')
  t.match(await query("select status from tenantry.tenants where id = 'gone'"), [{ status: 'deleting' }], 'so the tenant is not removed')
  await query('drop function refuse_job cascade')
  await app.tenants.delete('gone')
  await until('it is canceled', async () => (await provider.subscriptions(tenantRef('gone'))).every(({ cancelAtPeriodEnd }) => cancelAtPeriodEnd))
  await until(
    'the audit log contains it',
    async () =>
      (await query(
        `select from tenantry.audit_log where tenant_id = '' and action = 'billing.subscription' and target = '${subscription}' and details->>'deletedTenant' = 'gone'`
      )).length === 1
  )
  t.equal(world.charges(subscription), 1)
  t.equal(
    (await query("select from tenantry_queue.job where data->>'task' = 'billing.depart' and start_after > now() + interval '1 hour'")).length,
    1,
    'a later job finds a subscription that a search of the provider did not show yet'
  )
}

async function owes (t: Test, opened: Opened): Promise<void> {
  const { world, as, tell } = opened
  const subscription = await subscribed(t, opened, 'debtor')
  const ask = as('debtor')
  world.advance(31 * day)
  world.change(subscription, 'pastDue')
  t.match(await tell('updated', subscription), { status: 200 })
  t.equal(await planAt(ask), 'pro', 'within the grace period')
  world.advance(8 * day)
  t.match((await ask('GET /billing/subscription')).body, { subscription: { plan: 'free', status: 'past_due' } })
  const again = await ask('POST /billing/upgrade', upgradeTo('pro'))
  refused(t, again, 409, 'CONFLICT', 'the unpaid plan')
  t.match(again.body['message'], /A payment of pro monthly is missing/)
  const higher = await ask('POST /billing/upgrade', upgradeTo('team'))
  refused(t, higher, 409, 'CONFLICT', 'a higher plan would be credited with the unpaid period')
  t.match(higher.body['message'], /A payment of the current subscription is missing/)
  t.match(await ask('POST /billing/upgrade', upgradeTo('free')), {
    status: 200,
    body: { checkoutUrl: null, session: { id: subscription, plan: 'free' } }
  }, 'it can be ended')
}

async function syncs (t: Test, { world, sales, as }: Opened): Promise<void> {
  world.subscribe('missed', sales.pro_monthly)
  t.equal(await planAt(as('missed')), 'free')
  t.match(await as('missed')('POST /billing/subscription/sync'), {
    status: 200,
    body: { success: true, subscription: { plan: 'pro', status: 'active' } }
  })
  t.equal(await planAt(as('missed')), 'pro')
  t.match(await as('missed')('POST /billing/subscription/sync', { body: {} }), { status: 200 })
  refused(t, await as('missed')('POST /billing/subscription/sync', { body: { plan: 'team' } }), 400, 'VALIDATION_FAILED')

  world.subscribe('twice', sales.pro_monthly)
  world.forget()
  refused(t, await as('twice')('POST /billing/upgrade', upgradeTo('pro')), 400, 'VALIDATION_FAILED', 'bought a moment ago')
  t.same(world.calls.filter(({ method }) => method === 'POST'), [], 'nothing is bought twice')
  t.equal(await planAt(as('twice')), 'pro')
}

async function races (t: Test, { world, as, apps }: Opened): Promise<void> {
  const checkouts = () => world.calls.filter(({ method, path }) => method === 'POST' && path.includes('checkout'))
  world.forget()
  // The 429 delays the first upgrade until the second one arrives.
  world.misfortune({ status: 429, retryAfter: 1 })
  const responses = await Promise.all([
    as('first')('POST /billing/upgrade', upgradeTo('pro')),
    as('first', apps[1])('POST /billing/upgrade', upgradeTo('pro'))
  ])
  t.strictSame(responses.map(({ status }) => status).sort(), [200, 409])
  t.match(responses.find(({ status }) => status === 409)?.body['message'], /in progress/)
  t.equal(checkouts().length, 1, 'one checkout')
  t.match(await as('first')('POST /billing/upgrade', upgradeTo('pro')), { status: 200 }, 'the next one succeeds')
}

async function outlasts (t: Test, { world, as, query }: Opened): Promise<void> {
  const places = () => query("select from tenantry.attempts where kind = 'billing.upgrade' and tenant_id = 'first'")
  // The 429 delays the upgrade until its place has another owner.
  world.misfortune({ status: 429, retryAfter: 2 })
  const slow = as('first')('POST /billing/upgrade', upgradeTo('pro'))
  await until('it has its place', async () => (await places()).length === 1)
  await query("update tenantry.attempts set ends_at = now() + interval '50 s' where kind = 'billing.upgrade'")
  t.match(await slow, { status: 200 })
  t.equal((await places()).length, 1)
  refused(t, await as('first')('POST /billing/upgrade', upgradeTo('pro')), 409, 'CONFLICT')
  await query("delete from tenantry.attempts where kind = 'billing.upgrade'")
}

async function repeats (t: Test, { world, as }: Opened): Promise<void> {
  const keys = () =>
    world.calls.filter(({ method, path }) => method === 'POST' && path.includes('checkout')).map(({ headers }) =>
      String(headers['idempotency-key'])
    )
  world.forget()
  for (
    const [tenant, key] of [['second', 'order-1'], ['second', 'order-1'], ['third', 'order-1'], ['second', 'order-2'], [
      'second',
      undefined
    ], ['second', undefined]] as const
  ) {
    t.match(
      await as(tenant)('POST /billing/upgrade', { ...upgradeTo('pro'), headers: key === undefined ? {} : { 'idempotency-key': key } }),
      { status: 200 }
    )
  }
  const [first, again, others, another, ...random] = keys()
  t.equal(first, again, 'with the same key')
  t.equal(new Set([first, others, another, ...random]).size, 5, 'with other keys, no key, and for another tenant')
  t.notMatch(keys().join(' '), /order|second|third/, 'the response reveals nothing of it')
  const longest = await as('third')('POST /billing/upgrade', { ...upgradeTo('pro'), headers: { 'idempotency-key': '~'.repeat(255) } })
  t.equal(longest.status, 200)
  for (const key of ['', ' ', 'two words', 'x'.repeat(256), 'ключ', 'a\tb', 'one, two']) {
    refused(
      t,
      await as('third')('POST /billing/upgrade', {
        ...upgradeTo('pro'),
        headers: { 'idempotency-key': Buffer.from(key).toString('latin1') }
      }),
      400,
      'VALIDATION_FAILED',
      JSON.stringify(key.slice(0, 10))
    )
  }
}

async function refuses (t: Test, { world, as, apps: [app] }: Opened): Promise<void> {
  world.forget()
  const ask = as('acme')
  const details = async (body: unknown) => {
    const response = await ask('POST /billing/upgrade', { body })
    refused(t, response, 400, 'VALIDATION_FAILED', JSON.stringify(body))
    return response.body.details?.map(({ path, message }) => `${path} ${message}`) ?? []
  }
  t.strictSame(await details({ targetPlan: 'scale', billingCycle: 'monthly' }), [
    '/body/billingCycle scale monthly is not sold: must be one of pro monthly, pro yearly, team monthly, scale yearly'
  ])
  t.strictSame(await details({ targetPlan: 'team', billingCycle: 'yearly' }), [
    '/body/billingCycle team yearly is not sold: must be one of pro monthly, pro yearly, team monthly, scale yearly'
  ])
  t.strictSame(await details({ targetPlan: 'enterprise', billingCycle: 'yearly' }), [
    '/body/targetPlan enterprise is sold by agreement: contact the platform'
  ])
  t.strictSame(await details({ targetPlan: 'free', billingCycle: 'yearly' }), ['/body/targetPlan there is no subscription to cancel'])
  t.equal(world.calls.filter(({ method }) => method !== 'GET').length, 0)
  for (const plan of ['gold', 'Pro', '', ' pro', 'pro_monthly', '__proto__', 'constructor', 1, null, true, ['pro'], { tier: 'pro' }]) {
    t.match(await details({ targetPlan: plan, billingCycle: 'monthly' }), [
      /^\/body\/targetPlan must be one of free, pro, team, scale, enterprise/
    ], JSON.stringify(plan))
  }
  for (const cycle of ['weekly', 'Monthly', '', 'month', 12, null, ['monthly'], {}]) {
    t.match(
      await details({ targetPlan: 'pro', billingCycle: cycle }),
      [/^\/body\/billingCycle must be one of monthly, yearly/],
      JSON.stringify(cycle)
    )
  }
  for (
    const body of [{}, { targetPlan: 'pro' }, { billingCycle: 'monthly' }, [], 'pro', { ...upgradeTo('pro').body, tenant: 'other' }, {
      ...upgradeTo('pro').body,
      productId: 'x'
    }]
  ) await details(body)
  refused(
    t,
    await caller(t, app, { token: signToken({ role: 'admin', sub: 'ops' }) })('POST /billing/upgrade', upgradeTo('pro')),
    400,
    'TENANT_REQUIRED'
  )
}

async function misses (t: Test, { name, as, logged }: Opened): Promise<void> {
  refused(t, await as('acme')('POST /billing/upgrade', upgradeTo('scale', 'yearly')), 502, 'PROVIDER_FAILED')
  t.match(
    logged?.join(''),
    new RegExp(`${name} does not have [\\w-]+, which the product map names for scale_yearly`),
    'the log names it'
  )
}

async function fails (t: Test, opened: Opened): Promise<void> {
  const { world, as, query } = opened
  const subscription = await subscribed(t, opened, 'broken')
  const ask = as('broken')
  const state = async () => ({
    tenant: await query("select plan from tenantry.tenants where id = 'broken'"),
    subscription: await query("select * from tenantry.billing_subscriptions where tenant_id = 'broken'"),
    audit: await query("select action, details from tenantry.audit_log where tenant_id = 'broken' order by id"),
    charged: world.charges(subscription),
    shown: (await ask('GET /billing/subscription')).body
  })
  const before = await state()
  const cases = [
    [{ status: 500 }, 502, 'PROVIDER_FAILED'],
    [{ status: 503 }, 502, 'PROVIDER_FAILED'],
    ['reset', 502, 'PROVIDER_FAILED'],
    ['nonsense', 502, 'PROVIDER_FAILED'],
    ['text', 502, 'PROVIDER_FAILED'],
    ['huge', 502, 'PROVIDER_FAILED'],
    ['redirect', 502, 'PROVIDER_FAILED'],
    [{ status: 401 }, 502, 'PROVIDER_FAILED'],
    [{ status: 403 }, 502, 'PROVIDER_FAILED'],
    [{ status: 429, retryAfter: 60 }, 503, 'PROVIDER_BUSY']
  ] as const
  for (const [misfortune, status, code] of cases) {
    world.misfortune(misfortune, 30)
    // Both at once: they wait before they retry.
    const responses = await Promise.all([ask('POST /billing/subscription/sync'), ask('POST /billing/upgrade', upgradeTo('team'))])
    for (const [index, response] of responses.entries()) {
      refused(t, response, status, code, `${index === 0 ? 'a sync' : 'an upgrade'} ${JSON.stringify(misfortune)}`)
      if (code === 'PROVIDER_BUSY') t.match(response, { headers: { 'retry-after': '60' }, body: { retryAfter: 60 } })
      t.notOk(response.text.includes(world.apiKey), 'without the key')
    }
    world.misfortune(misfortune, 0)
  }
  world.misfortune('silent', 30)
  const start = performance.now()
  const slow = await Promise.all([ask('POST /billing/subscription/sync'), ask('POST /billing/upgrade', upgradeTo('team'))])
  for (const response of slow) refused(t, response, 504, 'PROVIDER_TIMEOUT', 'a provider that does not respond')
  t.comment(`${Math.round(performance.now() - start)} ms`)
  world.misfortune('silent', 0)
  t.strictSame(world.strayed, [], 'no redirect is followed')
  t.same(await state(), before, 'nothing is half-changed')

  // The change took effect, but its response was lost.
  const again = { ...upgradeTo('team'), headers: { 'idempotency-key': 'again' } }
  world.misfortune('lost', 30)
  const lost = await ask('POST /billing/upgrade', again)
  // payprov is read before each retry, which finds the change.
  if (opened.name === 'payprov') t.equal(lost.status, 200)
  else refused(t, lost, 502, 'PROVIDER_FAILED', 'every response is lost')
  world.misfortune('lost', 0)
  t.equal(await planAt(ask), opened.name === 'payprov' ? 'team' : 'pro')
  refused(t, await ask('POST /billing/upgrade', again), 400, 'VALIDATION_FAILED', 'and is found on the next request')
  t.equal(await planAt(ask), 'team')
  t.equal(world.charges(subscription), before.charged + 1, 'done once')
}

async function permits (t: Test, { world, as, apps: [app] }: Opened): Promise<void> {
  world.forget()
  const wrong = { raw: '{"targetPlan":' }
  const user = caller(t, app, { token: signToken({ role: 'user', tenant_id: 'denied' }) })
  for (const target of ['POST /billing/upgrade', 'POST /billing/subscription/sync']) {
    refused(t, await user(target, wrong), 403, 'FORBIDDEN', 'before the body is validated')
    refused(t, await caller(t, app)(target, wrong), 401, 'TOKEN_MISSING')
    refused(t, await as('denied')(target, { tenant: 'owner', ...wrong }), 403, 'TENANT_MISMATCH')
    refused(
      t,
      await caller(t, app, { token: signToken({ role: 'user', tenant_id: 'denied', permissions: ['billing:read', 'secrets:*'] }) })(
        target,
        wrong
      ),
      403,
      'FORBIDDEN'
    )
  }
  t.same(world.calls, [], 'the provider is not called')
  t.match(await user('GET /billing/subscription'), { status: 200, body: { tenantId: 'denied' } }, 'every user may read')
  refused(t, await user('GET /billing/subscription?tenant=owner'), 400, 'VALIDATION_FAILED')
  const writer = caller(t, app, { token: signToken({ role: 'user', tenant_id: 'denied', permissions: ['billing:write'] }) })
  t.match(await writer('POST /billing/upgrade', upgradeTo('pro')), { status: 200 })
  const { body: { key } } = await as('denied')('POST /tenant/api-keys', { body: { name: 'books', scopes: ['billing:write'] } })
  t.match(await caller(t, app)('POST /billing/subscription/sync', { headers: { 'x-api-key': String(key) } }), { status: 200 })
  const ops = caller(t, app, { token: signToken({ role: 'admin', sub: 'ops', email: 'ops@platform.example' }), tenant: 'owner' })
  world.forget()
  t.match(
    await ops('POST /billing/upgrade', upgradeTo('pro')),
    { status: 200, body: { session: { plan: 'pro' } } },
    'the platform may read for a tenant'
  )
  t.notOk(world.calls.some(({ body }) => decodeURIComponent(body).includes('ops@platform.example')), 'but pays for none')
}

async function limits (t: Test, { world, as }: Opened): Promise<void> {
  const ask = as('eager')
  for (let count = 0; count < 5; count++) t.match(await ask('POST /billing/subscription/sync'), { status: 200 })
  for (let count = 0; count < 15; count++) {
    refused(t, await ask('POST /billing/upgrade', { body: {} }), 400, 'VALIDATION_FAILED', 'only calls to the provider count')
  }
  for (let count = 0; count < 5; count++) t.match(await ask('POST /billing/upgrade', upgradeTo('pro')), { status: 200 })
  world.forget()
  for (const [target, request] of [['POST /billing/upgrade', upgradeTo('pro')], ['POST /billing/subscription/sync', {}]] as const) {
    const response = await ask(target, request)
    refused(t, response, 429, 'RATE_LIMITED')
    t.match(response.body['message'], /ten requests per minute to the payment provider/)
    t.type(response.body['retryAfter'], 'number')
  }
  t.same(world.calls, [])
  t.match(await as('first')('POST /billing/subscription/sync'), { status: 200 }, "another tenant's data is not returned")
}

test('without a provider the endpoints report no subscription and sell nothing', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const logged: string[] = []
  const app = await testServer(t, {}, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: [{ id: 'acme', plan: 'team' }],
    env: { ALTPROV_API_KEY: 'sk_test_of_a_provider_that_is_not_chosen' },
    logger: {
      level: 'warn',
      stream: {
        write: (line: string) => {
          logged.push(line)
        }
      }
    }
  })
  t.match(logged.join(''), /"providers":\["altprov"\].*none is selected \(PAYMENT_PROVIDER\)/, 'settings without an effect are logged')
  const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })
  t.match(await ask('GET /billing/subscription'), {
    status: 200,
    body: { tenantId: 'acme', subscription: { plan: 'team', status: 'active', paymentMethod: 'none' } }
  })
  refused(t, await ask('POST /billing/upgrade', upgradeTo('pro')), 503, 'BILLING_NOT_CONFIGURED')
  refused(t, await ask('POST /billing/subscription/sync'), 503, 'BILLING_NOT_CONFIGURED')
  for (const path of Object.values(paths)) refused(t, await caller(t, app)(`POST ${path}`, { body: {} }), 503, 'BILLING_NOT_CONFIGURED')
})
