/** Privileges: the allowed calls of a tenant's users, keys and roles, and the permissions that they can grant. */
import { type Test, test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, refused, type Request } from '../caller.js'
import { type Access, endpoints } from './endpoints.js'
import { createWorld, save, tokenOf, userOf } from './world.js'

const API_KEY = secretText('the-key-of-the-platform-in-its-environment', 'the API key of the platform')

const model = { provider: 'local', baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'unused' } as const

/** The server's endpoints, as `GET /doc` lists them, with their allowed callers. */
async function servedEndpoints (t: Test, ask: Ask): Promise<Map<string, Access>> {
  const known = new Map<string, Access>(
    Object.entries(endpoints).flatMap(([access, targets]) => targets.map((target) => [target, access as Access] as const))
  )
  const served = new Map<string, Access>()
  const { paths } = Object((await ask('GET /doc')).body)
  for (const [path, operations] of Object.entries<object>(paths)) {
    if (/^\/(platform|articles)|^\/$/.test(path)) continue
    for (const method of Object.keys(operations)) {
      const target = `${method.toUpperCase()} ${path}`
      const access = known.get(target)
      if (access === undefined) t.fail(`${target}: its allowed callers are missing in test/http/tenants/endpoints.ts`)
      else served.set(target, access)
    }
  }
  return served
}

test('only the listed callers may call the built-in endpoints', async (t) => {
  const { app, attacker, stranger } = await createWorld(t, { env: { API_KEY }, engine: { provider: 'embedded' } }, {
    rbac: { enabled: true },
    analytics: { enabled: true },
    agent: { enabled: true, llm: { ...model, model: 'm' }, embedding: { ...model, model: 'e', dimensions: 8 } },
    mcp: { url: 'http://localhost' },
    files: { path: t.testdir() },
    realtime: { tables: { notes: {} } }
  })
  const served = await servedEndpoints(t, stranger)
  const missing = Object.values(endpoints).flat().filter((target) => !served.has(target))
  t.strictSame(missing, [], 'all endpoints are served')
  const platforms = signToken({ sub: 'root', role: 'admin' })
  const key = String((await attacker('POST /tenant/api-keys', { body: { name: 'all', scopes: ['*'] } })).body['key'])
  const revoked = tokenOf('attacker', { role: 'admin', sub: 'left' })
  t.equal((await stranger('POST /auth/logout', { token: revoked })).status, 200)
  const expired = signToken({ sub: 'root', role: 'admin' }, { expiresIn: -1 })
  const unauthenticated: Request[] = [
    {},
    { token: revoked },
    { token: expired },
    { tenant: 'victim' },
    { headers: { 'x-api-key': 'x'.repeat(40) } },
    { headers: { authorization: `Basic ${Buffer.from('root:root').toString('base64')}` } }
  ]
  const users: Request[] = [{ token: tokenOf('attacker', {}) }, { token: tokenOf('attacker', { role: 'user' }) }, {
    token: tokenOf('attacker', { role: 'Admin' })
  }, { token: tokenOf('attacker', { roles: ['admin'] }) }]
  const strong: Request[] = [{ token: tokenOf('attacker', { permissions: ['*'] }) }, { headers: { 'x-api-key': key } }, {
    token: tokenOf('attacker')
  }, { token: tokenOf('attacker', { role: 'admin', permissions: ['*', 'platform:admin'] }), tenant: 'attacker' }]
  const tenantless: Request[] = [{ token: signToken({ sub: 'x' }) }, { token: signToken({ sub: 'x', permissions: ['*'] }) }, {
    token: signToken({ sub: 'x', role: 'superuser' })
  }]

  // Users with every permission from the platform.
  const platform = caller(t, app, { token: platforms })
  await platform('POST /rbac/permissions', { body: { name: '*' } })
  const { body: { id: roleId } } = await platform('POST /rbac/roles', { body: { name: 'admin', permissions: ['*'] } })
  for (const request of [{ tenant: 'attacker' }, {}]) {
    t.equal((await platform('POST /rbac/assign', { ...request, body: { userId: 'given', roleId } })).status, 201)
  }
  strong.push({ token: tokenOf('attacker', { sub: 'given' }) })
  tenantless.push({ token: signToken({ sub: 'given' }) })

  for (const [target, access] of served) {
    const [method = '', path = ''] = target.split(' ')
    const at = `${method} ${path.replace(/\{\w+\}/g, 'x')}`
    // A caller without permission does not learn the faults of its body.
    const message = method === 'GET' || method === 'DELETE' ? {} : { raw: '{"a":' }
    const expect = async (requests: readonly Request[], statuses: readonly number[], who: string) => {
      for (const [index, request] of requests.entries()) {
        const { status, text } = await caller(t, app)(at, { ...message, ...request })
        t.ok(statuses.includes(status), `${target} by ${who} ${index}: ${status}`, statuses.includes(status) ? {} : { text })
      }
    }
    if (access === 'public' || access === 'signed' || access === 'partial') continue
    await expect(unauthenticated, [401], 'unauthenticated')
    if (access === 'tenant-admin') await expect(users, [403], 'a user')
    if (access === 'platform-admin') await expect([...users, ...strong, ...tenantless], [403], 'a tenant')
    // Another tenant's user counts as anonymous.
    if (access !== 'platform-admin') {
      await expect(
        [...users, ...strong].filter(({ tenant }) => tenant === undefined).map((request) => ({ ...request, tenant: 'victim' })),
        [403],
        'another tenant'
      )
    }
    if (access !== 'platform-admin') {
      await expect(tenantless.map((request) => ({ ...request, tenant: 'victim' })), [403], 'a user of no tenant')
    }
  }
  t.match(await stranger('GET /tenants', { token: platforms }), { status: 200 }, 'the platform may')
  t.match(await stranger('GET /tenants', { headers: { 'x-api-key': API_KEY } }), { status: 200 }, 'its key may too')
  t.match(await stranger('GET /tenant/info', { headers: { 'x-api-key': API_KEY }, tenant: 'victim' }), {
    status: 200,
    body: { id: 'victim' }
  })
  t.match(
    await stranger('GET /tenant/info', { headers: { 'x-api-key': key } }),
    { status: 200, body: { id: 'attacker' } },
    'a key implies its tenant'
  )
  refused(t, await stranger('GET /tenant/info', { headers: { 'x-api-key': key }, tenant: 'victim' }), 403, 'TENANT_MISMATCH')
  refused(t, await stranger('GET /tenant/info', { headers: { 'x-api-key': key }, token: tokenOf('victim') }), 400, 'CREDENTIALS_AMBIGUOUS')
})

test('roles and keys grant only permissions that their creator has', async (t) => {
  const { app, attacker, stranger } = await createWorld(t)
  t.match(
    await attacker('POST /tenant/rbac/roles', { body: { name: 'manager', permissions: ['rbac:write', 'api-keys:write', 'notes:read'] } }),
    { status: 201 }
  )
  t.match(
    await attacker('POST /tenant/rbac/roles', { body: { name: 'all', permissions: ['*'] } }),
    { status: 201 },
    'an administrator may grant every permission of the tenant'
  )
  t.match(
    await attacker('PUT /tenant/rbac', {
      body: {
        enabled: true,
        roles: [{ name: 'manager', permissions: ['rbac:write', 'api-keys:write', 'notes:read'] }, { name: 'all', permissions: ['*'] }]
      }
    }),
    { status: 200 }
  )
  const manager = userOf(t, app, 'attacker', { role: 'manager' })
  t.match(
    await manager('POST /tenant/rbac/roles', { body: { name: 'reader', permissions: ['notes:read'] } }),
    { status: 201 },
    'a user may grant the permissions that it has'
  )

  await t.test('a user cannot grant permissions that it does not have', async (t) => {
    for (
      const permissions of [['*'], ['notes:*'], ['notes:write'], ['notes:read', 'secrets:write'], ['rbac:*'], ['tenants:write'], [
        'platform:admin'
      ]]
    ) {
      for (
        const [target, body] of [
          ['POST /tenant/rbac/roles', { name: 'new', permissions }],
          ['PUT /tenant/rbac/roles/manager', { permissions }],
          ['PUT /tenant/rbac/roles/reader', { permissions }],
          ['PUT /tenant/rbac', { enabled: true, roles: [{ name: 'manager', permissions }] }],
          ['POST /tenant/api-keys', { name: 'new', scopes: permissions }]
        ] as const
      ) refused(t, await manager(target, { body }), 403, 'GRANT_EXCEEDS', `${target} ${permissions.join(' ')}`)
    }
    for (
      const [target, body] of [
        ['POST /tenant/rbac/roles', { name: 'new', permissions: [], parentRole: 'all' }],
        ['PUT /tenant/rbac/roles/manager', { parentRole: 'all' }],
        ['PUT /tenant/rbac', { enabled: true, defaultRole: 'all', roles: [{ name: 'all', permissions: ['*'] }] }]
      ] as const
    ) t.ok([400, 403].includes((await manager(target, { body })).status), `${target} through a parent role`)
    refused(t, await manager('GET /tenant/secrets'), 403, 'FORBIDDEN')
    const { body: { key } } = await manager('POST /tenant/api-keys', { body: { name: 'new', scopes: ['notes:read', 'api-keys:write'] } })
    const headers = { 'x-api-key': String(key) }
    refused(
      t,
      await stranger('POST /tenant/api-keys', { headers, body: { name: 'more', scopes: ['rbac:write'] } }),
      403,
      'GRANT_EXCEEDS',
      'a key that creates keys'
    )
    refused(t, await stranger('GET /tenant/secrets', { headers }), 403, 'FORBIDDEN')
  })

  await t.test('an administrator grants nothing beyond the tenant', async (t) => {
    for (const name of ['admin', 'Admin', 'ADMIN', ' admin', 'admin ', '', '__proto__', 'constructor', 'a/b', 'x'.repeat(300)]) {
      const { status } = await attacker('POST /tenant/rbac/roles', { body: { name, permissions: ['*'] } })
      t.ok(status === 400 || (name !== 'admin' && status === 201), `a role named ${JSON.stringify(name.slice(0, 20))}: ${status}`)
    }
    for (const role of ['all', 'Admin', '__proto__', 'constructor', 'toString']) {
      for (
        const target of [
          'GET /tenants',
          'POST /tenants',
          'GET /migration',
          'POST /migration/apply',
          'DELETE /tenants/victim',
          'PATCH /tenants/attacker'
        ]
      ) {
        refused(
          t,
          await userOf(t, app, 'attacker', { role })(target, target.startsWith('P') ? { body: { plan: 'enterprise' } } : {}),
          403,
          'FORBIDDEN',
          `${target} by the role ${role}`
        )
      }
    }
    refused(
      t,
      await userOf(t, app, 'victim', { role: 'all' })('GET /tenant/secrets'),
      403,
      'FORBIDDEN',
      "one tenant's role does not exist for another"
    )
  })

  await t.test('a role that does not exist grants no permissions', async (t) => {
    await save(t, attacker, [{ method: 'get', path: '/guarded', requiredPermissions: ['notes:write'], response: { ok: true } }])
    for (const role of ['unknown', 'valueOf', 'hasOwnProperty', 'reader', 'manager', '']) {
      const { status } = await userOf(t, app, 'attacker', { role })('GET /guarded')
      t.ok(status === 403 || (role === '' && status === 401), `${role}: ${status}`)
    }
    t.match(await userOf(t, app, 'attacker', { role: 'all' })('GET /guarded'), { status: 200 })
    refused(
      t,
      await userOf(t, app, 'attacker', { permissions: ['notes:wri', 'notes', 'NOTES:WRITE', 'notes:write:x', ':*', '*:write', '**'] })(
        'GET /guarded'
      ),
      403,
      'FORBIDDEN'
    )
    t.match(await userOf(t, app, 'attacker', { permissions: ['notes:*'] })('GET /guarded'), { status: 200 })
    t.match(await attacker('PUT /tenant/rbac', { body: { enabled: false, roles: [{ name: 'all', permissions: ['*'] }] } }), { status: 200 })
    refused(t, await userOf(t, app, 'attacker', { role: 'all' })('GET /guarded'), 403, 'FORBIDDEN', 'with the roles off they give nothing')
  })
})
