import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { createAttemptLimiter } from '../../../lib/database/attempt-limiter.js'
import { defaultRoleTables } from '../../../lib/database/declared-tables.js'
import { lockTenant } from '../../../lib/database/tenant-lock.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { testApp } from '../../helpers/app.js'
import { untilBlocked } from '../../helpers/locks.js'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { caller, refused, type Reply } from '../../http/caller.js'
import { platformKey } from '../auth/app.js'
import { addUser, claimsOf, password } from '../login/app.js'
import { open, type Opened, tokenOf } from '../passwords/app.js'
import { makeRole } from '../rbac/roles.js'

const boss = 'boss@example.com'
const email = 'ada@example.com'
const hour = 3_600_000

type Call = (target: string, body?: object) => Promise<Reply>

/** Calls with the token of a user who logs in. */
async function as ({ ask, logIn }: Opened, tenant: string, address: string): Promise<Call> {
  const { body: { token } } = await logIn(tenant, address)
  return (target, body) => ask(target, { token: String(token), ...body !== undefined && { body } })
}

const status = async ({ ask }: Opened, token: unknown) => (await ask('GET /auth/me', { token: String(token) })).status

test("a tenant's administrators list, read, change and delete its users", (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme', 'globex'] })
    const { app, ask } = opened
    const own = await addUser(app, 'acme', boss, 'admin')
    const ada = await addUser(app, 'acme', email, 'editor')
    await addUser(app, 'acme', 'eve@example.com')
    const foreign = await addUser(app, 'globex', email, 'admin')
    const admin = await as(opened, 'acme', boss)

    const shown = { id: ada, email, role: 'editor', status: 'active', emailVerified: false, createdAt: String }
    t.match((await admin('GET /users')).body, {
      data: [shown, { email: boss }, { email: 'eve@example.com' }],
      pagination: { limit: 20, offset: 0, total: 3 }
    })
    t.notOk(JSON.stringify((await admin('GET /users')).body).includes('argon2'), 'nothing of passwords')
    t.match((await admin('GET /users?limit=1&offset=1')).body, { data: [{ email: boss }], pagination: { limit: 1, offset: 1, total: 3 } })
    t.match((await admin('GET /users?search=ADA%40')).body, { data: [shown], pagination: { total: 1 } })
    for (const text of ['%25', '_da', "'", 'ada%40example.com%20']) t.same((await admin(`GET /users?search=${text}`)).body.data, [], text)
    for (
      const query of [
        'limit=0',
        'offset=-1',
        'status=deleted',
        'search=',
        'order=email',
        'status=active&status=disabled',
        `search=${'x'.repeat(255)}`
      ]
    ) refused(t, await admin(`GET /users?${query}`), 400, 'VALIDATION_FAILED', query)
    t.match(await admin(`GET /users/${ada}`), { status: 200, body: shown })
    t.equal((await admin(`GET /users/${foreign}`)).status, 404, "another tenant's user")
    refused(t, await admin('GET /users/x'), 400, 'VALIDATION_FAILED')

    for (const target of [`PATCH /users/${foreign}`, `PATCH /users/${'1'.repeat(8)}-2222-4333-8444-555555555555`]) {
      refused(t, await admin(target, { role: 'user' }), 404, 'NOT_FOUND', target)
    }
    refused(t, await admin(`DELETE /users/${foreign}`), 404, 'NOT_FOUND')
    for (
      const body of [{}, { status: 'deleted' }, { role: '' }, { role: 'a b' }, { email: 'x@example.com' }, { tenant: 'globex' }, {
        role: null
      }]
    ) {
      refused(t, await admin(`PATCH /users/${ada}`, body), 400, 'VALIDATION_FAILED', JSON.stringify(body))
    }
    t.match(await admin(`PATCH /users/${ada}`, { role: 'viewer' }), { status: 200, body: { ...shown, role: 'viewer' } })
    t.match((await admin(`PATCH /users/${ada}`, { status: 'disabled' })).body, { status: 'disabled', role: 'viewer' })
    t.match((await admin('GET /users?status=disabled')).body, { data: [{ id: ada }], pagination: { total: 1 } })
    refused(t, await opened.logIn('acme', email), 401, 'CREDENTIALS_INVALID')
    t.match((await admin(`PATCH /users/${ada}`, { status: 'active' })).body, { status: 'active' })
    t.equal((await opened.logIn('acme', email)).status, 200)
    t.match(await admin(`DELETE /users/${ada}`), { status: 200, body: { success: true } })
    refused(t, await admin(`DELETE /users/${ada}`), 404, 'NOT_FOUND')
    t.equal((await opened.logIn('globex', email)).status, 200, 'nothing of another tenant')

    const { rows } = await sql<
      { line: string }
    >`select concat_ws(' ', tenant_id, action, target, user_id, details::text) as line from tenantry.audit_log where action like 'user.%' and user_id is not null order by id`
      .execute(app.db)
    t.match(
      rows.map(({ line }) => line),
      [
        new RegExp(`^acme user.update ${email} ${own} .*"role": "viewer"`),
        /"status": "disabled"/,
        /"status": "active"/,
        new RegExp(`^acme user.delete ${email} ${own} `)
      ]
    )
    const editor = await as(opened, 'acme', 'eve@example.com')
    for (const target of ['GET /users', `GET /users/${own}`, `PATCH /users/${own}`, `DELETE /users/${own}`, 'POST /users/invite']) {
      refused(t, await editor(target, target.startsWith('GET') ? undefined : {}), 403, 'FORBIDDEN', target)
    }
    refused(t, await ask('GET /users'), 401, 'TOKEN_MISSING')
    const platform = { headers: { 'x-api-key': platformKey } }
    refused(t, await ask('GET /users', platform), 400, 'TENANT_REQUIRED')
    t.match(
      (await ask('GET /users', { ...platform, tenant: 'globex' })).body,
      { data: [{ id: foreign }] },
      'a platform administrator names the tenant'
    )
  }))

test('a user cannot grant or remove permissions that it does not have, and a tenant keeps an administrator', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask } = opened
  const [first, second] = [await addUser(app, 'acme', boss, 'admin'), await addUser(app, 'acme', 'chief@example.com', 'admin')]
  const ada = await addUser(app, 'acme', email)
  const admin = await as(opened, 'acme', boss)
  const roles = [{ name: 'editor', permissions: ['notes:*'] }, { name: 'clerk', permissions: ['notes:read', 'users:write'] }, {
    name: 'reader',
    permissions: ['notes:read']
  }]
  t.equal((await admin('PUT /tenant/rbac', { enabled: true, roles })).status, 200)
  const clerk = await addUser(app, 'acme', 'clerk@example.com', 'clerk')
  const byClerk = await as(opened, 'acme', 'clerk@example.com')

  t.equal((await byClerk('GET /users')).status, 200, 'users:write')
  t.match(await byClerk(`PATCH /users/${ada}`, { role: 'reader' }), { status: 200, body: { role: 'reader' } })
  for (const role of ['admin', 'editor']) {
    refused(t, await byClerk(`PATCH /users/${ada}`, { role }), 403, 'GRANT_EXCEEDS', role)
    refused(t, await byClerk('POST /users/invite', { email: 'friend@example.com', role }), 403, 'GRANT_EXCEEDS', role)
  }
  for (const body of [{ status: 'disabled' }, { role: 'reader' }]) {
    refused(t, await byClerk(`PATCH /users/${first}`, body), 403, 'GRANT_EXCEEDS', 'an administrator')
  }
  refused(t, await byClerk(`DELETE /users/${first}`), 403, 'GRANT_EXCEEDS')
  const made = await admin('POST /tenant/api-keys', { name: 'k', scopes: ['users:write'] })
  const byKey: Call = (target, body) =>
    ask(target, { headers: { 'x-api-key': String(made.body['key']) }, ...body !== undefined && { body } })
  refused(t, await byKey(`PATCH /users/${ada}`, { role: 'reader' }), 403, 'GRANT_EXCEEDS', 'a key keeps its scopes')
  refused(t, await byKey(`DELETE /users/${second}`), 403, 'GRANT_EXCEEDS')

  for (const body of [{ role: 'user' }, { status: 'disabled' }]) {
    refused(t, await admin(`PATCH /users/${first}`, body), 403, 'FORBIDDEN', 'itself')
  }
  refused(t, await admin(`DELETE /users/${first}`), 403, 'FORBIDDEN', 'itself')
  refused(t, await byClerk(`PATCH /users/${clerk}`, { role: 'reader' }), 403, 'FORBIDDEN', 'itself')
  for (const target of [`PATCH /users/${first.toUpperCase()}`, `DELETE /users/${first.toUpperCase()}`]) {
    refused(t, await admin(target, { status: 'disabled' }), 403, 'FORBIDDEN', 'itself, in capitals')
  }

  const other = await as(opened, 'acme', 'chief@example.com')
  const responses = await Promise.all([
    admin(`PATCH /users/${second}`, { role: 'user' }),
    other(`PATCH /users/${first}`, { status: 'disabled' })
  ])
  const administrators = async () =>
    (await app.db.selectFrom('tenantry.users').select('id').where('role', '=', 'admin').where('status', '=', 'active').execute()).length
  t.equal(await administrators(), 1, "of two administrators who remove each other's role one stays")
  t.same(responses.map(({ status }) => status).sort(), [200, 401], 'the other one has ended')
  const [left] = await app.db.selectFrom('tenantry.users').select('id').where('role', '=', 'admin').where('status', '=', 'active').execute()
  const signed = app.auth.sign({ sub: 'idp-root', role: 'admin', tenant_id: 'acme' })
  for (const body of [{ role: 'user' }, { status: 'disabled' }]) {
    refused(t, await ask(`PATCH /users/${left?.id}`, { token: signed, body }), 409, 'STATE_CONFLICT', 'the last one')
  }
  refused(t, await ask(`DELETE /users/${left?.id}`, { token: signed }), 409, 'STATE_CONFLICT')
  t.equal(
    (await ask(`DELETE /users/${left?.id}`, { headers: { 'x-api-key': platformKey }, tenant: 'acme' })).status,
    200,
    'a platform administrator may'
  )
})

test("a caller cannot give a role that exceeds its permissions while the tenant's roles are disabled", async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask } = opened
  await addUser(app, 'acme', boss, 'admin')
  const ada = await addUser(app, 'acme', email)
  const owner = await addUser(app, 'acme', 'owner@example.com', 'owner')
  const admin = await as(opened, 'acme', boss)
  const roles = [{ name: 'base', permissions: ['*'] }, { name: 'owner', permissions: [], parentRole: 'base' }, { name: 'clerk', permissions: ['users:write'] }]
  t.equal((await admin('PUT /tenant/rbac', { enabled: false, roles })).status, 200)
  const made = await admin('POST /tenant/api-keys', { name: 'k', scopes: ['users:write'] })
  const headers = { 'x-api-key': secretText(String(made.body['key']), 'an API key') }
  refused(t, await ask(`PATCH /users/${ada}`, { headers, body: { role: 'owner' } }), 403, 'GRANT_EXCEEDS')
  refused(t, await ask('POST /users/invite', { headers, body: { email: 'friend@example.com', role: 'owner' } }), 403, 'GRANT_EXCEEDS')
  refused(t, await ask(`PATCH /users/${owner}`, { headers, body: { status: 'disabled' } }), 403, 'GRANT_EXCEEDS', 'a user with such a role')
  t.equal((await ask(`PATCH /users/${ada}`, { headers, body: { role: 'clerk' } })).status, 200, 'a role that the caller may give')
})

test('a caller who is not an administrator cannot give a role that the tenant does not have', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask } = opened
  await addUser(app, 'acme', boss, 'admin')
  const ada = await addUser(app, 'acme', email)
  const manager = await addUser(app, 'acme', 'manager@example.com', 'manager')
  const admin = await as(opened, 'acme', boss)
  const made = await admin('POST /tenant/api-keys', { name: 'k', scopes: ['users:write'] })
  const headers = { 'x-api-key': secretText(String(made.body['key']), 'an API key') }
  const give = (id: string, role: string, caller: object = { headers }) => ask(`PATCH /users/${id}`, { ...caller, body: { role } })
  const invite = (role: string) => ask('POST /users/invite', { headers, body: { email: `new-${role}@example.com`, role } })

  refused(t, await give(ada, 'manager'), 403, 'GRANT_EXCEEDS')
  refused(t, await invite('manager'), 403, 'GRANT_EXCEEDS')
  t.equal((await give(manager, 'manager')).status, 200, 'the role that the user has')
  t.equal((await give(manager, 'user')).status, 200, 'the default role')
  t.equal((await invite('user')).status, 201, 'the default role')
  const token = app.auth.sign({ sub: 'ed', role: 'editor', tenant_id: 'acme', permissions: ['users:write'] })
  t.equal((await give(ada, 'editor', { token })).status, 200, "the caller's own role")
  t.equal((await admin(`PATCH /users/${ada}`, { role: 'manager' })).status, 200, 'an administrator')

  t.equal((await admin('PUT /tenant/rbac', { enabled: false, roles: [{ name: 'viewer', permissions: [] }] })).status, 200)
  t.equal((await give(ada, 'viewer')).status, 200, 'a role that the tenant has')
})

test('without roles of tenants, a user can get a role of any name', async (t) => {
  const { app, as } = await testApp(t, { engine: await postgresSection(t), plugins: { users: {}, sessions: {} }, tenants: ['acme'] })
  const clerk = as({ sub: 'clerk', tenant_id: 'acme', permissions: ['users:write'] })
  const ada = await addUser(app, 'acme', email)
  t.equal((await clerk(`PATCH /users/${ada}`, { body: { role: 'editor' } })).status, 200)
  refused(t, await clerk(`PATCH /users/${ada}`, { body: { role: 'admin' } }), 403, 'GRANT_EXCEEDS')
})

test("a user's assigned roles count for any spelling of its id", async (t) => {
  const { app, as } = await testApp(t, {
    engine: await postgresSection(t),
    plugins: { database: { roleTables: defaultRoleTables }, rbac: {}, users: {}, sessions: {} },
    tenants: ['acme']
  })
  const platform = as({ sub: 'root', role: 'admin' })
  const clerk = as({ sub: 'clerk', tenant_id: 'acme', permissions: ['users:write'] })
  const ada = await addUser(app, 'acme', email)
  const roleId = (await makeRole(t, platform, { name: 'accountant', permissions: ['accounts:write'] })).id
  t.equal((await platform('POST /rbac/assign', { tenant: 'acme', body: { userId: ada, roleId } })).status, 201)
  for (const id of [ada, ada.toUpperCase()]) refused(t, await clerk(`DELETE /users/${id}`), 403, 'GRANT_EXCEEDS', id)
})

test('disabling a user ends its sessions and keys on every server', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'] })
  const there = await open(t, engine, { clock: here.clock })
  await addUser(here.app, 'acme', boss, 'admin')
  const admin = await as(here, 'acme', boss)
  const ends = async (label: string, change: (id: string) => Promise<Reply>, keepsSession: boolean) => {
    const address = `${label}@example.com`
    const id = await addUser(here.app, 'acme', address, 'admin')
    const { body: { token, refreshToken } } = await here.logIn('acme', address)
    const { body: { key, id: keyId } } = await here.ask('POST /tenant/api-keys', {
      token: String(token),
      body: { name: 'k', scopes: ['*'] }
    })
    const { body: { key: second } } = await here.ask('POST /tenant/api-keys', {
      headers: { 'x-api-key': String(key) },
      body: { name: 'k2', scopes: ['users:write'] }
    })
    await here.ask('POST /users/invite', { token: String(token), body: { email: `friend-of-${address}` } })
    const byKey = (opened: Opened, text: unknown) => opened.ask('GET /users', { headers: { 'x-api-key': String(text) } })
    for (const server of [here, there]) {
      t.same([await status(server, token), (await byKey(server, key)).status, (await byKey(server, second)).status], [200, 200, 200])
    }
    t.equal((await change(id)).status, 200, label)
    for (const server of [here, there]) {
      await until(`${label}: the token`, async () => await status(server, token) === 401)
      for (const text of [key, second]) {
        await until(`${label}: the API key`, async () => (await byKey(server, text)).status === (keepsSession ? 200 : 401))
      }
    }
    t.equal(
      (await there.ask('POST /auth/refresh', { body: { refreshToken } })).status,
      keepsSession ? 200 : 401,
      `${label}: the refresh token`
    )
    const rows = await here.app.db.selectFrom('tenantry.audit_log').select('target').where('action', '=', 'api_key.delete')
      .where('target', '=', String(keyId)).execute()
    t.equal(rows.length, keepsSession ? 0 : 1, 'the end of the key is audited')
    await here.settled()
    const invitations = await here.app.db.selectFrom('tenantry.user_links').select('email').where('email', '=', `friend-of-${address}`)
      .execute()
    t.equal(invitations.length, keepsSession ? 1 : 0, 'invitations')
  }
  await ends('disabled', (id) => admin(`PATCH /users/${id}`, { status: 'disabled' }), false)
  await ends('deleted', (id) => admin(`DELETE /users/${id}`), false)
  await ends('deleted-in-capitals', (id) => admin(`DELETE /users/${id.toUpperCase()}`), false)
  await ends('demoted', (id) => admin(`PATCH /users/${id}`, { role: 'user' }), true)
  t.equal(await status(here, (await here.logIn('acme', boss)).body['token']), 200)
})

test('a key that a user rotated, and whose text the user knows, ends with the user', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask } = opened
  await addUser(app, 'acme', boss, 'admin')
  const id = await addUser(app, 'acme', 'rotating@example.com', 'admin')
  const [admin, rotating] = [await as(opened, 'acme', boss), await as(opened, 'acme', 'rotating@example.com')]
  const own = String((await rotating('POST /tenant/api-keys', { name: 'own', scopes: ['*'] })).body['key'])
  const [byUser, byAdmin] = [(path: string) => rotating(path), (path: string) => admin(path)]
  const withGracePeriod = (path: string) => admin(path, { gracePeriodDays: 1 })
  const rotations = {
    byUser: [byUser],
    byKeyOfUser: [(path: string) => ask(path, { headers: { 'x-api-key': own } })],
    beforeGracePeriod: [byUser, withGracePeriod],
    before: [byUser, byAdmin],
    inEarlierGracePeriod: [byUser, byAdmin, withGracePeriod]
  }
  const keys: Record<string, unknown> = {}
  for (const [name, steps] of Object.entries(rotations)) {
    const made = await admin('POST /tenant/api-keys', { name, scopes: ['users:write'] })
    for (const step of steps) {
      const { status, body } = await step(`POST /tenant/api-keys/${String(made.body['id'])}/rotate`)
      t.equal(status, 200, name)
      keys[name] = body['key']
    }
  }
  const statuses = async () => {
    const found: Record<string, number> = {}
    for (const [name, key] of Object.entries(keys)) found[name] = (await ask('GET /users', { headers: { 'x-api-key': String(key) } })).status
    return found
  }
  t.strictSame(await statuses(), Object.fromEntries(Object.keys(rotations).map((name) => [name, 200])))
  t.equal((await admin(`DELETE /users/${id}`)).status, 200)
  t.same(await statuses(), { byUser: 401, byKeyOfUser: 401, beforeGracePeriod: 401, before: 200, inEarlierGracePeriod: 200 })
})

test('a request that runs while its user ends leaves no API key, no invitation, and no change of users and roles', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, logIn } = opened
  await addUser(app, 'acme', boss, 'admin')
  const admin = await as(opened, 'acme', boss)
  const { links } = app.mail
  const { removeFrom } = links
  const refuses = async (
    address: string,
    end: (id: string) => Promise<Reply>,
    request: (caller: object) => Promise<Reply>,
    byKey = false
  ) => {
    const id = await addUser(app, 'acme', address, 'admin')
    const token = String((await logIn('acme', address)).body['token'])
    const { body: { key } } = await ask('POST /tenant/api-keys', { token, body: { name: 'k', scopes: ['*'] } })
    let late = Promise.resolve<Reply | null>(null)
    links.removeFrom = async (...given) => {
      await removeFrom(...given)
      late = request(byKey ? { headers: { 'x-api-key': String(key) } } : { token })
      await untilBlocked(app.db, late)
    }
    t.equal((await end(id)).status, 200, address)
    t.equal((await late)?.status, 401, address)
  }
  const { body: { id: shared } } = await admin('POST /tenant/api-keys', { name: 'shared' })
  const rotate = (caller: object) => ask(`POST /tenant/api-keys/${String(shared)}/rotate`, caller)
  const makeKey = (caller: object) => ask('POST /tenant/api-keys', { ...caller, body: { name: 'k2' } })
  const invite = (caller: object) => ask('POST /users/invite', { ...caller, body: { email: 'friend@example.com' } })
  const disable = (id: string) => admin(`PATCH /users/${id}`, { status: 'disabled' })
  const remove = (id: string) => admin(`DELETE /users/${id}`)
  await refuses('disabled@example.com', disable, makeKey)
  await refuses('deleted@example.com', remove, makeKey)
  await refuses('key@example.com', disable, makeKey, true)
  await refuses('rotating@example.com', disable, rotate)
  await refuses('inviting@example.com', remove, invite)
  let self = ''
  const disableSelf = (id: string) => disable(self = id)
  await refuses('enabling@example.com', disableSelf, (caller) => ask(`PATCH /users/${self}`, { ...caller, body: { status: 'active' } }), true)
  t.equal((await app.users.find('acme', self))?.status, 'disabled')
  const dormant = await addUser(app, 'acme', 'dormant@example.com')
  await refuses('promoting@example.com', remove, (caller) => ask(`PATCH /users/${dormant}`, { ...caller, body: { role: 'admin' } }))
  await refuses('removing@example.com', disable, (caller) => ask(`DELETE /users/${dormant}`, caller))
  t.match(await app.users.find('acme', dormant), { role: 'user' })
  const rbac = { enabled: true, defaultRole: 'x', roles: [{ name: 'x', permissions: ['*'] }] }
  await refuses('roles@example.com', disable, (caller) => ask('PUT /tenant/rbac', { ...caller, body: rbac }))
  t.match((await admin('GET /tenant/rbac')).body, { enabled: false, roles: [] })
  await admin(`DELETE /tenant/api-keys/${String(shared)}`)
  for (const table of ['tenantry.api_keys', 'tenantry.user_links'] as const) {
    t.same(await app.db.selectFrom(table).selectAll().execute(), [], table)
  }
})

test('a request that runs while its session, its role or the text of its key ends leaves no API key', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, clock } = opened
  await addUser(app, 'acme', boss, 'admin')
  const admin = await as(opened, 'acme', boss)
  const id = await addUser(app, 'acme', email, 'admin')
  const token = async () => secretText(String((await opened.logIn('acme', email)).body['token']), 'a token')
  /** Both wait for the tenant, the end first. */
  const race = async (end: () => Promise<Reply>, request: () => Promise<Reply>): Promise<number> => {
    const { ending, late } = await app.db.transaction().execute(async (holder) => {
      await lockTenant(holder, tenantRef('acme'), 'alone')
      const ending = end()
      await untilBlocked(app.db, ending)
      const late = request()
      await untilBlocked(app.db, late, 2)
      return { ending, late }
    })
    t.equal((await ending).status, 200)
    return (await late).status
  }
  const create = (token: string) => () => ask('POST /tenant/api-keys', { token, body: { name: 'k', scopes: ['*'] } })

  const [stolen, own] = [await token(), await token()]
  t.equal(await race(() => ask('POST /auth/logout-all', { token: own }), create(stolen)), 401, 'a logout everywhere')
  clock.forward(1000)
  const closed = await token()
  t.equal(await race(() => ask('POST /auth/logout', { token: closed }), create(closed)), 401, 'a logout')
  const demoted = await token()
  t.equal(await race(() => admin(`PATCH /users/${id}`, { role: 'user' }), create(demoted)), 401, 'another role')
  await admin(`PATCH /users/${id}`, { role: 'admin' })
  const outside = app.auth.sign({ sub: 'idp-user', role: 'admin', tenant_id: 'acme' })
  t.equal(await race(() => ask('POST /auth/logout-all', { token: outside }), create(outside)), 401, 'a token of another issuer')

  const { body: { id: keyId, key } } = await admin('POST /tenant/api-keys', { name: 'leaked', scopes: ['api-keys:write'] })
  const rotate = (request: object) => ask(`POST /tenant/api-keys/${String(keyId)}/rotate`, request)
  const old = { headers: { 'x-api-key': secretText(String(key), 'an API key') } }
  t.equal(await race(() => admin(`POST /tenant/api-keys/${String(keyId)}/rotate`), () => rotate(old)), 401, 'a rotated key')
  t.match((await admin('GET /tenant/api-keys')).body.data, [{ name: 'leaked' }])

  const [kept, other] = [await token(), await token()]
  const change = { token: kept, body: { currentPassword: password, password: secretText('another horse battery staple', 'a password') } }
  t.equal(await race(() => ask('POST /auth/password', change), create(other)), 401, 'a new password')
  t.equal((await create(kept)()).status, 201, 'the session that changed the password')
  const { body: { key: renewed } } = await admin(`POST /tenant/api-keys/${String(keyId)}/rotate`, { gracePeriodDays: 1 })
  secretText(String(renewed), 'an API key')
  const { body: { key: newest } } = await admin(`POST /tenant/api-keys/${String(keyId)}/rotate`, { gracePeriodDays: 1 })
  secretText(String(newest), 'an API key')
  const previous = { headers: { 'x-api-key': String(renewed) } }
  t.equal((await ask('POST /tenant/api-keys', { ...previous, body: { name: 'k' } })).status, 201, 'a previous key within its grace period')
  refused(t, await rotate(previous), 403, 'GRANT_EXCEEDS', 'a previous key cannot extend its own life')
})

test('a token that a change of role ended stays ended when its session changes the password', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, logIn } = opened
  await addUser(app, 'acme', boss, 'admin')
  const id = await addUser(app, 'acme', email, 'admin')
  const admin = await as(opened, 'acme', boss)
  const { body: { token: ended, refreshToken } } = await logIn('acme', email)
  t.equal((await admin(`PATCH /users/${id}`, { role: 'user' })).status, 200)
  t.equal(await status(opened, ended), 401)

  const { body: { token } } = await ask('POST /auth/refresh', { body: { refreshToken } })
  const change = (from: string, to: string) =>
    ask('POST /auth/password', { token: String(token), body: { currentPassword: from, password: to } })
  const second = secretText('another horse battery staple', 'a password')
  t.equal((await change(password, second)).status, 200)
  t.equal(await status(opened, ended), 401, 'the token with the old role')
  t.equal(await status(opened, token), 200, 'the token that changed the password')
  t.equal((await change(second, secretText('a third horse battery staple', 'a password'))).status, 200)
  t.equal(await status(opened, token), 200, 'after a second change')
  t.equal(await status(opened, ended), 401)
})

test('a user who is disabled or gets another role before its first session gets no token', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app, ask, mails } = opened
  await addUser(app, 'acme', boss, 'admin')
  const admin = await as(opened, 'acme', boss)
  const { begin } = app.sessions
  const change = (body: object) => {
    app.sessions.begin = async (user, ...rest) => {
      t.equal((await admin(`PATCH /users/${user.id}`, body)).status, 200)
      return await begin(user, ...rest)
    }
  }
  for (const body of [{ status: 'disabled' }, { role: 'user' }]) {
    await admin('POST /users/invite', { email: `${Object.keys(body).join()}@example.com`, role: 'admin' })
    await opened.settled()
    change(body)
    refused(t, await ask('POST /auth/invite/accept', { body: { token: tokenOf(mails.at(-1)!), password } }), 401, 'TOKEN_INVALID')
    app.sessions.begin = begin
  }
  change({ status: 'disabled' })
  refused(t, await ask('POST /auth/register', { tenant: 'acme', body: { email, password } }), 401, 'TOKEN_INVALID')
  t.equal((await app.db.selectFrom('tenantry.refresh_tokens').select('id').execute()).length, 1, 'the session of the administrator')
})

test("a user is invited, and accepts with the mail's link", (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme', 'globex'] })
    const { app, ask, clock, mails } = opened
    const own = await addUser(app, 'acme', boss, 'admin')
    const admin = await as(opened, 'acme', boss)
    const invite = async (address: string, role?: string) => {
      const response = await admin('POST /users/invite', { email: address, ...role !== undefined && { role } })
      await opened.settled()
      const mail = mails.at(-1)
      return { response, token: mail === undefined ? '' : tokenOf(mail) }
    }
    const accept = (token: string, request: object = {}) => ask('POST /auth/invite/accept', { body: { token, password }, ...request })

    const { response, token } = await invite('New@Example.com', 'editor')
    t.match(response, { status: 201, body: { id: String, expiresAt: new Date(clock.now() + hour / 2).toISOString() } })
    t.same(Object.keys(response.body).sort(), ['expiresAt', 'id'], 'the token is sent only by mail')
    t.match(mails, [{
      kind: 'invite',
      tenant: 'acme',
      to: 'new@example.com',
      link: /^https:\/\/app\.example\.com\/accept-invitation#token=lt_acme\./
    }])
    t.equal((await admin('GET /users')).body.data?.length, 1, 'no user yet')
    refused(t, await accept(token.replace('lt_acme', 'lt_globex')), 400, 'LINK_INVALID', 'of another tenant')
    refused(t, await accept(token, { tenant: 'globex' }), 400, 'LINK_INVALID', 'a header that names another tenant')
    refused(t, await accept(token, { body: { token, password: 'short' } }), 400, 'VALIDATION_FAILED')
    refused(t, await accept(token, { body: { token, password, role: 'admin' } }), 400, 'VALIDATION_FAILED')
    refused(t, await ask('POST /auth/password/reset', { body: { token, password } }), 400, 'LINK_INVALID')
    const responses = await Promise.all([accept(token), accept(token), accept(token)])
    t.same(responses.map(({ status }) => status).sort(), [201, 400, 400], 'once')
    const accepted = responses.find(({ status }) => status === 201)
    t.match(accepted?.body, {
      token: String,
      refreshToken: String,
      user: { id: response.body['id'], email: 'new@example.com', role: 'editor', tenantId: 'acme' }
    })
    t.match((await ask('GET /auth/me', { token: String(accepted?.body['token']) })).body, { emailVerified: true, role: 'editor' })
    t.match(claimsOf(accepted?.body['token']), { email: 'new@example.com', email_verified: true })
    t.equal((await opened.logIn('acme', 'new@example.com')).status, 200)
    refused(t, (await invite('new@example.com')).response, 409, 'CONFLICT', 'the address has a user already')

    await fails(t, opened, own, invite, accept)
    const { rows } = await sql<
      { line: string }
    >`select concat_ws(' ', action, target, user_id) as line from tenantry.audit_log where action in ('user.invite', 'user.accept') order by id limit 2`
      .execute(app.db)
    t.same(rows.map(({ line }) => line), [`user.invite new@example.com ${own}`, `user.accept new@example.com ${String(response.body['id'])}`])
  }))

async function fails (
  t: Test,
  { app, ask, clock, mails }: Opened,
  own: string,
  invite: (address: string, role?: string) => Promise<{ response: Reply, token: string }>,
  accept: (token: string) => Promise<Reply>
): Promise<void> {
  const first = await invite('twice@example.com')
  const second = await invite('twice@example.com', 'reader')
  refused(t, await accept(first.token), 400, 'LINK_INVALID', 'a newer invitation')
  t.match((await accept(second.token)).body, { user: { role: 'reader', id: second.response.body['id'] } })
  const late = await invite('late@example.com')
  clock.forward(hour / 2)
  refused(t, await accept(late.token), 400, 'LINK_INVALID', 'after 30 minutes')
  const registered = await invite('own@example.com')
  t.equal((await ask('POST /auth/register', { tenant: 'acme', body: { email: 'own@example.com', password } })).status, 201)
  refused(t, await accept(registered.token), 409, 'CONFLICT', 'the user registered meanwhile')
  const limited = await Promise.all(Array.from({ length: 6 }, () => invite('many@example.com')))
  t.same(limited.map(({ response }) => response.status).sort(), [201, 201, 201, 429, 429, 429], 'three per hour')
  const attempts = createAttemptLimiter(app.engine.kyselyFor, clock.now)
  const rule = { kind: 'invite.tenant', max: 1000, windowMs: hour }
  while (!await attempts.isSpent(rule, tenantRef('acme'), '')) await attempts.consume(rule, tenantRef('acme'), '')
  refused(
    t,
    await ask('POST /users/invite', { token: app.auth.sign({ sub: 'new', role: 'admin', tenant_id: 'acme' }), body: { email: 'x@example.com' } }),
    429,
    'TOO_MANY_ATTEMPTS',
    'a thousand of the tenant, by any callers'
  )
  clock.forward(hour)
  const last = await invite('last@example.com')
  const sent = mails.length
  await app.db.updateTable('tenantry.users').set({ status: 'disabled' }).where('id', '=', own).execute()
  t.equal(mails.length, sent)
  await app.tenants.delete('acme')
  refused(t, await accept(last.token), 400, 'LINK_INVALID', 'a deleted tenant')
}

test('without `auth.mail` invitations are rejected, and `plugins.users` disables the endpoints', async (t) => {
  const app = await testServer(t, {}, { tenants: ['acme'] })
  const admin = caller(t, app, { token: app.auth.sign({ sub: 'root', role: 'admin', tenant_id: 'acme' }) })
  refused(t, await admin('POST /users/invite', { body: { email } }), 503, 'MAIL_NOT_CONFIGURED')
  t.match((await admin('GET /users')).body, { data: { length: 0 }, pagination: { total: 0 } })
  const off = await testServer(t, { plugins: { users: false } }, { tenants: ['acme'] })
  refused(
    t,
    await caller(t, off, { token: off.auth.sign({ sub: 'root', role: 'admin', tenant_id: 'acme' }) })('GET /users'),
    404,
    'NOT_FOUND'
  )
  t.equal(
    (await caller(t, off)('POST /auth/login', { body: { email, password: secretText('any password at all') } })).status,
    401,
    'logins stay'
  )
})
