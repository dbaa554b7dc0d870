import { test } from 'tap'
import { forEachEngine } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { makeKey } from '../api-keys/key.js'
import { open, platformKey, postgresSection, statuses } from '../auth/app.js'

const admin = (tenant: string) => ({ role: 'admin', tenant_id: tenant })
const may = { '/read': 200, '/write': 200 }
const mayRead = { '/read': 200, '/write': 403 }
const mayNot = { '/read': 403, '/write': 403 }

test("roles grant their own and their parents' permissions from the next request on", (t) =>
  forEachEngine(t, async (t, engine) => {
    const { as } = await open(t, engine, { tenants: ['acme', 'globex'] })
    const acme = as(admin('acme'))
    const of = (role: string | undefined, tenant = 'acme') =>
      statuses(as({ tenant_id: tenant, ...role !== undefined && { role } }), '/read', '/write')
    t.same((await acme('GET /tenant/rbac')).body, { enabled: false, defaultRole: null, roles: [] })
    t.same((await acme('GET /tenant/rbac/roles')).body, { data: [], pagination: { limit: 20, offset: 0, total: 0 } })
    t.same(await of('editor'), mayNot)

    const reader = { name: 'reader', description: 'Reads', permissions: ['articles:read'] }
    const added = await acme('POST /tenant/rbac/roles', { body: reader })
    t.equal(added.status, 201)
    t.same(added.body, reader)
    t.same(
      (await acme('POST /tenant/rbac/roles', { body: { name: 'editor', permissions: ['articles:write'], parentRole: 'reader' } })).body,
      { name: 'editor', permissions: ['articles:write'], parentRole: 'reader' }
    )
    refused(t, await acme('POST /tenant/rbac/roles', { body: reader }), 409, 'CONFLICT')
    t.same(await of('editor'), mayNot, 'a disabled role')

    const roles = [
      { name: 'editor', permissions: ['articles:write'], parentRole: 'reader' },
      { name: 'owner', permissions: ['*'] },
      reader,
      { name: 'writer', permissions: ['articles:*'] }
    ]
    const config = { enabled: true, defaultRole: null, roles }
    t.same((await acme('PUT /tenant/rbac', { body: config })).body, config)
    t.same((await as({ tenant_id: 'acme' })('GET /tenant/rbac')).body, config, 'any user of the tenant can read them')
    t.same((await acme('GET /tenant/rbac/roles')).body, { data: roles, pagination: { limit: 20, offset: 0, total: 4 } })
    for (
      const [role, expected] of [
        ['editor', may],
        ['owner', may],
        ['writer', may],
        ['reader', mayRead],
        ['unknown', mayNot],
        ['Admin', mayNot],
        ['__proto__', mayNot],
        [undefined, mayNot]
      ] as const
    ) {
      t.same(await of(role), expected, String(role))
      t.same(await of(role, 'globex'), mayNot, `another tenant's ${role}`)
    }
    t.same(await statuses(as({ role: 'owner' }), '/read', '/write'), mayNot, 'a user without a tenant has no tenant role')
    t.same(
      await statuses(as({ tenant_id: 'acme', role: 'reader', permissions: ['articles:write'] }), '/read', '/write'),
      may,
      "own permissions add to the role's"
    )

    t.equal((await acme('PUT /tenant/rbac', { body: { ...config, defaultRole: 'reader' } })).status, 200)
    for (const role of ['unknown', undefined]) t.same(await of(role), mayRead, `the default role for ${role}`)
    const { key } = await makeKey(t, acme)
    t.same(await statuses(as(key), '/read', '/write'), mayNot, 'a key has no role, not even the default one')

    t.same((await acme('PUT /tenant/rbac/roles/reader', { body: { permissions: ['articles:*'] } })).body, {
      ...reader,
      permissions: ['articles:*']
    })
    t.same(await of('unknown'), may)
    t.same((await acme('PUT /tenant/rbac/roles/reader', { body: { description: null, permissions: [], name: 'reader' } })).body, {
      name: 'reader',
      permissions: []
    })
    t.same(await of('editor'), { '/read': 403, '/write': 200 })
    t.same((await acme('PUT /tenant/rbac/roles/editor', { body: { parentRole: 'writer' } })).body, {
      name: 'editor',
      permissions: ['articles:write'],
      parentRole: 'writer'
    })
    t.same(await of('editor'), may)
    t.same((await acme('DELETE /tenant/rbac/roles/owner')).body, { success: true })
    t.same(await of('owner'), mayNot, 'its users have the default role')

    refused(t, await acme('DELETE /tenant/rbac/roles/writer'), 409, 'ROLE_IN_USE', 'a parent of another role')
    refused(t, await acme('DELETE /tenant/rbac/roles/reader'), 409, 'ROLE_IN_USE', 'the default role')
    refused(t, await acme('DELETE /tenant/rbac/roles/owner'), 404, 'NOT_FOUND')
    refused(t, await acme('PUT /tenant/rbac/roles/owner', { body: { permissions: [] } }), 404, 'NOT_FOUND')
    const globex = as(admin('globex'))
    refused(t, await globex('DELETE /tenant/rbac/roles/writer'), 404, 'NOT_FOUND', "another tenant's role")
    t.same((await globex('GET /tenant/rbac')).body, { enabled: false, defaultRole: null, roles: [] })
    t.equal((await acme('PUT /tenant/rbac', { body: { enabled: false } })).status, 200)
    t.same((await acme('GET /tenant/rbac')).body, { enabled: false, defaultRole: null, roles: [] }, 'the whole role was replaced')
  }))

test('invalid roles are a 400, and the saved ones stay', async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const acme = as(admin('acme'))
  const role = (name: string, parentRole: string | null = null, permissions: string[] = []) => ({ name, permissions, parentRole })
  const saved = {
    enabled: true,
    defaultRole: 'c',
    roles: [{ name: 'a', permissions: [] }, { name: 'b', permissions: [], parentRole: 'a' }, {
      name: 'c',
      permissions: [],
      parentRole: 'b'
    }]
  }
  t.same((await acme('PUT /tenant/rbac', { body: saved })).body, saved)
  const many = (count: number, permissions = 0) =>
    Array.from(
      { length: count },
      (_, index) => role(`r${index}`, null, Array.from({ length: permissions }, (_, number) => `a:${index}.${number}`))
    )

  for (
    const [target, body, message] of [
      ['PUT /tenant/rbac/roles/a', { parentRole: 'a' }, /"a" inherits from itself through "a"/],
      ['PUT /tenant/rbac/roles/a', { parentRole: 'c' }, /"[abc]" inherits from itself/],
      ['PUT /tenant/rbac/roles/a', { parentRole: 'd' }, /"a" inherits from "d"/],
      ['PUT /tenant/rbac/roles/a', { name: 'd' }, /cannot be renamed/],
      ['POST /tenant/rbac/roles', role('d', 'd'), /"d" inherits from itself/],
      ['POST /tenant/rbac/roles', role('d', 'admin'), /"d" inherits from "admin"/],
      ['POST /tenant/rbac/roles', role('admin'), /"admin" is the role of administrators/],
      ['PUT /tenant/rbac', { enabled: true, roles: [role('a', 'b'), role('b', 'a')] }, /inherits from itself/],
      ['PUT /tenant/rbac', { enabled: true, defaultRole: 'b', roles: [role('a')] }, /default role "b"/],
      ['PUT /tenant/rbac', { enabled: true, defaultRole: 'admin' }, /default role "admin"/],
      ['PUT /tenant/rbac', { enabled: true, roles: [role('a'), role('a')] }, /"a" is listed twice/],
      ['PUT /tenant/rbac', { enabled: true, roles: many(26, 200) }, /at most 5000 permissions/]
    ] as const
  ) {
    const response = await acme(target, { body })
    refused(t, response, 400, 'ROLE_INVALID', `${target} ${String(message)}`)
    t.match(response.body, { message })
  }
  for (
    const [target, body] of [
      ['PUT /tenant/rbac', {}],
      ['PUT /tenant/rbac', { enabled: 'yes' }],
      ['PUT /tenant/rbac', { enabled: true, roles: many(201) }],
      ['PUT /tenant/rbac', { enabled: true, role: [] }],
      ['PUT /tenant/rbac/roles/a', {}],
      ['PUT /tenant/rbac/roles/a', { permissions: ['a'] }],
      ['PUT /tenant/rbac/roles/a', { permissions: ['a:b', 'a:b'] }],
      ['PUT /tenant/rbac/roles/a', { description: 'half of a pair: \ud800' }],
      ...['', 'a b', 'ä', 'x'.repeat(65), 'a/b', "a'"].map((name) => ['POST /tenant/rbac/roles', role(name)] as const),
      ...[[''], ['a'], ['a:b', 1], ['a :b'], ['*:*', '**']].map((permissions) =>
        ['POST /tenant/rbac/roles', { name: 'd', permissions }] as const
      ),
      ['POST /tenant/rbac/roles', role('d', null, Array.from({ length: 201 }, (_, index) => `a:${index}`))]
    ] as const
  ) refused(t, await acme(target, { body }), 400, 'VALIDATION_FAILED', `${target} ${JSON.stringify(body).slice(0, 60)}`)
  t.same((await acme('GET /tenant/rbac')).body, saved)

  const chain = (length: number) =>
    many(200).map((one, index) =>
      index === 0 ? role('r0', null, ['articles:read']) : { ...one, parentRole: index < length ? `r${index - 1}` : null }
    )
  t.match(await acme('PUT /tenant/rbac', { body: { enabled: true, roles: chain(18) } }), {
    status: 400,
    body: { message: /"r17" has more than 16 ancestors/ }
  })
  t.equal((await acme('PUT /tenant/rbac', { body: { enabled: true, roles: chain(17) } })).status, 200)
  t.same(await statuses(as({ tenant_id: 'acme', role: 'r16' }), '/read', '/write'), mayRead, 'through 16 parents')
  refused(t, await acme('POST /tenant/rbac/roles', { body: role('more') }), 400, 'ROLE_INVALID')
})

test('the permission to change roles is checked before the body; a role that grants itself everything stays within its tenant', async (t) => {
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme', 'globex'] })
  for (const target of ['PUT /tenant/rbac', 'POST /tenant/rbac/roles', 'PUT /tenant/rbac/roles/a', 'DELETE /tenant/rbac/roles/a']) {
    refused(t, await as(null)(target, { body: { wrong: true } }), 401, 'TOKEN_MISSING', target)
    refused(t, await as({ tenant_id: 'acme', role: 'user' })(target, { body: { wrong: true } }), 403, 'FORBIDDEN', target)
  }
  refused(t, await as(null)('GET /tenant/rbac'), 401, 'TOKEN_MISSING')
  refused(t, await as(platformKey)('GET /tenant/rbac'), 400, 'TENANT_REQUIRED')

  t.equal(
    (await as(admin('acme'))('PUT /tenant/rbac', {
      body: { enabled: true, defaultRole: 'all', roles: [{ name: 'all', permissions: ['*', 'platform:*', 'tenants:write'] }] }
    })).status,
    200
  )
  const all = as({ tenant_id: 'acme', role: 'all' })
  t.same(await statuses(all, '/read', '/write', '/platform', '/administrators'), { ...may, '/platform': 403, '/administrators': 403 })
  for (const target of ['GET /who', 'GET /read', 'GET /tenant/rbac', 'GET /tenant/api-keys', 'POST /tenant/api-keys', 'PUT /tenant/rbac']) {
    refused(t, await all(target, { tenant: 'globex', body: target.startsWith('P') ? {} : undefined }), 403, 'TENANT_MISMATCH', target)
  }
  t.same((await as(admin('globex'))('GET /tenant/rbac')).body, { enabled: false, defaultRole: null, roles: [] })
})
