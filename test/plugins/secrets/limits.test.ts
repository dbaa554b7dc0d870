import { test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { open } from './app.js'

const value = secretText('the value of a limited secret')

test('a plan admits exactly its number of secrets, also of twenty concurrent ones', async (t) => {
  const engine = await postgresSection(t)
  const { app, as } = await open(t, engine, { tenants: { acme: 'free', globex: 'free' } })
  const acme = as('acme')
  const put = (key: string) => acme('POST /tenant/secrets', { body: { key, value } })
  for (const key of ['a', 'b', 'c']) t.match(await put(key), { status: 201 })
  const responses = await Promise.all(Array.from({ length: 20 }, (_, index) => put(`parallel-${index}`)))
  t.equal(responses.filter(({ status }) => status === 201).length, 2)
  const refusals = responses.filter(({ status }) => status !== 201)
  t.equal(refusals.length, 18)
  for (const refusal of refusals) {
    t.match(refusal, {
      status: 402,
      body: {
        error: 'Usage limit exceeded',
        code: 'TENANTRY_PLAN_LIMIT',
        message: 'The plan "free" includes 5 secrets',
        allowed: false,
        upgrade: { plan: 'pro', limit: 50 }
      }
    })
  }
  t.equal((await app.secrets.list('acme')).length, 5)
  t.match(await put('a'), { status: 200 }, 'an update needs no room')
  t.match(await as('globex')('POST /tenant/secrets', { body: { key: 'a', value } }), { status: 201 }, 'another tenant has its own limit')
  await acme('DELETE /tenant/secrets/a')
  t.match(await put('new'), { status: 201 }, 'a deleted secret makes room')
  refused(t, await put('a'), 402, 'PLAN_LIMIT', 'and needs it again to come back')

  await app.tenants.update('acme', { plan: 'pro' })
  t.match(await put('a'), { status: 201 }, 'a larger plan applies at once')
})

test('rotation needs a plan that includes it', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: { acme: 'free' } })
  const acme = as('acme')
  await acme('POST /tenant/secrets', { body: { key: 'a', value } })
  for (
    const [target, body] of [['POST /tenant/secrets/a/rotate', { newValue: value }], ['POST /tenant/secrets/rotate', {
      key: 'a',
      newValue: value
    }]] as const
  ) {
    const refusal = await acme(target, { body })
    refused(t, refusal, 402, 'PLAN_LIMIT', target)
    t.match(refusal.body, { allowed: false, upgrade: { plan: 'pro', limit: -1 } })
  }
  await app.tenants.update('acme', { plan: 'pro' })
  t.match(await acme('POST /tenant/secrets/a/rotate', { body: { newValue: value } }), { status: 200 })
})
