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

  for (const action of ['check', 'track']) {
    const unknown = await acme(`POST /tenant/limits/resources/${action}`, use('u1'))
    refused(t, unknown, 400, 'VALIDATION_FAILED', action)
    t.match(unknown.body, { details: [{ path: '/body/role', message: /is required/ }] })
  }
  t.match(await acme('GET /tenant/limits/resources/usage?userId=u1'), { status: 400, body: { details: [{ path: '/query/role' }] } })
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
