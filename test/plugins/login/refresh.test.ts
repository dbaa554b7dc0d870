import { type Test, test } from 'tap'
import { fakeClock } from '../../helpers/clock.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { caller, refused, type Reply } from '../../http/caller.js'
import { enrol } from '../mfa/app.js'
import { addUser, claimsOf, open, type Opened, password } from './app.js'

const email = 'ada@example.com'
const day = 86_400_000

const refresh = ({ ask }: Opened, refreshToken: unknown, tenant?: string) =>
  ask('POST /auth/refresh', { body: { refreshToken }, ...tenant !== undefined && { tenant } })
const info = async ({ ask }: Opened, { body: { token } }: Reply) => (await ask('GET /auth/me', { token: String(token) })).status

test('a refresh token returns the next token and the next refresh token', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme', 'globex'] })
    const { app, clock, logIn } = opened
    const id = await addUser(app, 'acme', email, 'editor')
    await addUser(app, '', email, 'admin')

    const first = await logIn('acme', email, password)
    clock.forward(3_600_000)
    const second = await refresh(opened, first.body['refreshToken'])
    t.match(second, {
      status: 200,
      headers: { 'cache-control': 'no-store' },
      body: { token: String, tokenType: 'Bearer', expiresIn: 3600, user: { id, email, role: 'editor', tenantId: 'acme' } }
    })
    t.not(second.body['refreshToken'], first.body['refreshToken'])
    t.match(claimsOf(second.body['token']), {
      sub: id,
      tenant_id: 'acme',
      role: 'editor',
      email,
      amr: ['pwd'],
      session_id: claimsOf(first.body['token'])['session_id']
    })
    t.equal(await info(opened, second), 200)
    const ofPlatform = await refresh(opened, (await logIn('', email, password)).body['refreshToken'])
    t.match(ofPlatform, { status: 200, body: { user: { role: 'admin', tenantId: null } } })
    t.notOk('tenant_id' in claimsOf(ofPlatform.body['token']))

    await app.db.updateTable('tenantry.users').set({ role: 'viewer' }).where('id', '=', id).execute()
    const third = await refresh(opened, second.body['refreshToken'], 'acme')
    t.match(claimsOf(third.body['token']), { role: 'viewer' }, 'the role is the current one')
    refused(t, await refresh(opened, third.body['refreshToken'], 'globex'), 401, 'TOKEN_INVALID', 'a header that names another tenant')
    clock.forward(30 * day - 1)
    const fourth = await refresh(opened, third.body['refreshToken'])
    t.equal(fourth.status, 200, 'on its last day')
    clock.forward(30 * day)
    refused(t, await refresh(opened, fourth.body['refreshToken']), 401, 'TOKEN_INVALID', 'after it')

    const rows = await app.db.selectFrom('tenantry.refresh_tokens').selectAll().execute()
    t.ok(rows.length > 0)
    const [, , ...parts] = String(fourth.body['refreshToken']).split('.')
    t.ok(parts.length > 0)
    for (const part of parts) {
      t.notMatch(JSON.stringify(rows.map(({ secret, token }) => [secret.toString(), token.toString()])), part, 'only hashes are stored')
    }
  }))

test('an invalid refresh token is rejected', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme', 'globex'] })
  const { app, ask, logIn } = opened
  await addUser(app, 'acme', email)
  await addUser(app, 'globex', email)
  const { body: { refreshToken } } = await logIn('acme', email, password)
  const [head = '', session = '', secret = '', own = ''] = String(refreshToken).split('.')
  const other = String((await logIn('acme', email, password)).body['refreshToken']).split('.')
  const forged = [
    '',
    'x',
    'rt_',
    `${head}.${session}`,
    `rt_globex.${session}.${secret}.${own}`,
    `rt_.${session}.${secret}.${own}`,
    `rt_nobody.${session}.${secret}.${own}`,
    `${head}.${session}.${'A'.repeat(22)}.${'A'.repeat(43)}`,
    `${head}.${session}.${'A'.repeat(22)}.${own}`,
    `${head}.${other[1]}.${secret}.${own}`,
    `${String(refreshToken)}x`,
    `rt_acme'--.${session}.${secret}.${own}`,
    'x'.repeat(256)
  ]
  for (const text of forged) refused(t, await refresh(opened, text), 401, 'TOKEN_INVALID', text)
  for (
    const body of [{}, { refreshToken: null }, { refreshToken: [refreshToken] }, { refreshToken: 'x'.repeat(257) }, {
      refreshToken,
      further: 1
    }]
  ) {
    refused(t, await ask('POST /auth/refresh', { body }), 400, 'VALIDATION_FAILED', JSON.stringify(body))
  }
  refused(t, await ask('GET /auth/me', { token: String(refreshToken) }), 401, 'TOKEN_INVALID', 'in place of a token')
  await app.tenants.update('acme', { status: 'suspended' })
  refused(t, await refresh(opened, refreshToken), 403, 'TENANT_SUSPENDED')
  await app.tenants.update('acme', { status: 'active' })
  const next = await refresh(opened, refreshToken)
  t.equal(next.status, 200, 'none of them has ended the session')

  await app.db.updateTable('tenantry.users').set({ status: 'disabled' }).where('tenant_id', '=', 'acme').execute()
  refused(t, await refresh(opened, next.body['refreshToken']), 401, 'TOKEN_INVALID', 'a disabled user')
  const { body: ofGlobex } = await logIn('globex', email, password)
  await app.db.deleteFrom('tenantry.users').where('tenant_id', '=', 'globex').execute()
  refused(t, await refresh(opened, ofGlobex['refreshToken']), 401, 'TOKEN_INVALID', 'a deleted user')
  await app.db.updateTable('tenantry.tenants').set({ status: 'deleting' }).where('id', '=', 'acme').execute()
  refused(t, await refresh(opened, refreshToken), 401, 'TOKEN_INVALID', 'a used one of a tenant that is being deleted')
  await app.tenants.delete('acme')
  refused(t, await refresh(opened, next.body['refreshToken']), 401, 'TOKEN_INVALID', 'a deleted tenant')
  t.same(await app.db.selectFrom('tenantry.refresh_tokens').selectAll().execute(), [])
})

test('a reused refresh token ends its session on every server', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'] })
  const there = await open(t, engine, { clock: here.clock })
  const id = await addUser(here.app, 'acme', email)
  const stolen = await here.logIn('acme', email, password)
  const other = await here.logIn('acme', email, password)
  const next = await refresh(there, stolen.body['refreshToken'])
  t.same(await Promise.all([info(here, stolen), info(here, next), info(there, next)]), [200, 200, 200])

  refused(t, await refresh(here, stolen.body['refreshToken']), 401, 'TOKEN_INVALID')
  refused(t, await refresh(there, next.body['refreshToken']), 401, 'TOKEN_INVALID', 'the next one is revoked with it')
  for (const server of [here, there]) {
    for (const response of [stolen, next]) await until('the tokens of the session end', async () => await info(server, response) === 401)
    t.equal(await info(server, other), 200, 'another session of the user continues')
  }
  t.equal((await refresh(there, other.body['refreshToken'])).status, 200)
  const entries = await here.app.db.selectFrom('tenantry.audit_log').select(['target', 'outcome', 'address'])
    .where('action', '=', 'auth.refresh').execute()
  t.same(entries, [{ target: id, outcome: 'failure', address: '127.0.0.1' }], 'and it is audited once')
})

test('of many concurrent refreshes with one token at most one succeeds', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'] })
  const there = await open(t, engine, { clock: here.clock })
  await addUser(here.app, 'acme', email)
  const { body: { refreshToken } } = await here.logIn('acme', email, password)
  const responses = await Promise.all(Array.from({ length: 40 }, (_, index) => refresh(index % 2 === 0 ? here : there, refreshToken)))
  const given = responses.filter(({ status }) => status === 200)
  t.equal(given.length, 1)
  t.same(new Set(responses.map(({ status }) => status)), new Set([200, 401]))
  for (const response of given) {
    refused(t, await refresh(here, response.body['refreshToken']), 401, 'TOKEN_INVALID', 'one of them is a thief: the session has ended')
    for (const server of [here, there]) await until('the token of the faster one ends', async () => await info(server, response) === 401)
  }
})

test('a logout ends the session of its refresh token, a logout everywhere ends all sessions', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'] })
  const there = await open(t, engine, { clock: here.clock })
  await addUser(here.app, 'acme', email)
  await addUser(here.app, 'acme', 'bob@example.com')
  const logIn = () => here.logIn('acme', email, password)
  const end = (path: string, { body: { token } }: Reply) => here.ask(`POST ${path}`, { token: String(token) })
  const [first, second, third, bob] = [await logIn(), await logIn(), await logIn(), await here.logIn('acme', 'bob@example.com', password)]
  const next = await refresh(here, first.body['refreshToken'])

  t.equal((await end('/auth/logout', first)).status, 200)
  refused(t, await refresh(there, next.body['refreshToken']), 401, 'TOKEN_INVALID')
  for (const server of [here, there]) {
    for (const response of [first, next]) { await until('both tokens of the session end', async () => await info(server, response) === 401) }
  }
  t.equal(await info(here, second), 200)

  t.equal((await end('/auth/logout-all', second)).status, 200)
  for (const response of [second, third]) refused(t, await refresh(there, response.body['refreshToken']), 401, 'TOKEN_INVALID')
  t.equal((await refresh(there, bob.body['refreshToken'])).status, 200, "another user's sessions stay")
})

test('a logout ends tokens from before a lower `jwt.expiresIn` until they expire', async (t) => {
  const engine = await postgresSection(t)
  const before = await open(t, engine, { tenants: ['acme'], expiresIn: 30 * day / 1000 })
  const { clock } = before
  const after = await open(t, engine, { clock, expiresIn: 900 })
  const end = (path: string, { body: { token } }: Reply) => after.ask(`POST ${path}`, { token: String(token) })
  const isRefused = async (response: Reply, message: string) => {
    const fresh = await open(t, engine, { clock, expiresIn: 900 })
    t.equal(await info(fresh, response), 401, message)
  }

  await addUser(before.app, 'acme', email)
  await addUser(before.app, 'acme', 'bob@example.com')
  const logIn = () => before.logIn('acme', email, password)
  const [first, second, bob] = [await logIn(), await logIn(), await before.logIn('acme', 'bob@example.com', password)]
  t.equal((await end('/auth/logout', await refresh(after, first.body['refreshToken']))).status, 200)
  const used = second.body['refreshToken']
  t.equal((await refresh(after, used)).status, 200)
  refused(t, await refresh(after, used), 401, 'TOKEN_INVALID', 'it was used before')
  clock.forward(day)
  await isRefused(first, 'logged out')
  await isRefused(second, 'its session was revoked')

  t.equal((await end('/auth/logout-all', await after.logIn('acme', 'bob@example.com', password))).status, 200)
  clock.forward(20 * day)
  await isRefused(bob, 'logged out everywhere')
})

test('ended sessions are swept, and each user keeps the newest hundred', async (t) => {
  const clock = fakeClock()
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'], clock })
  const { app } = opened
  const id = await addUser(app, 'acme', email)
  const user = { id, tenant: 'acme', email, role: 'user' }
  const begun: string[] = []
  for (let count = 0; count < 102; count++) {
    begun.push((await app.sessions.begin(user, ['pwd'])).refreshToken)
    clock.forward(1000)
  }
  for (const old of begun.slice(0, 2)) refused(t, await refresh(opened, old), 401, 'TOKEN_INVALID')
  for (const kept of [begun[2], begun[101]]) t.equal((await refresh(opened, kept)).status, 200)
  const count = async () => (await app.db.selectFrom('tenantry.refresh_tokens').select('id').execute()).length
  t.equal(await count(), 100)
  await t.rejects(app.sessions.begin({ ...user, id: '11111111-2222-4333-8444-555555555555' }, ['pwd']), { code: 'TENANTRY_TOKEN_INVALID' })
})

test('a session keeps its login method, and `/auth/me` returns the user', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme'], mfa: true })
    const { app, ask, logIn } = opened
    const id = await addUser(app, 'acme', email, 'editor')
    const { body: { token } } = await logIn('acme', email, password)
    const me = (text: unknown, request: object = {}) => ask('GET /auth/me', { token: String(text), ...request })
    t.match(await me(token), { status: 200, headers: { 'cache-control': 'no-store' } })
    t.same((await me(token)).body, {
      id,
      email,
      role: 'editor',
      permissions: [],
      tenantId: 'acme',
      mfaEnabled: false,
      emailVerified: false
    })
    await secondFactor(t, opened, String(token), id)

    const signed = (claims: object) => app.auth.sign({ sub: 'idp-ada', ...claims })
    t.same((await me(signed({ tenant_id: 'acme', permissions: ['notes:write', 'notes:read'] }))).body, {
      id: 'idp-ada',
      email: null,
      role: null,
      permissions: ['notes:read', 'notes:write'],
      tenantId: 'acme',
      mfaEnabled: false,
      emailVerified: null
    }, 'a user of another issuer')
    t.match((await me(signed({ role: 'admin', email: 'root@example.com' }), { tenant: 'acme' })).body, {
      email: 'root@example.com',
      permissions: ['*'],
      tenantId: null
    }, 'a platform administrator')
    refused(t, await ask('GET /auth/me'), 401, 'TOKEN_MISSING')
  }))

async function secondFactor (t: Test, opened: Opened, token: string, id: string): Promise<void> {
  const { app, ask, clock, logIn } = opened
  const { phone } = await enrol(t, caller(t, app, { token }), clock)
  const { body: { partialToken } } = await logIn('acme', email, password)
  clock.forward(60_000)
  const verified = await ask('POST /auth/mfa/verify', { token: String(partialToken), body: { code: phone.code() } })
  t.match(verified, { status: 200, body: { refreshToken: String } })
  const next = await refresh(opened, verified.body['refreshToken'])
  t.match(claimsOf(next.body['token']), { sub: id, amr: ['pwd', 'otp'] })
  t.match((await ask('GET /auth/me', { token: String(next.body['token']) })).body, { mfaEnabled: true })
}
