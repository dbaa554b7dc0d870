import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'

test('a limit for a role applies if an administrator names a user without a role, or requests the role', async (t) => {
  const app = await testServer(t, { auth: { registration: 'open' } }, { tenants: ['acme', 'globex'] })
  const admin = (tenant: string) => caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: tenant }) })
  const acme = admin('acme')
  const rule = (more: object) => ({ resource: 'credits', metric: 'count', period: 'month', limit: 10, ...more })
  const use = (userId: string, more: object = {}) => ({ body: { userId, resource: 'credits', metric: 'count', amount: 50, ...more } })
  t.equal(
    (await acme('PUT /tenant/limits/resources', {
      body: [rule({ conditions: { roles: ['user'] } }), rule({ resource: 'files', limit: 1 })]
    })).status,
    200
  )

  refused(t, await acme('POST /tenant/limits/resources/track', use('u1', { role: 'user' })), 402, 'RESOURCE_LIMIT')
  t.match(await acme('POST /tenant/limits/resources/track', use('u1', { role: 'editor' })), { status: 200, body: { allowed: true } })
  t.match(await acme('POST /tenant/limits/resources/check', use('u1', { resource: 'files', amount: 1 })), {
    status: 200,
    body: { allowed: true }
  }, 'no rule of this resource names roles')
  t.match(await admin('globex')('POST /tenant/limits/resources/check', use('u1')), { status: 200 }, 'nor does a rule of another tenant')

  const { id } = await app.users.create({ email: 'uma@example.com', password: 'a password of Uma', role: 'user', tenant: 'acme' }, noActor)
  refused(t, await acme('POST /tenant/limits/resources/track', use(id)), 402, 'RESOURCE_LIMIT', 'a user whose role the server knows')
  t.match((await acme(`GET /tenant/limits/resources/usage?userId=${id}`)).body, [{ resource: 'credits', current: 0 }, {
    resource: 'files'
  }])
})

test('the limits of all roles apply to a user whose role is not known', async (t) => {
  const app = await testServer(t, {}, { tenants: ['acme'] })
  const admin = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const rule = (limit: number, role: string, more: object = {}) =>
    ({ resource: 'credits', metric: 'count', period: 'month', limit, gateAction: 'block', conditions: { roles: [role] }, ...more })
  const rules = [rule(10, 'guest'), rule(1000, 'user'), rule(2, 'trial', { gateAction: 'upgrade' })]
  t.equal((await admin('PUT /tenant/limits/resources', { body: rules })).status, 200)
  const ask = (action: string, amount: number, more: object = {}) =>
    admin(`POST /tenant/limits/resources/${action}`, { body: { userId: 'u1', resource: 'credits', metric: 'count', amount, ...more } })

  t.match(await ask('check', 2), { status: 200, body: { allowed: true, gateAction: 'upgrade', usage: { current: 0, limit: 2 } } })
  refused(t, await ask('track', 11), 402, 'RESOURCE_LIMIT', 'more than the least of the blocking limits')
  t.match(await ask('track', 10), { status: 200, body: { allowed: false, gateAction: 'upgrade', usage: { current: 10, limit: 2 } } })
  t.match(await ask('check', 1), { status: 200, body: { allowed: false, gateAction: 'upgrade', usage: { current: 10, limit: 2 } } })
  t.match(await admin('GET /tenant/limits/resources/usage?userId=u1'), {
    status: 200,
    body: [{ current: 10, limit: 10, scope: 'user' }, { current: 10, limit: 1000 }, { current: 10, limit: 2 }]
  })
  t.match(await ask('track', 990, { role: 'user' }), { status: 200, body: { allowed: true, usage: { current: 1000, limit: 1000 } } })

  const { key } = (await admin('POST /tenant/api-keys', { body: { name: 'k' } })).body
  const program = caller(t, app, { headers: { 'x-api-key': String(key) } })
  t.same((await program('GET /tenant/limits/resources/usage')).body, [], 'an API key has no role')
})

test('the usage of a user counts for any spelling of its id', async (t) => {
  const app = await testServer(t, { auth: { registration: 'open' } }, { tenants: ['acme'] })
  const admin = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const rules = [{ resource: 'credits', metric: 'count', period: 'month', limit: 10 }]
  t.equal((await admin('PUT /tenant/limits/resources', { body: rules })).status, 200)
  const { id } = await app.users.create({ email: 'uma@example.com', password: 'a password of Uma', role: 'user', tenant: 'acme' }, noActor)
  const ofUser = (userId: string, more: object = {}) => ({ body: { userId, resource: 'credits', metric: 'count', amount: 6, ...more } })

  t.equal((await admin('POST /tenant/limits/resources/track', ofUser(id))).status, 200)
  const capitals = id.toUpperCase()
  t.match((await admin(`GET /tenant/limits/resources/usage?userId=${capitals}`)).body, [{ current: 6 }])
  t.match((await admin('POST /tenant/limits/resources/check', ofUser(capitals))).body, { allowed: false, usage: { current: 6 } })
  refused(t, await admin('POST /tenant/limits/resources/track', ofUser(capitals)), 402, 'RESOURCE_LIMIT')
  refused(t, await admin('POST /tenant/limits/resources/track', ofUser(capitals, { role: 'user' })), 402, 'RESOURCE_LIMIT', 'with its role')
  t.equal((await admin('POST /tenant/limits/resources/track', ofUser('UMA'))).status, 200, 'an id of another issuer')
  t.match((await admin('GET /tenant/limits/resources/usage?userId=uma')).body, [{ current: 0 }], 'whose case counts')
})
