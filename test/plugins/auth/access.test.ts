import type { Claims } from '../../../lib/compiler/types.js'
import t from 'tap'
import { accessLevels, holds, requireCaller, requirePermissions, type Access } from '../../../plugins/auth/access.js'

const missing = { statusCode: 401, message: 'No authorization token provided' }
const insufficient = { statusCode: 403, message: 'Insufficient permissions' }
const user: Claims = { sub: 'u' }
const writer: Claims = { sub: 'w', tenant_id: 'acme', permissions: ['secrets:write'] }
const tenantAdmin: Claims = { sub: 'a', role: 'admin', tenant_id: 'acme' }
const platformAdmin: Claims = { sub: 'p', role: 'admin' }

t.test('each access level lets in whom it names', async (t) => {
  const callers = { none: null, user, writer, tenantAdmin, platformAdmin }
  const expected: Record<Access, readonly (typeof missing | null)[]> = {
    public: [null, null, null, null, null],
    open: [null, null, null, null, null],
    user: [missing, null, null, null, null],
    'tenant-admin': [missing, insufficient, null, null, null],
    'platform-admin': [missing, insufficient, insufficient, insufficient, null]
  }
  for (const access of accessLevels) {
    for (const [index, [name, auth]] of Object.entries(callers).entries()) {
      const error = expected[access][index]
      const call = () => requireCaller({ auth }, access, 'secrets:write')
      if (error === null || error === undefined) t.doesNotThrow(call, `${name} on ${access}`)
      else t.throws(call, error, `${name} on ${access}`)
    }
  }
})

t.test('without a permission on the route, tenant-admin is for administrators alone', async (t) => {
  t.throws(() => requireCaller({ auth: { ...writer, permissions: ['*'] } }, 'tenant-admin'), insufficient)
  t.doesNotThrow(() => requireCaller({ auth: tenantAdmin }, 'tenant-admin'))
})

t.test('a permission is held by name, by resource:*, by * and by the role admin', async (t) => {
  const holding = (...permissions: string[]) => ({ sub: 'u', permissions })
  t.ok(holds(holding('articles:write'), 'articles:write'))
  t.ok(holds(holding('articles:*'), 'articles:write'))
  t.ok(holds(holding('*'), 'articles:write'))
  t.ok(holds(tenantAdmin, 'articles:write'))
  t.notOk(holds(holding('articles:read', 'article:*', 'articles', '', ':*', 'articles:writer'), 'articles:write'))
  t.notOk(holds(holding('articles:write'), '*'))
  t.notOk(holds(holding('articles:write'), 'articles:*'))
  t.notOk(holds({ sub: 'u', role: 'Admin' }, 'articles:write'))
  t.notOk(holds(user, 'articles:write'))
})

t.test('every one of the permissions must be held', async (t) => {
  t.doesNotThrow(() => requirePermissions({ sub: 'u', permissions: ['a:b', 'c:*'] }, ['a:b', 'c:d']))
  t.throws(() => requirePermissions({ sub: 'u', permissions: ['a:b'] }, ['a:b', 'c:d']), insufficient)
  t.throws(() => requirePermissions(null, ['a:b']), missing)
  t.doesNotThrow(() => requirePermissions(null, []))
})
