/** Deep role hierarchies, and roles of users whose tenant a gateway names. */
import { sql } from 'kysely'
import { test } from 'tap'
import conventions from '../../../plugins/conventions/index.js'
import { requireRbacGrant } from '../../../plugins/tenant-rbac/grants.js'
import { checkRbac, type RbacConfig, type Role } from '../../../plugins/tenant-rbac/roles.js'
import { testApp } from '../../helpers/app.js'
import { signToken } from '../../helpers/tokens.js'
import { refused } from '../../http/caller.js'
import { open, postgresSection } from '../auth/app.js'

/** Each inherits from the previous one. */
function chain (length: number, permissions: readonly string[] = []): RbacConfig {
  const roles = Array.from(
    { length },
    (_, index): Role => ({ name: `r${index}`, description: null, permissions, parentRole: index === 0 ? null : `r${index - 1}` })
  )
  return { enabled: true, defaultRole: null, roles: new Map(roles.map((role) => [role.name, role])) }
}

test('a chain of roles has at most 16 parents, and is checked with few look-ups', async (t) => {
  t.doesNotThrow(() => checkRbac(chain(17)))
  t.throws(() => checkRbac(chain(18)), { code: 'TENANTRY_ROLE_INVALID', message: 'The role "r17" has more than 16 ancestors' })
  t.throws(
    () =>
      checkRbac({
        ...chain(3),
        roles: new Map([...chain(3).roles, ['r0', { name: 'r0', description: null, permissions: [], parentRole: 'r2' }]])
      }),
    { message: /inherits from itself/ }
  )

  // For each role, the permissions of at most 17 roles are read.
  let looks = 0
  const held = {
    has: () => {
      looks++
      return false
    },
    values: () => []
  }
  const permissions = Array.from({ length: 25 }, (_, index) => `a:${index}`)
  t.throws(() => requireRbacGrant(held, { ...chain(0), enabled: true }, chain(17, permissions)), { code: 'TENANTRY_GRANT_EXCEEDS' })
  t.ok(looks < 200, `${looks} questions`)
})

test('an update without a change writes no entry of the audit log', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: ['acme'], plugins: ['tenant-rbac'] })
  const admin = as({ tenant_id: 'acme', role: 'admin' })
  await admin('POST /tenant/rbac/roles', { body: { name: 'a', permissions: ['x:y'] } })
  t.same((await admin('PUT /tenant/rbac/roles/a', { body: { name: 'a' } })).body, { name: 'a', permissions: ['x:y'] })
  refused(t, await admin('PUT /tenant/rbac/roles/b', { body: { name: 'b' } }), 404, 'NOT_FOUND')
  const { rows } = await sql`select target from tenantry.audit_log where action = 'role.update'`.execute(app.db)
  t.same(rows, [])
})

test('roles of the tenant that a gateway names apply to its users', async (t) => {
  const { app, ask } = await testApp(t, {
    plugins: { tenancy: { trustHeader: true, maxLoadedTenants: 20_000 }, 'tenant-rbac': {} },
    tenants: ['acme', 'globex'],
    routes: (app) =>
      app.register(async (group) => {
        await group.register(conventions)
        group.get('/read', { config: { access: 'user', permissions: ['notes:read'] } }, async () => ({}))
      })
  })
  t.equal(
    (await ask('PUT /tenant/rbac', {
      token: signToken({ role: 'admin', tenant_id: 'acme' }),
      body: { enabled: true, defaultRole: 'reader', roles: [{ name: 'reader', permissions: ['notes:read'] }] }
    })).status,
    200
  )
  const token = signToken({ sub: 'eve' })
  t.equal((await ask('GET /read', { token, tenant: 'acme' })).status, 200)
  refused(t, await ask('GET /read', { token, tenant: 'globex' }), 403, 'FORBIDDEN', 'another tenant has its own')
  refused(t, await ask('GET /read', { token }), 403, 'FORBIDDEN', 'no tenant')
  t.equal(app.tenancy.maxRemembered, 20_000, 'one setting bounds the number of cached tenants')
})
