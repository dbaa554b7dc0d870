/** The platform's roles: their permissions, users, servers and lifetime. */
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { defaultRoleTables } from '../../../lib/database/declared-tables.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import conventions from '../../../plugins/conventions/index.js'
import { testApp } from '../../helpers/app.js'
import { type TestDocument, testServer, testServers } from '../../helpers/server.js'
import { signToken, type TokenClaims } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller, refused } from '../../http/caller.js'
import { openEngine, run } from '../../lib/database/open.js'
import { postgresSection, statuses } from '../auth/app.js'
import { makeRole } from './roles.js'

const platform = { token: signToken({ sub: 'root', role: 'admin' }) }
const document = {
  rbac: { enabled: true, defaultRole: 'reader' },
  routes: [
    { method: 'get', path: '/read', requiredPermissions: ['notes:read'], response: {} },
    { method: 'get', path: '/write', requiredPermissions: ['notes:write'], response: {} }
  ]
} as const satisfies TestDocument

const mayNot = { '/read': 403, '/write': 403 }
const mayRead = { '/read': 200, '/write': 403 }
const mayWrite = { '/read': 403, '/write': 200 }
const may = { '/read': 200, '/write': 200 }

/** The permissions of a token's user. */
const accessOf = (ask: Ask, claims: TokenClaims) =>
  statuses((target, request) => ask(target, { ...request, token: signToken(claims) }), '/read', '/write')

/** A role, created by a platform administrator. */
const make = async (t: Test, ask: Ask, name: string, permissions: readonly string[]) =>
  (await makeRole(t, (target, request) => ask(target, { ...platform, ...request }), { name, permissions })).id

test('roles give their permissions only to their users, on every server', async (t) => {
  const engine = await postgresSection(t)
  await t.rejects(testServer(t, document, { engine }), {
    message:
      'there is no role "reader", which is set in rbac.defaultRole: start without rbac.defaultRole, create the role with POST /rbac/roles, and then set it; or insert it into tenantry.roles'
  }, 'in a database with only empty tables')
  await run(
    await openEngine(t, { ...engine, roleTables: defaultRoleTables, migrate: 'manual' }),
    "insert into tenantry.roles (name) values ('reader')"
  )
  const [here, there] = await testServers(t, document, { engine, tenants: ['acme', 'globex'] })
  const [ask, elsewhere] = [caller(t, here), caller(t, there)]
  const u = { sub: 'u', tenant_id: 'acme' }
  const others: TokenClaims[] = [{ ...u, sub: 'v' }, { ...u, tenant_id: 'globex' }, { sub: 'u' }, { ...u, sub: 'U' }]
  /** At once here, and soon there. */
  const becomes = async (claims: TokenClaims, expected: Record<string, number>, why: string) => {
    t.same(await accessOf(ask, claims), expected, why)
    await until(`${why}, on the other server`, async () => JSON.stringify(await accessOf(elsewhere, claims)) === JSON.stringify(expected))
  }

  for (const server of [ask, elsewhere]) t.same(await accessOf(server, u), mayNot, 'the default role has no permissions yet')
  const reader = String((await ask('GET /rbac/roles', platform)).body.data?.[0]?.['id'])
  for (const name of ['notes:read', 'files:read', 'notes:*']) {
    t.equal((await ask('POST /rbac/permissions', { ...platform, body: { name } })).status, 201)
  }
  t.equal((await ask(`PUT /rbac/roles/${reader}`, { ...platform, body: { permissions: ['notes:read'] } })).status, 200)
  for (const claims of [u, ...others]) await becomes(claims, mayRead, 'the default role')
  const editor = await make(t, ask, 'editor', ['notes:write'])
  t.equal((await ask('POST /rbac/assign', { ...platform, tenant: 'acme', body: { userId: 'u', roleId: editor } })).status, 201)
  await becomes(u, mayWrite, 'a user with a role does not have the default one')
  for (const claims of others) await becomes(claims, mayRead, 'and no other user has it')
  t.same((await ask('GET /rbac/users/v/permissions', { ...platform, tenant: 'acme' })).body, { permissions: ['notes:read'] })
  t.same((await ask('GET /rbac/users/v/roles', { ...platform, tenant: 'acme' })).body.data, [])
  t.same((await ask('GET /rbac/users/u/permissions', { ...platform, tenant: 'acme' })).body, { permissions: ['notes:write'] })
  t.same(await accessOf(ask, { ...u, permissions: ['notes:read'] }), may, "in addition to the token's own")

  t.equal((await ask('POST /rbac/assign', { ...platform, tenant: 'acme', body: { userId: 'u', roleId: reader } })).status, 201)
  await becomes(u, may, 'two roles add up')
  t.equal((await ask(`PUT /rbac/roles/${editor}`, { ...platform, body: { permissions: ['files:read'] } })).status, 200)
  await becomes(u, mayRead, 'a role that changed')
  t.equal((await ask(`PUT /rbac/roles/${editor}`, { ...platform, body: { permissions: ['notes:*'] } })).status, 200)
  await becomes(u, may, 'a wildcard')
  const { body } = await ask('GET /rbac/permissions', platform)
  t.equal(
    (await ask(`DELETE /rbac/permissions/${String(body.data?.find(({ name }) => name === 'notes:*')?.['id'])}`, platform)).status,
    200
  )
  await becomes(u, mayRead, 'a permission that is gone')
  t.equal((await ask('DELETE /rbac/unassign', { ...platform, tenant: 'acme', body: { userId: 'u', roleId: reader } })).status, 200)
  await becomes(u, mayNot, 'a role that was taken away')
  t.equal((await ask(`DELETE /rbac/roles/${editor}`, platform)).status, 200)
  refused(t, await ask(`DELETE /rbac/roles/${reader}`, platform), 409, 'ROLE_IN_USE', 'the default role stays')
  refused(t, await ask(`PUT /rbac/roles/${reader}`, { ...platform, body: { name: 'writer' } }), 409, 'ROLE_IN_USE', 'and keeps its name')
  t.match(await ask(`PUT /rbac/roles/${reader}`, { ...platform, body: { name: 'reader', description: 'Everybody' } }), {
    status: 200,
    body: { permissions: ['notes:read'] }
  })
  await becomes(u, mayRead, 'without roles the default one again')

  // On two servers at once, in any order: no user has a deleted role, of two roles with one name there is one, and no user has 101.
  const both = (target: string, body: object, tenant = 'acme') =>
    Promise.all([ask, elsewhere].map((server) => server(target, { ...platform, tenant, body })))
  for (let round = 0; round < 4; round++) {
    const made = await both('POST /rbac/roles', { name: `race${round}`, permissions: ['notes:read'] })
    t.same(made.map(({ status }) => status).sort(), [201, 409])
    const roleId = String(made.find(({ status }) => status === 201)?.body['id'])
    const responses = (await Promise.all([
      ...Array.from({ length: 4 }, (_, user) => both('POST /rbac/assign', { userId: `u${user}`, roleId })),
      both(`DELETE /rbac/roles/${roleId}`, {}),
      both(`PUT /rbac/roles/${roleId}`, { permissions: ['files:read'] }),
      both('DELETE /rbac/unassign', { userId: 'u0', roleId })
    ])).flat().map(({ status }) => status)
    t.ok(responses.every((status) => [200, 201, 404].includes(status)), responses.join(' '))
    const { rows } = await sql<
      { left: number }
    >`select (select count(*) from tenantry.user_roles where role_id = ${roleId})::int + (select count(*) from tenantry.role_permissions where role_id = ${roleId})::int as left`
      .execute(here.db)
    t.same(rows, [{ left: 0 }], 'nothing remains of a role that was assigned during its deletion')
  }
  await sql`insert into tenantry.user_roles (tenant_id, user_id, role_id) select 'acme', 'full', gen_random_uuid() from generate_series(1, 99)`
    .execute(here.db)
  const last = await make(t, ask, 'last', [])
  const hundredth = await Promise.all(
    ([[ask, reader], [elsewhere, last]] as const).map(([server, roleId]) =>
      server('POST /rbac/assign', { ...platform, tenant: 'acme', body: { userId: 'full', roleId } })
    )
  )
  t.same(hundredth.map(({ status }) => status).sort(), [201, 409], 'of two at a time, one is the hundredth')
  await becomes(u, mayRead, 'all of which is nothing to others')

  const { body: { key } } = await ask('POST /tenant/api-keys', {
    token: signToken({ sub: 'a', role: 'admin', tenant_id: 'acme' }),
    body: { name: 'k' }
  })
  t.equal((await ask('GET /read', { headers: { 'x-api-key': String(key) } })).status, 403, 'a key has no role, not even the default one')
  for (const sub of ['x'.repeat(600), 'a\u0000b', '\ud800', '__proto__', "' or true --"]) {
    t.same(await accessOf(ask, { ...u, sub }), mayRead, 'a user that cannot have a role has the default one')
  }

  // Cached data needs no database.
  await sql`alter table tenantry.user_roles rename to away`.execute(here.db)
  t.same(await accessOf(ask, u), mayRead)
  refused(t, await ask('GET /read', { token: signToken({ ...u, sub: 'cold' }) }), 503, 'SCHEMA_CHANGED')
  t.notOk(here.auth.permissionsOf({ ...u }, tenantRef('acme')) instanceof Promise, 'a warm request waits for nothing')
  await sql`alter table tenantry.away rename to user_roles`.execute(here.db)
})

test('no role makes a platform administrator, and only platform administrators manage roles', async (t) => {
  const app = await testServer(t, {
    rbac: { enabled: true },
    cache: { enabled: true, provider: 'memory' },
    routes: [...document.routes, {
      method: 'get',
      path: '/cached',
      requiredPermissions: ['notes:read'],
      cache: { enabled: true, ttl: 60 },
      response: {}
    }]
  }, { engine: await postgresSection(t), tenants: ['acme', 'globex'] })
  const ask = caller(t, app)
  const all = await make(t, ask, 'admin', ['*', 'rbac:write', 'platform:admin', 'admin:*'])
  for (const request of [{ tenant: 'acme' }, {}]) {
    t.equal((await ask('POST /rbac/assign', { ...platform, ...request, body: { userId: 'eve', roleId: all } })).status, 201)
  }

  const ofTenant = signToken({ sub: 'eve', tenant_id: 'acme' })
  const ofPlatform = signToken({ sub: 'eve' })
  t.equal((await ask('GET /tenant/secrets', { token: ofTenant })).status, 200, 'everything within its tenant')
  refused(t, await ask('GET /tenant/secrets', { token: ofTenant, tenant: 'globex' }), 403, 'TENANT_MISMATCH', 'nothing of another tenant')
  refused(
    t,
    await ask('GET /tenant/secrets', { token: ofPlatform, tenant: 'acme' }),
    403,
    'TENANT_MISMATCH',
    "the platform's user names no tenant"
  )
  refused(
    t,
    await ask('GET /write', { token: signToken({ sub: 'eve', tenant_id: 'globex' }) }),
    403,
    'FORBIDDEN',
    'the same sub in another tenant'
  )

  const callers: Record<string, string> = {
    'a user with every permission': ofTenant,
    "the platform's user with every permission": ofPlatform,
    'an administrator of a tenant': signToken({ sub: 'a', role: 'admin', tenant_id: 'acme' }),
    'a role of that name': signToken({ sub: 'x', role: 'Admin', permissions: ['*'] })
  }
  const pair = { userId: 'eve', roleId: all }
  for (const [who, token] of Object.entries(callers)) {
    for (
      const [target, body] of [
        ['GET /rbac/roles'],
        ['GET /rbac/permissions'],
        ['GET /rbac/users/eve/roles'],
        ['GET /rbac/users/eve/permissions'],
        [`GET /rbac/roles/${all}`],
        ['POST /rbac/roles', { name: 'mine', permissions: ['*'] }],
        ['POST /rbac/roles', { nonsense: true }],
        [`PUT /rbac/roles/${all}`, { permissions: [] }],
        [`DELETE /rbac/roles/${all}`],
        ['POST /rbac/permissions', { name: 'a:b' }],
        [`DELETE /rbac/permissions/${all}`],
        ['POST /rbac/assign', { ...pair, userId: 'a' }],
        ['POST /rbac/assign', {}],
        ['DELETE /rbac/unassign', pair],
        ['GET /tenants'],
        ['GET /migration']
      ] as const
    ) refused(t, await ask(target, { token, ...body !== undefined && { body } }), 403, 'FORBIDDEN', `${target} by ${who}`)
  }
  t.same((await ask('GET /rbac/roles', platform)).body.pagination, { limit: 20, offset: 0, total: 1 }, 'nothing was changed')
  refused(t, await ask('GET /rbac/roles'), 401, 'TOKEN_MISSING')

  // Every change is in the log of the tenant that it affects.
  for (let times = 0; times < 2; times++) t.equal((await ask('GET /cached', { token: ofTenant })).status, 200)
  await ask('DELETE /rbac/unassign', { ...platform, tenant: 'acme', body: pair })
  refused(t, await ask('GET /cached', { token: ofTenant }), 403, 'FORBIDDEN', 'a cached response is only for callers with the permission')
  await ask(`PUT /rbac/roles/${all}`, { ...platform, body: { name: 'all', permissions: ['*'] } })
  const { body: permission } = await ask('POST /rbac/permissions', { ...platform, body: { name: 'c:d' } })
  await ask(`DELETE /rbac/permissions/${String(permission['id'])}`, platform)
  await ask(`DELETE /rbac/roles/${all}`, platform)
  await ask('POST /rbac/roles', { ...platform, body: { name: 'no', permissions: ['no'] } })
  const { rows } = await sql<
    { entry: string }
  >`select concat_ws(' ', nullif(tenant_id, ''), action, target, user_id, outcome) as entry from tenantry.audit_log where action like 'rbac.%' order by id`
    .execute(app.db)
  t.same(rows.map(({ entry }) => entry), [
    ...['*', 'rbac:write', 'platform:admin', 'admin:*'].map((name) => `rbac.permission.create ${name} root success`),
    'rbac.role.create admin root success',
    'acme rbac.assign eve root success',
    'rbac.assign eve root success',
    'acme rbac.unassign eve root success',
    'rbac.role.update admin root success',
    'rbac.permission.create c:d root success',
    'rbac.permission.delete c:d root success',
    'rbac.role.delete all root success'
  ])
})

test("a deleted tenant's user roles are deleted", async (t) => {
  // `order` is a reserved word in SQL.
  const app = await testServer(t, {
    ...document,
    rbac: { enabled: true, rolesTable: 'select', permissionsTable: 'group', userRolesTable: 'order' }
  }, { engine: await postgresSection(t), tenants: ['acme', 'globex'] })
  const ask = caller(t, app)
  const roleId = await make(t, ask, 'reader', ['notes:read'])
  for (const tenant of ['acme', 'globex']) {
    t.equal((await ask('POST /rbac/assign', { ...platform, tenant, body: { userId: 'u', roleId } })).status, 201)
  }
  t.equal((await ask('POST /rbac/assign', { ...platform, body: { userId: 'u', roleId } })).status, 201)
  // Roles of an earlier document, which this server does not know.
  await sql`create table tenantry.earlier_user_roles (like tenantry."order" including all)`.execute(app.db)
  await sql`insert into tenantry.earlier_user_roles select * from tenantry."order"`.execute(app.db)
  t.same(await accessOf(ask, { sub: 'u', tenant_id: 'acme' }), mayRead)

  // Deleted elsewhere, which this server does not know yet.
  await sql`update tenantry.tenants set status = 'deleting' where id = 'acme'`.execute(app.db)
  refused(
    t,
    await ask('POST /rbac/assign', { ...platform, tenant: 'acme', body: { userId: 'late', roleId } }),
    404,
    'TENANT_UNKNOWN',
    'nothing is written for a tenant in deletion'
  )
  await sql`update tenantry.tenants set status = 'active' where id = 'acme'`.execute(app.db)
  t.equal((await ask('DELETE /tenants/acme', platform)).status, 200)
  for (const table of ['order', 'earlier_user_roles']) {
    const { rows } = await sql<{ tenant: string }>`select tenant_id as tenant from tenantry.${sql.id(table)} order by 1`.execute(app.db)
    t.same(rows, [{ tenant: '' }, { tenant: 'globex' }], table)
  }
  refused(t, await ask('POST /rbac/assign', { ...platform, tenant: 'acme', body: { userId: 'u', roleId } }), 404, 'TENANT_UNKNOWN')
  t.equal((await ask('POST /tenants', { ...platform, body: { id: 'acme', name: 'another' } })).status, 201)
  t.same(
    await accessOf(ask, { sub: 'u', tenant_id: 'acme', iat: Math.floor(Date.now() / 1000) + 2 }),
    mayNot,
    'a new tenant with the id has no roles'
  )
  t.same(await accessOf(ask, { sub: 'u', tenant_id: 'globex' }), mayRead)
})

test('the plugin works in its own app, behind a gateway that names the tenant', async (t) => {
  const engine = await postgresSection(t)
  const { ask } = await testApp(t, {
    engine,
    plugins: { database: { roleTables: defaultRoleTables }, tenancy: { trustHeader: true }, rbac: { defaultRole: undefined } },
    tenants: ['acme', 'globex'],
    routes: (app) =>
      app.register(async (group) => {
        await group.register(conventions)
        group.get('/read', { config: { access: 'user', permissions: ['notes:read'] } }, async () => ({}))
      })
  })
  const roleId = await make(t, ask, 'reader', ['notes:read'])
  t.equal((await ask('POST /rbac/assign', { ...platform, tenant: 'acme', body: { userId: 'u', roleId } })).status, 201)
  const token = signToken({ sub: 'u' })
  t.equal((await ask('GET /read', { token, tenant: 'acme' })).status, 200)
  for (const request of [{ token }, { token, tenant: 'globex' }]) refused(t, await ask('GET /read', request), 403, 'FORBIDDEN')

  await t.rejects(testApp(t, { engine, plugins: { rbac: {} } }), /with the option `roleTables`/)
})
