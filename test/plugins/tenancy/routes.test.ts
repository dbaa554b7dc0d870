import { test } from 'tap'
import { forEachEngine } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'

const platform = signToken({ role: 'admin', sub: 'root' })

test('the platform creates, lists, changes and deletes tenants', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, {}, { engine })
    const ask = caller(t, app, { token: platform })
    const made = await ask('POST /tenants', { body: { id: 'acme', name: 'Acme & Sons', plan: 'pro' } })
    t.match(made, {
      status: 201,
      body: { id: 'acme', name: 'Acme & Sons', plan: 'pro', status: 'active', createdAt: /^\d{4}-\d\d-\d\dT.*Z$/ }
    })
    t.match(await ask('POST /tenants', { body: { id: 'globex', name: 'Globex' } }), { status: 201, body: { plan: 'free' } })
    refused(t, await ask('POST /tenants', { body: { id: 'acme', name: 'again' } }), 409, 'CONFLICT')
    t.same((await ask('GET /tenants/acme')).body, made.body)
    t.same((await ask('GET /tenants')).body, {
      data: [made.body, (await ask('GET /tenants/globex')).body],
      pagination: { limit: 20, offset: 0, total: 2 }
    })
    t.match((await ask('GET /tenants?limit=1000&offset=1')).body, {
      data: [{ id: 'globex' }],
      pagination: { limit: 100, offset: 1, total: 2 }
    })
    t.match(await ask('PATCH /tenants/acme', { body: { name: 'A', plan: 'team', status: 'suspended' } }), {
      status: 200,
      body: { id: 'acme', name: 'A', plan: 'team', status: 'suspended' }
    })
    t.match((await ask('GET /tenants/acme')).body, { name: 'A', plan: 'team', status: 'suspended' })
    t.same((await ask('DELETE /tenants/acme')).body, { success: true })
    for (const target of ['GET /tenants/acme', 'DELETE /tenants/acme']) refused(t, await ask(target), 404, 'TENANT_UNKNOWN', target)
    refused(t, await ask('PATCH /tenants/acme', { body: { name: 'x' } }), 404, 'TENANT_UNKNOWN')
    t.match((await ask('GET /tenants')).body, { data: [{ id: 'globex' }], pagination: { total: 1 } })
  }))

test('the endpoints reject invalid requests and other callers', async (t) => {
  const app = await testServer(t, {}, { tenants: [{ id: 'acme', plan: 'enterprise' }, 'globex'] })
  const ask = caller(t, app, { token: platform })

  await t.test('only the platform manages tenants, and others learn nothing', async (t) => {
    const targets = [
      'GET /tenants',
      'POST /tenants',
      'GET /tenants/acme',
      'PATCH /tenants/acme',
      'DELETE /tenants/acme',
      'GET /tenants/nobody',
      'DELETE /tenants/a.b'
    ]
    for (
      const claims of [{ role: 'admin', tenant_id: 'acme' }, { permissions: ['*'] }, {
        role: 'platform-admin',
        tenant_id: 'acme',
        permissions: ['*', 'tenants:write']
      }]
    ) {
      for (const target of targets) {
        refused(
          t,
          await ask(target, { token: signToken(claims), ...(/^(?:POST|PATCH)/.test(target) && { body: { nonsense: true } }) }),
          403,
          'FORBIDDEN',
          target
        )
      }
    }
    for (const target of targets) refused(t, await caller(t, app)(target), 401, 'TOKEN_MISSING', target)
    t.equal((await ask('GET /tenants')).body.data?.length, 2)
  })

  await t.test('names, plans, ids and pages are bounded', async (t) => {
    const wrong: [string, unknown][] = [
      ['POST /tenants', { id: 'x' }],
      ['POST /tenants', { id: 'x', name: '' }],
      ['POST /tenants', { id: 'x', name: 'n'.repeat(201) }],
      ['POST /tenants', { id: 'x', name: 7 }],
      ['POST /tenants', { id: 'x', name: 'n', plan: 'gold' }],
      ['POST /tenants', { id: 'x', name: 'n', status: 'deleting' }],
      ['POST /tenants', [{ id: 'x', name: 'n' }]],
      ['PATCH /tenants/acme', {}],
      ['PATCH /tenants/acme', { id: 'other' }],
      ['PATCH /tenants/acme', { status: 'deleting' }],
      ['PATCH /tenants/acme', { plan: null }],
      ['PATCH /tenants/acme', { created_at: '2020-01-01' }]
    ]
    for (const [target, body] of wrong) {
      refused(t, await ask(target, { body }), 400, 'VALIDATION_FAILED', `${target} ${JSON.stringify(body).slice(0, 60)}`)
    }
    for (const query of ['limit=0', 'limit=x', 'offset=-1', 'order=id']) {
      refused(t, await ask(`GET /tenants?${query}`), 400, 'VALIDATION_FAILED', query)
    }
    for (const name of ['a\u0000b', 'a\ud800b']) refused(t, await ask('POST /tenants', { body: { id: 'x', name } }), 400, 'VALIDATION_FAILED', name)
    t.match(await ask('POST /tenants', { body: { id: 'x', name: 'é'.repeat(200) } }), { status: 201 })
    t.match((await ask('GET /tenants?limit=5&offset=9007199254740991')).body, { data: { length: 0 }, pagination: { total: 3 } })
  })

  await t.test("GET /tenant/info returns a user's tenant and the limits of its plan", async (t) => {
    const { body: { createdAt } } = await ask('GET /tenants/acme')
    t.same((await ask('GET /tenant/info', { token: signToken({ tenant_id: 'acme' }) })).body, {
      id: 'acme',
      name: 'acme',
      plan: 'enterprise',
      createdAt,
      limits: { apiCalls: 10_000, llmTokens: -1, storage: -1 }
    })
    t.match((await ask('GET /tenant/info', { tenant: 'globex' })).body, {
      id: 'globex',
      plan: 'free',
      limits: { apiCalls: 100, llmTokens: 100_000, storage: 209_715_200 }
    }, 'the platform names a tenant')
    await ask('PATCH /tenants/globex', { body: { plan: 'pro' } })
    t.match((await ask('GET /tenant/info', { token: signToken({ tenant_id: 'globex' }) })).body, {
      plan: 'pro',
      limits: { apiCalls: 1000, llmTokens: 10_000_000, storage: 5_368_709_120 }
    }, 'a changed plan applies at once')
    refused(t, await ask('GET /tenant/info'), 400, 'TENANT_REQUIRED')
    refused(t, await ask('GET /tenant/info', { token: signToken({}) }), 400, 'TENANT_REQUIRED', 'a user without a tenant')
    refused(t, await caller(t, app)('GET /tenant/info', { tenant: 'acme' }), 401, 'TOKEN_MISSING', 'an anonymous caller')
  })
})
