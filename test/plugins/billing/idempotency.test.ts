/** The keys that the endpoints send to a provider, without the plugin idempotency: each request reaches the provider. */
import { test } from 'tap'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller } from '../../http/caller.js'
import { alone } from './worlds.js'

const upgrade = (ask: Ask, targetPlan: string, key: string) =>
  ask('POST /billing/upgrade', { body: { targetPlan, billingCycle: 'monthly' }, headers: { 'idempotency-key': key } })

test('a key of another caller, or with another plan, is another operation at the provider', async (t) => {
  const { world, as, apps: [app] } = await alone(t, 'altprov')
  const ada = as('acme')
  const alan = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme', sub: 'alan' }) })
  const ops = caller(t, app, { token: signToken({ role: 'admin', sub: 'ada' }), tenant: 'acme' })
  const checkouts: unknown[] = []
  for (const [ask, plan] of [[ada, 'pro'], [ada, 'pro'], [ada, 'team'], [alan, 'pro'], [ops, 'pro']] as const) {
    const { status, body } = await upgrade(ask, plan, 'order-1')
    t.equal(status, 200)
    checkouts.push(Object(body['session']).id)
  }
  t.equal(checkouts[0], checkouts[1])
  t.equal(new Set(checkouts).size, 4)
  const keys = world.calls.filter(({ method, path }) => method === 'POST' && path.endsWith('/checkout/sessions'))
    .map(({ headers }) => headers['idempotency-key'])
  t.equal(new Set(keys).size, 4)
})

test('a cancellation that is answered as done is done, whatever the key was used for', async (t) => {
  const { world, sales, as, apps: [app] } = await alone(t, 'altprov')
  const ada = as('acme')
  const alan = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme', sub: 'alan' }) })
  world.subscribe('acme', sales.pro_monthly)
  const isCanceled = async () =>
    Object(Object((await ada('GET /billing/subscription')).body['subscription'])).cancelAtPeriodEnd === true
  const steps = [[ada, 'free', 'cancel-1', true], [ada, 'pro', 'resume-1', false], [alan, 'free', 'cancel-1', true],
    [alan, 'pro', 'resume-1', false], [ada, 'free', 'cancel-1', true]] as const
  for (const [ask, plan, key, canceled] of steps) {
    world.advance(60_000)
    t.equal((await upgrade(ask, plan, key)).status, 200)
    await ada('POST /billing/subscription/sync')
    t.equal(await isCanceled(), canceled, `${plan} with ${key}`)
  }
})
