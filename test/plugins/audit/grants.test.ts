import { test } from 'tap'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'
import { makeKey } from '../api-keys/key.js'

/** Texts of the log have at most 256 characters. */
const long = [1, 2, 3].map((n) => `notes:${'x'.repeat(120)}${n}`)

test('the log has every permission that a key or a role grants, also behind long names', async (t) => {
  const app = await testServer(t, {}, { tenants: ['acme'] })
  const ada = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const entries = async (action: string) =>
    (await ada(`GET /audit?action=${action}`)).body.data?.map(({ action, target, details }) => ({ action, target, details }))

  const { id } = await makeKey(t, ada, { scopes: [...long, '*'] })
  t.match(await entries('api_key.create'), [{ target: id, details: { scopes: [...long, '*'] } }])

  t.equal((await ada('POST /tenant/rbac/roles', { body: { name: 'editor', permissions: [...long, 'users:write'] } })).status, 201)
  t.match(await entries('role.create'), [{ target: 'editor', details: { permissions: [...long, 'users:write'] } }])
})

test('the log has each role that a new configuration adds, changes or removes', async (t) => {
  const app = await testServer(t, {}, { tenants: ['acme'] })
  const ada = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const replace = async (roles: readonly object[]) => {
    await app.db.deleteFrom('tenantry.audit_log').execute()
    t.equal((await ada('PUT /tenant/rbac', { body: { enabled: true, roles } })).status, 200)
    const { data = [] } = (await ada('GET /audit?action=role.*')).body
    return data.reverse().map(({ action, target, details }) => [action, target, details])
  }
  const all = (names: readonly string[]) => ['role.replace', null, { enabled: true, defaultRole: null, roles: names }]
  const reader = { name: 'reader', permissions: ['notes:read'] }

  t.same(await replace([reader, { name: 'editor', permissions: long }]), [
    all(['reader', 'editor']),
    ['role.create', 'reader', { permissions: ['notes:read'], parentRole: null }],
    ['role.create', 'editor', { permissions: long, parentRole: null }]
  ])
  t.same(await replace([reader, { name: 'editor', permissions: [...long, '*'], parentRole: 'reader' }]), [
    all(['reader', 'editor']),
    ['role.update', 'editor', { permissions: [...long, '*'], parentRole: 'reader' }]
  ], 'a role that was widened')
  t.same(await replace([reader]), [all(['reader']), ['role.delete', 'editor', null]])
})
