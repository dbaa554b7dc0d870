/** The endpoints of the platform's roles: inputs, responses and rejections. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { type DatabaseSection, forEachEngine } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, refused } from '../../http/caller.js'
import { postgresSection } from '../auth/app.js'
import { makeRole } from './roles.js'

const platform = signToken({ sub: 'root', role: 'admin' })
const uuid = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

interface Opened {
  readonly app: FastifyInstance
  readonly ask: Ask
}

async function open (t: Test, engine: DatabaseSection): Promise<Opened> {
  const app = await testServer(t, { rbac: { enabled: true } }, { engine, tenants: ['acme', 'globex'] })
  return { app, ask: caller(t, app, { token: platform }) }
}

/** One server for both: opening an embedded database takes most of their time. */
test('the roles of the platform', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine)
    await t.test('roles and permissions are created, read, changed and deleted', (t) => madeAndDeleted(t, opened))
    await t.test("a role is not assigned to a tenant's user without the tenant", (t) => tenantUsers(t, opened))
    await t.test('roles are assigned to users and removed, each in its own tenant', (t) => givenAndTaken(t, opened))
  }))

async function madeAndDeleted (t: Test, { app, ask }: Opened): Promise<void> {
  t.same((await ask('GET /rbac/roles')).body, { data: [], pagination: { limit: 20, offset: 0, total: 0 } })

  const editor = await makeRole(t, ask, { name: 'editor', description: 'Edits', permissions: ['notes:write', 'notes:read'] })
  t.match(editor, { id: uuid, name: 'editor', description: 'Edits', permissions: ['notes:read', 'notes:write'], created_at: /Z$/ })
  t.same(Object.keys(editor).sort(), ['created_at', 'description', 'id', 'name', 'permissions'])
  const bare = await makeRole(t, ask, { name: 'Bare' })
  t.match(bare, { description: null, permissions: { length: 0 } })
  t.same((await ask(`GET /rbac/roles/${editor.id}`)).body, editor)
  t.same(
    (await ask('GET /rbac/roles')).body,
    { data: [bare, editor], pagination: { limit: 20, offset: 0, total: 2 } },
    'by name, upper case first'
  )
  t.same((await ask('GET /rbac/roles?limit=1&offset=1')).body, { data: [editor], pagination: { limit: 1, offset: 1, total: 2 } })

  refused(t, await ask('POST /rbac/roles', { body: { name: 'editor' } }), 409, 'CONFLICT')
  refused(t, await ask(`PUT /rbac/roles/${bare.id}`, { body: { name: 'editor' } }), 409, 'CONFLICT')

  const lacking = await ask('POST /rbac/roles', { body: { name: 'new', permissions: ['notes:read', 'files:*', 'notes:delete'] } })
  refused(t, lacking, 400, 'VALIDATION_FAILED', 'unknown permissions')
  t.same(
    lacking.body.details,
    [1, 2].map((index) => ({
      path: `/body/permissions/${index}`,
      message: `there is no permission "${['', 'files:*', 'notes:delete'][index]}": create it with POST /rbac/permissions`,
      keyword: 'enum'
    }))
  )
  refused(
    t,
    await ask(`PUT /rbac/roles/${bare.id}`, { body: { name: 'none', permissions: ['*'] } }),
    400,
    'VALIDATION_FAILED',
    'in a change'
  )
  t.same((await ask(`GET /rbac/roles/${bare.id}`)).body, bare, 'nothing was changed')
  t.match(
    (await ask('GET /rbac/permissions')).body,
    { data: [{ name: 'notes:read' }, { name: 'notes:write' }], pagination: { total: 2 } },
    'nothing was added'
  )
  t.equal((await ask('POST /rbac/permissions', { body: { name: 'files:*' } })).status, 201)
  t.match(await ask(`PUT /rbac/roles/${bare.id}`, { body: { permissions: ['files:*', 'notes:read'] } }), {
    status: 200,
    body: { id: bare.id, name: 'Bare', permissions: ['files:*', 'notes:read'] }
  })
  t.match(await ask(`PUT /rbac/roles/${editor.id}`, { body: { name: 'writer', description: null } }), {
    status: 200,
    body: { name: 'writer', description: null, permissions: ['notes:read', 'notes:write'] }
  }, 'members that are left out stay')
  t.match(await ask(`PUT /rbac/roles/${editor.id}`, { body: { name: 'writer' } }), { status: 200 }, 'its own name is free')

  const listed = (await ask('GET /rbac/permissions')).body
  t.match(listed, {
    data: [{ id: uuid, name: 'files:*', description: null, created_at: /Z$/ }, { name: 'notes:read' }, { name: 'notes:write' }],
    pagination: { total: 3 }
  })
  t.match(await ask('POST /rbac/permissions', { body: { name: 'billing:read', description: 'Bills' } }), {
    status: 201,
    body: { id: uuid, name: 'billing:read', description: 'Bills' }
  })
  refused(t, await ask('POST /rbac/permissions', { body: { name: 'billing:read' } }), 409, 'CONFLICT')
  const read = String(listed.data?.find(({ name }) => name === 'notes:read')?.['id'])
  t.match(await ask(`DELETE /rbac/permissions/${read}`), { status: 200, body: { success: true } })
  refused(t, await ask(`DELETE /rbac/permissions/${read}`), 404, 'NOT_FOUND')
  t.match((await ask('GET /rbac/roles')).body.data, [{ name: 'Bare', permissions: ['files:*'] }, {
    name: 'writer',
    permissions: ['notes:write']
  }], 'it is gone from every role')

  for (const user of ['u', 'v']) {
    t.equal((await ask('POST /rbac/assign', { body: { userId: user, roleId: editor.id }, tenant: 'acme' })).status, 201)
  }
  t.equal((await ask('POST /rbac/assign', { body: { userId: 'u', roleId: bare.id }, tenant: 'acme' })).status, 201)
  t.match(await ask(`DELETE /rbac/roles/${editor.id}`), { status: 200, body: { success: true } })
  t.match((await ask('GET /rbac/users/u/roles', { tenant: 'acme' })).body, { data: [{ id: bare.id }], pagination: { total: 1 } })
  const { rows } = await sql<
    { left: number }
  >`select (select count(*) from tenantry.user_roles where role_id = ${editor.id})::int + (select count(*) from tenantry.role_permissions where role_id = ${editor.id})::int as left`
    .execute(app.db)
  t.same(rows, [{ left: 0 }], 'nothing of a deleted role remains')
  for (const method of ['GET', 'PUT', 'DELETE']) {
    refused(t, await ask(`${method} /rbac/roles/${editor.id}`, method === 'PUT' ? { body: { name: 'x' } } : {}), 404, 'NOT_FOUND', method)
  }
}

async function givenAndTaken (t: Test, { ask }: Opened): Promise<void> {
  const a = await makeRole(t, ask, { name: 'a', permissions: ['x:one', 'x:two'] })
  const b = await makeRole(t, ask, { name: 'b', permissions: ['x:two', 'a:first'] })
  const pair = { userId: 'firm:ünïcode/1', roleId: a.id }
  const at = `/rbac/users/${encodeURIComponent(pair.userId)}`
  t.match(await ask('POST /rbac/assign', { body: pair, tenant: 'acme' }), { status: 201, body: { success: true, ...pair } })
  t.match(await ask('POST /rbac/assign', { body: pair, tenant: 'acme' }), { status: 200, body: { success: true, ...pair } }, 'again')
  t.equal((await ask('POST /rbac/assign', { body: { ...pair, roleId: b.id }, tenant: 'acme' })).status, 201)
  t.same((await ask(`GET ${at}/roles`, { tenant: 'acme' })).body, { data: [a, b], pagination: { limit: 20, offset: 0, total: 2 } })
  t.same(
    (await ask(`GET ${at}/permissions`, { tenant: 'acme' })).body,
    { permissions: ['a:first', 'x:one', 'x:two'] },
    'in order, each once'
  )
  for (const request of [{}, { tenant: 'globex' }]) {
    t.same((await ask(`GET ${at}/roles`, request)).body.data, [], 'the same sub in another tenant is another user')
    t.same((await ask(`GET ${at}/permissions`, request)).body, { permissions: [] })
  }

  for (
    const [label, target, request] of [
      ['nothing', 'DELETE /rbac/unassign', {}],
      ['no role', 'DELETE /rbac/unassign', { body: { userId: pair.userId } }],
      ['no user', `DELETE /rbac/unassign?roleId=${a.id}`, {}],
      ['two users', `DELETE /rbac/unassign?userId=other&roleId=${a.id}`, { body: pair }],
      ['two roles', `DELETE /rbac/unassign?roleId=${b.id}`, { body: pair }],
      ['an invalid id', 'DELETE /rbac/unassign?userId=u&roleId=x', {}],
      ['an id as a URN', `DELETE /rbac/unassign?userId=u&roleId=urn:uuid:${a.id}`, {}],
      ['another member', 'DELETE /rbac/unassign', { body: { ...pair, tenant: 'globex' } }],
      ['a list of users', `DELETE /rbac/unassign?userId=${encodeURIComponent(pair.userId)}&userId=other&roleId=${a.id}`, {}],
      ['an empty user beside a valid one', 'DELETE /rbac/unassign?userId=', { body: pair }],
      ['a prototype', `DELETE /rbac/unassign?__proto__=x&roleId=${a.id}`, { body: { userId: pair.userId } }],
      ['a body that is a list', `DELETE /rbac/unassign?userId=u&roleId=${a.id}`, { body: [] }],
      ['null as a user', 'DELETE /rbac/unassign', { body: { ...pair, userId: null } }]
    ] as const
  ) refused(t, await ask(target, { tenant: 'acme', ...request }), 400, 'VALIDATION_FAILED', label)
  refused(t, await ask('DELETE /rbac/unassign', { body: pair }), 404, 'NOT_FOUND', "the platform's user of the same sub")
  refused(t, await ask('DELETE /rbac/unassign', { body: pair, tenant: 'globex' }), 404, 'NOT_FOUND', "another tenant's")
  t.match(await ask('DELETE /rbac/unassign', { body: pair, tenant: 'acme' }), { status: 200, body: { success: true } }, 'in the body')
  refused(t, await ask('DELETE /rbac/unassign', { body: pair, tenant: 'acme' }), 404, 'NOT_FOUND', 'again')
  const query = `DELETE /rbac/unassign?userId=${encodeURIComponent(pair.userId)}&roleId=${b.id}`
  t.match(await ask(query, { tenant: 'acme', body: { ...pair, roleId: b.id } }), { status: 200 }, 'in both, with the same value')
  refused(t, await ask(query, { tenant: 'acme' }), 404, 'NOT_FOUND', 'in the query string')

  refused(t, await ask('POST /rbac/assign', { body: { userId: 'u', roleId: randomUUID() } }), 404, 'NOT_FOUND')
  refused(t, await ask('POST /rbac/assign', { body: { userId: 'u', roleId: a.id }, tenant: 'nobodys' }), 404, 'TENANT_UNKNOWN')
}

async function tenantUsers (t: Test, { app, ask }: Opened): Promise<void> {
  const { id: roleId } = await makeRole(t, ask, { name: 'for users', permissions: [] })
  const [ada, bob, both] = [randomUUID(), randomUUID(), randomUUID()]
  for (const [tenant, id] of [['acme', ada], ['', bob], ['globex', both], ['', both]] as const) {
    await sql`insert into tenantry.users (tenant_id, id, email, password_hash, role) values (${tenant}, ${id}::uuid, ${`${id}@example.com`}, '$argon2id$', 'user')`
      .execute(app.db)
  }
  const refusal = await ask('POST /rbac/assign', { body: { userId: ada, roleId } })
  refused(t, refusal, 400, 'TENANT_REQUIRED', 'a user that only a tenant has')
  const capitals = { userId: ada.toUpperCase(), roleId }
  refused(t, await ask('POST /rbac/assign', { body: capitals }), 400, 'TENANT_REQUIRED', 'its id in capital letters')
  t.match(refusal.body['message'], /X-Tenant-ID: acme$/, 'the error says what to send')
  t.same((await ask(`GET /rbac/users/${ada}/roles`)).body.data, [], 'nothing is written')
  t.equal((await ask('POST /rbac/assign', { body: { userId: ada, roleId }, tenant: 'acme' })).status, 201)
  t.match(await ask('POST /rbac/assign', { body: capitals, tenant: 'acme' }), { status: 200, body: { userId: ada } }, 'in capital letters')
  t.match((await ask(`GET /rbac/users/${capitals.userId}/roles`, { tenant: 'acme' })).body, { data: [{ id: roleId }] })
  for (const userId of [bob, both, randomUUID(), randomUUID().toUpperCase()]) {
    t.equal(
      (await ask('POST /rbac/assign', { body: { userId, roleId } })).status,
      201,
      'a platform user, and a `sub` that no user with a password has'
    )
  }
}

test('invalid roles, permissions and users are rejected, and text like SQL is only text', async (t) => {
  const { app, ask } = await open(t, await postgresSection(t))
  const role = await makeRole(t, ask, { name: "'); drop table tenantry.roles; --", permissions: ['a:b'] })
  for (const name of ['__proto__', 'constructor', 'admin', 'Ünïcode role ✓']) {
    t.match(await makeRole(t, ask, { name, permissions: ['constructor:__proto__'] }), { name })
  }
  t.match((await ask('GET /rbac/roles')).body.pagination, { total: 5 })

  for (
    const body of [
      {},
      [],
      { permissions: [] },
      { name: '' },
      { name: ' x' },
      { name: 'x ' },
      { name: 'a\u0000' },
      { name: 'a\nb' },
      { name: '\ud800' },
      { name: 'a\udfffb' },
      { name: 'x'.repeat(101) },
      { name: 1 },
      { name: null },
      { name: 'x', permissions: ['read'] },
      { name: 'x', permissions: ['*:read'] },
      { name: 'x', permissions: ['a:'] },
      { name: 'x', permissions: ['a:b c'] },
      { name: 'x', permissions: [`a:${'b'.repeat(127)}`] },
      { name: 'x', permissions: ['a:b', 'a:b'] },
      { name: 'x', permissions: Array.from({ length: 201 }, (_, n) => `a:${n}`) },
      { name: 'x', permissions: 'a:b' },
      { name: 'x', permissions: [null] },
      { name: 'x', description: 'x'.repeat(501) },
      { name: 'x', id: randomUUID() },
      { name: 'x', users: ['me'] },
      { name: 'x', parentRole: 'editor' }
    ]
  ) {
    refused(t, await ask('POST /rbac/roles', { body }), 400, 'VALIDATION_FAILED', JSON.stringify(body).slice(0, 80))
    refused(
      t,
      await ask(`PUT /rbac/roles/${role.id}`, {
        body: Array.isArray(body) || Object.keys(body).length === 0 || !('name' in body) ? { nme: 'x' } : body
      }),
      400,
      'VALIDATION_FAILED'
    )
  }
  for (const name of ['read', '', ':', 'a:', ':b', '**', 'a:*:b ', "a:b'--"]) {
    refused(t, await ask('POST /rbac/permissions', { body: { name } }), 400, 'VALIDATION_FAILED', name)
  }
  for (const userId of ['', 'x'.repeat(257), 'a\u0000', '\ud800']) {
    refused(
      t,
      await ask('POST /rbac/assign', { body: { userId, roleId: role.id } }),
      400,
      'VALIDATION_FAILED',
      JSON.stringify(userId).slice(0, 20)
    )
  }
  for (
    const target of [
      'GET /rbac/roles/x',
      'DELETE /rbac/roles/1',
      "DELETE /rbac/permissions/' or 1=1",
      'GET /rbac/roles?limit=0',
      'GET /rbac/roles?offset=-1',
      'GET /rbac/roles?order=name',
      `GET /rbac/users/${'x'.repeat(257)}/roles`
    ]
  ) {
    refused(t, await ask(target.replaceAll(' or ', '%20or%20')), 400, 'VALIDATION_FAILED', target.slice(0, 60))
  }
  t.match((await ask('GET /rbac/users/%27%20or%20true--/permissions')).body, { permissions: { length: 0 } })
  t.ok(
    (await app.inject({
      method: 'POST',
      url: '/rbac/roles',
      headers: { authorization: `Bearer ${platform}`, 'content-type': 'application/json' },
      payload: '{"name": "x", "__proto__": {"permissions": ["*"]}}'
    })).statusCode === 400,
    'a prototype in the body'
  )

  // A list of the maximum length, and the total bounds.
  const many = Array.from({ length: 200 }, (_, n) => `many:${n}`.padEnd(128, 'x'))
  const { body: { details } } = await ask('POST /rbac/roles', { body: { name: 'many', permissions: many } })
  t.equal(details?.length, 50, "the rejection's list is shorter")
  await sql`insert into tenantry.permissions (name) select rpad('many:' || n, 128, 'x') from generate_series(0, 4997) n`.execute(app.db)
  t.match(await ask('POST /rbac/roles', { body: { name: 'many', permissions: many } }), {
    status: 201,
    body: { permissions: [...many].sort() }
  })
  refused(t, await ask('POST /rbac/permissions', { body: { name: 'one:more' } }), 409, 'CONFLICT', '5,000 permissions')
  await sql`insert into tenantry.roles (name) select 'filler' || n from generate_series(1, (select 1000 - count(*)::int from tenantry.roles)) n`
    .execute(app.db)
  refused(t, await ask('POST /rbac/roles', { body: { name: 'more' } }), 409, 'CONFLICT', '1,000 roles')
  await sql`insert into tenantry.user_roles (user_id, role_id) select 'u', gen_random_uuid() from generate_series(1, 100)`.execute(app.db)
  refused(t, await ask('POST /rbac/assign', { body: { userId: 'u', roleId: role.id } }), 409, 'CONFLICT', '100 roles of a user')

  const same = await Promise.all(Array.from({ length: 5 }, () => ask('DELETE /rbac/unassign', { body: { userId: 'u', roleId: role.id } })))
  t.same(same.map(({ status }) => status), [404, 404, 404, 404, 404])
})
