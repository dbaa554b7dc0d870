/** Tenant ids: unusual ids work like others, and invalid ids name no tenant. */
import { test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../caller.js'
import { createWorld, save, tokenOf } from './world.js'

const odd = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'null',
  'undefined',
  'true',
  '0',
  '-',
  '_',
  '--',
  'admin',
  'public',
  'tenantry',
  'platform',
  'x'.repeat(64),
  'A',
  'a'
]
const wrong = [
  '',
  ' ',
  'a b',
  ' a',
  'a.b',
  '..',
  '.',
  'a/b',
  'a%2Fb',
  'a\\b',
  "a'b",
  'a"b',
  'a;b',
  'a,b',
  'a:b',
  '*',
  '%',
  'ä',
  'а',
  'a\u0000b',
  'a\n',
  'a\u200b',
  '🎉',
  '{{auth.sub}}',
  'x'.repeat(65),
  'x'.repeat(5000)
]

test('tenants with unusual ids work like others', async (t) => {
  const { app, platform, stranger } = await createWorld(t)
  const asks = odd.map((id) => ({ id, ask: caller(t, app, { token: tokenOf(id) }), value: secretText(`the secret of ${id.slice(0, 20)}`) }))
  for (const { id, ask, value } of asks) {
    t.match(await platform('POST /tenants', { body: { id, name: id, plan: 'pro' } }), { status: 201, body: { id } }, id)
    await save(t, ask, [
      { method: 'get', path: '/notes', queries: [{ table: 'notes', operation: 'select' }] },
      {
        method: 'post',
        path: '/notes',
        queries: [{ table: 'notes', operation: 'insert', data: { title: '{{secret:KEY}}', body: '{{tenant.id}}' } }]
      },
      { method: 'get', path: '/said', response: { said: '{{tenant.config.said}}' } }
    ], { settings: { said: id } })
    t.match(await ask('POST /tenant/secrets', { body: { key: 'KEY', value } }), { status: 201 })
  }
  for (const { id, ask, value } of asks) {
    t.match(await ask('POST /notes', { body: {} }), { status: 201, body: { body: id, tenant_id: id } })
    t.match((await ask('GET /notes')).body.data, [{ title: value }], 'its secret is its own')
    t.match((await ask('GET /said')).body, { said: id })
  }
  for (const { id, ask } of asks) {
    t.match((await ask('GET /notes')).body, { data: [{ tenant_id: id }], pagination: { total: 1 } }, `${id} has its own row`)
    t.match((await ask('GET /tenant/info')).body, { id, plan: 'pro' })
    t.match((await stranger('GET /said', { tenant: id })).body, { said: id })
  }
  t.match(await platform('DELETE /tenants/a'), { status: 200 })
  t.match((await caller(t, app, { token: tokenOf('A') })('GET /notes')).body, { pagination: { total: 1 } }, 'ids are case-sensitive')
})

test('an invalid id names no tenant', async (t) => {
  const { app, platform, stranger } = await createWorld(t)
  for (const id of wrong) {
    const label = JSON.stringify(id.slice(0, 30))
    t.match(await platform('POST /tenants', { body: { id, name: 'x' } }), { status: 400 }, `creating a tenant with the id ${label}`)
    refused(t, await stranger('GET /tenant/info', { token: tokenOf(id) }), 401, 'TOKEN_INVALID', `a token for ${label}`)
    // In a URL, these lead to a different path.
    for (const target of /^\.*$/.test(id) ? [] : ['GET /tenants/', 'DELETE /tenants/', 'PATCH /tenants/']) {
      const { status } = await platform(target + encodeURIComponent(id), target.startsWith('PATCH') ? { body: { plan: 'pro' } } : {})
      t.ok([400, 404].includes(status), `${target}${label}: ${status}`)
    }
    if (/^[\x20-\x7e]*$/.test(id) && id.length < 100) {
      const { status } = await platform('GET /tenant/info', { tenant: id })
      // An HTTP parser trims white space around a header's value.
      t.ok(status === 400 || id.trim() === 'a', `the header ${label}: ${status}`)
    }
  }
  for (const id of [null, 1, true, [], ['attacker'], {}, { $ne: '' }]) {
    t.match(await platform('POST /tenants', { body: { id, name: 'x' } }), { status: 400 }, JSON.stringify(id))
    const token = signToken({ sub: 'x', role: 'admin', ...JSON.parse(JSON.stringify({ tenant_id: id })) })
    refused(
      t,
      await caller(t, app)('GET /tenants', { token }),
      401,
      'TOKEN_INVALID',
      `a token with the tenant ${JSON.stringify(id)} is not a platform administrator's`
    )
  }
  t.match(
    await platform('GET /tenants'),
    { body: { data: [{ id: 'attacker' }, { id: 'victim' }], pagination: { total: 2 } } },
    'no tenant was created'
  )
})
