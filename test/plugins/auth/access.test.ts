import t from 'tap'
import type { Claims } from '../../../lib/expressions/types.js'
import { type Access, accessLevels, hasPermission, requireCaller, requirePermissions } from '../../../plugins/auth/access.js'
import { noPermissions, type PermissionSet } from '../../../plugins/auth/permissions.js'

const missing = { statusCode: 401, message: 'No authorization token provided' }
const insufficient = { statusCode: 403, message: 'Insufficient permissions' }
const user: Claims = { sub: 'u' }
const writer: Claims = { sub: 'w', tenant_id: 'acme', permissions: ['secrets:write'] }
const tenantAdmin: Claims = { sub: 'a', role: 'admin', tenant_id: 'acme' }
const platformAdmin: Claims = { sub: 'p', role: 'admin' }

/** A request of a caller whose role grants these permissions. */
function from (auth: Claims | null, given: PermissionSet | Promise<PermissionSet> = noPermissions) {
  return { auth, server: { auth: { permissionsOf: () => given } } }
}

t.test('each access level admits the callers that it names', async (t) => {
  const callers = { none: null, user, writer, tenantAdmin, platformAdmin }
  const expected: Record<Access, readonly (typeof missing | null)[]> = {
    public: [null, null, null, null, null],
    open: [null, null, null, null, null],
    partial: [missing, null, null, null, null],
    user: [missing, null, null, null, null],
    'tenant-admin': [missing, insufficient, null, null, null],
    'platform-admin': [missing, insufficient, insufficient, insufficient, null]
  }
  for (const access of accessLevels) {
    for (const [index, [name, auth]] of Object.entries(callers).entries()) {
      const error = expected[access][index]
      const call = () => requireCaller(from(auth), access, 'secrets:write')
      if (error === null || error === undefined) t.doesNotThrow(call, `${name} on ${access}`)
      else t.throws(call, error, `${name} on ${access}`)
    }
  }
})

t.test('without a permission on the route, tenant-admin admits only administrators', async (t) => {
  t.throws(() => requireCaller(from({ ...writer, permissions: ['*'] }, new Set(['*'])), 'tenant-admin'), insufficient)
  t.doesNotThrow(() => requireCaller(from(tenantAdmin), 'tenant-admin'))
})

t.test('a permission is granted by its name, by resource:*, by * and by the role admin', async (t) => {
  const holding = (...permissions: string[]) => from({ sub: 'u', permissions })
  t.ok(hasPermission(holding('articles:write'), 'articles:write'))
  t.ok(hasPermission(holding('articles:*'), 'articles:write'))
  t.ok(hasPermission(holding('*'), 'articles:write'))
  t.ok(hasPermission(from(tenantAdmin), 'articles:write'))
  t.notOk(hasPermission(holding('articles:read', 'article:*', 'articles', '', ':*', 'articles:writer'), 'articles:write'))
  t.notOk(hasPermission(holding('articles:write'), '*'))
  t.notOk(hasPermission(holding('articles:write'), 'articles:*'))
  t.notOk(hasPermission(from({ sub: 'u', role: 'Admin' }), 'articles:write'))
  t.notOk(hasPermission(from(user), 'articles:write'))
})

t.test('a caller needs every one of the permissions', async (t) => {
  t.doesNotThrow(() => requirePermissions(from({ sub: 'u', permissions: ['a:b', 'c:*'] }), ['a:b', 'c:d']))
  t.throws(() => requirePermissions(from({ sub: 'u', permissions: ['a:b'] }), ['a:b', 'c:d']), insufficient)
  t.throws(() => requirePermissions(from(null), ['a:b']), missing)
  t.doesNotThrow(() => requirePermissions(from(null), []))
})

t.test("the role's permissions add to the caller's own, and are awaited if they are not known yet", async (t) => {
  const caller = { sub: 'u', permissions: ['a:b'] }
  const given = new Set(['c:*'])
  t.equal(hasPermission(from(caller, given), 'c:d'), true)
  t.equal(requirePermissions(from(caller, given), ['a:b', 'c:d']), undefined)
  t.equal(requireCaller(from(user, given), 'tenant-admin', 'c:d'), undefined)
  t.throws(() => requirePermissions(from(caller, given), ['a:b', 'c:d', 'e:f']), insufficient)
  t.equal(await hasPermission(from(caller, Promise.resolve(given)), 'c:d'), true)
  t.equal(await hasPermission(from(user, Promise.resolve(given)), 'a:b'), false)
  await t.resolves(async () => requireCaller(from(user, Promise.resolve(given)), 'tenant-admin', 'c:d'))
  await t.rejects(async () => requirePermissions(from(caller, Promise.resolve(given)), ['a:b', 'e:f']), insufficient)
  await t.rejects(async () => requireCaller(from(user, Promise.resolve(given)), 'tenant-admin', 'e:f'), insufficient)
})

t.test('no permission replaces a role: `*` opens no platform endpoint', async (t) => {
  const caller = from({ sub: 'u', permissions: ['*'] }, new Set(['*', 'admin']))
  t.throws(() => requireCaller(caller, 'platform-admin', 'tenants:write'), {
    ...insufficient,
    extras: { details: [{ message: /needs an administrator of the platform: the role "admin" in a token without `tenant_id`/ }] }
  })
  t.throws(() => requireCaller(caller, 'tenant-admin'), insufficient)
})
