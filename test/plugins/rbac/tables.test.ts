/** The tables of the platform's roles: names from a document, and their creation. */
import { test } from 'tap'
import { checkConfig } from '../../../lib/configuration/index.js'
import { defaultRoleTables } from '../../../lib/database/declared-tables.js'
import { createEngine } from '../../../lib/database/index.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'
import { faultsOf } from '../../lib/configuration/documents.js'
import { openEngine, rejection, withoutTenant } from '../../lib/database/open.js'
import { makeRole } from './roles.js'

const faults = (rbac: unknown, more: object = {}) => faultsOf({ routes: [], rbac, ...more })

test('a document can name the tables', async (t) => {
  t.strictSame(
    faults({ enabled: true, rolesTable: 'order', permissionsTable: '_p1', userRolesTable: 'x'.repeat(63), defaultRole: 'Content editor' }),
    []
  )
  t.match(faults({}), [/^\/rbac\/enabled: missing/])
  for (
    const name of [
      '',
      'Roles',
      '1roles',
      'a-b',
      'a.b',
      'ro"les',
      'roles; drop table x',
      'public.roles',
      'rölés',
      'x'.repeat(64),
      '__PROTO__'
    ]
  ) {
    for (const member of ['rolesTable', 'permissionsTable', 'userRolesTable']) {
      t.match(faults({ enabled: true, [member]: name }), [new RegExp(`^/rbac/${member}: expected 1 to 63 of`)], `${member} ${name}`)
    }
  }
  for (const name of ['tenants', 'migrations', 'secrets', 'tenant_roles', 'audit_log', 'deleted_tenants', 'role_permissions']) {
    t.match(faults({ enabled: true, userRolesTable: name }), [/^\/rbac\/userRolesTable: .* is another table of the server/], name)
  }
  t.match(faults({ enabled: true, rolesTable: 'a', userRolesTable: 'a' }), ['/rbac/userRolesTable: "a" is already the `rolesTable`'])
  t.match(
    faults({ enabled: true, rolesTable: 'user_roles' }),
    ['/rbac/userRolesTable: "user_roles" is already the `rolesTable`'],
    'the default name, too'
  )
  for (const defaultRole of ['', ' x', 'a\nb', 'x'.repeat(101)]) {
    t.match(faults({ enabled: true, defaultRole }), [/^\/rbac\/defaultRole: expected/])
  }
  t.match(faults({ enabled: true, tables: {} }), [/^\/rbac\/tables: unknown member/])

  // The group is off: its tables are missing, and its paths are free.
  const routes = [{ path: '/rbac/roles', method: 'get', response: {} }]
  const of = (document: Record<string, unknown>) =>
    Object(checkConfig(Object.assign({ routes: [] }, document), { env: {} })).database.roleTables
  t.strictSame(of({ rbac: { enabled: true } }), defaultRoleTables)
  for (const off of [{}, { rbac: { enabled: false } }, { rbac: { enabled: true }, plugins: { rbac: false }, routes }]) {
    t.equal(of(off), undefined)
  }
  t.match(faults({ enabled: true }, { routes }), [/^\/routes\/0\/path: /])
  t.strictSame(
    faults({ enabled: true }, {
      routes: [{ path: '/r', method: 'get', queries: [{ table: 'roles', operation: 'select' }] }],
      tables: { roles: { columns: { id: { type: 'integer', primaryKey: true } } } }
    }),
    [],
    "the application's table with the same name is separate"
  )
})

test('each name is a migration, which a server with another document recognizes', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { provider: 'postgres', postgres: { connectionString } } as const
  const base = await openEngine(t, { ...postgres, migrate: 'auto' })
  t.equal(base.roleTables, null)
  const names = async (roleTables: typeof defaultRoleTables) => {
    const { migrations, tables } = await (await openEngine(t, { ...postgres, roleTables, migrate: 'manual' })).migration.plan()
    return {
      migrations: migrations.map(({ name }) => name.replace(/^\d+_/, '')),
      tables: Object.entries(tables).filter(([name]) => /role|permission|who/.test(name) && name !== 'tenantry.tenant_roles').map((
        [name, there]
      ) => `${name} ${String(there)}`)
    }
  }
  t.strictSame(await names(defaultRoleTables), {
    migrations: ['roles_table_roles', 'permissions_table_permissions', 'role_permissions', 'user_roles_table_user_roles'],
    tables: ['tenantry.roles false', 'tenantry.permissions false', 'tenantry.role_permissions false', 'tenantry.user_roles false']
  })
  const engine = await openEngine(t, { ...postgres, roleTables: defaultRoleTables, migrate: 'auto' })
  t.strictSame(await engine.pendingMigrations(), [])
  t.strictSame(await base.pendingMigrations(), [], 'a server without roles still works')
  t.strictSame(await names({ ...defaultRoleTables, userRoles: 'who_has' }), {
    migrations: ['user_roles_table_who_has'],
    tables: ['tenantry.roles true', 'tenantry.permissions true', 'tenantry.role_permissions true', 'tenantry.who_has false']
  }, 'another name is another table')
  t.strictSame((await names({ roles: 'permissions', permissions: 'roles', userRoles: 'user_roles' })).migrations, [
    'roles_table_permissions',
    'permissions_table_roles'
  ])
  t.match(await rejection(createEngine({ ...postgres, roleTables: { ...defaultRoleTables, roles: 'permissions' }, migrate: 'auto' })), {
    code: 'TENANTRY_CONFLICT',
    message: /roles_table_permissions cannot be applied: relation "permissions" already exists/
  }, 'a table with another use')

  await query("insert into tenantry.migrations (name) values ('900_roles_table_of another kind')")
  t.match(await rejection(createEngine({ ...postgres, roleTables: defaultRoleTables })), {
    message: /newer than this version.*900_roles_table_of another kind/
  })
})

test('policies isolate role assignments, like all tenant data', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true, pool: { max: 2 } }
  const app = await testServer(t, {
    rbac: { enabled: true, userRolesTable: 'user' },
    routes: [{ method: 'get', path: '/read', requiredPermissions: ['a:b'], response: {} }]
  }, { engine: { provider: 'postgres', postgres }, tenants: ['a', 'b'] })
  const ask = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })
  const { id: roleId } = await makeRole(t, ask, { name: 'r', permissions: ['a:b'] })
  for (const tenant of ['a', 'b']) t.equal((await ask('POST /rbac/assign', { tenant, body: { userId: tenant, roleId } })).status, 201)
  for (const [sub, tenant, status] of [['a', 'a', 200], ['b', 'b', 200], ['a', 'b', 403]] as const) {
    t.equal((await ask('GET /read', { token: signToken({ sub, tenant_id: tenant }) })).status, status, `${sub} of ${tenant}`)
  }
  t.equal(
    await app.engine.text({ text: 'select string_agg(user_id, \',\') from tenantry."user"' }, [], { tenant: tenantRef('a') }),
    'a',
    "a tenant's session sees its own"
  )
  t.equal(await app.engine.text({ text: 'select string_agg(user_id, \',\') from tenantry."user"' }, [], withoutTenant), null)
  t.equal((await ask('DELETE /tenants/a')).status, 200)
  t.same(await admin('select user_id from tenantry."user"'), [{ user_id: 'b' }])
  const { body: { sql } } = await ask('GET /migration/quick-fix')
  t.match(sql, /alter table tenantry\."user" disable row level security/, 'development mode can disable them')
})

test('without its tables the group reports them as missing, and recovers when they exist', async (t) => {
  const app = await testServer(t, { rbac: { enabled: true, defaultRole: 'r' }, migrate: 'manual' }, {
    engine: await postgresSection(t)
  })
  const ask = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })
  refused(t, await ask('GET /rbac/roles'), 503, 'SCHEMA_CHANGED')
  t.match((await ask('GET /migration/status')).body, { ready: false, tables: { 'tenantry.roles': false, 'tenantry.user_roles': false } })
  t.match((await ask('POST /migration/apply')).body['applied'], /role_permissions/)
  t.match(await ask('POST /rbac/roles', { body: { name: 'r' } }), { status: 201 })
  t.match((await ask('GET /migration/status')).body, { ready: true, tables: { 'tenantry.roles': true, 'tenantry.user_roles': true } })
})
