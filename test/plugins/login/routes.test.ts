import { hash } from '@node-rs/argon2'
import { type Test, test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused, type Reply } from '../../http/caller.js'
import { enrol } from '../mfa/app.js'
import { addUser, audited, claimsOf, open, type Opened, password, wrong } from './app.js'

const email = 'ada@example.com'

test('users with passwords, of tenants and of the platform', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme', 'globex', 'initech'] })
    await t.test('a user logs in with its password', (t) => logsIn(t, opened))
    await t.test('a new user needs an unused address, a valid password, a valid role and an existing tenant', (t) =>
      creates(t, opened))
    await t.test('a login renews a hash with an outdated cost', (t) => renews(t, opened))
  }))

async function logsIn (t: Test, { app, ask, logIn }: Opened): Promise<void> {
  const other = secretText('another password of ada', 'a password of another tenant')
  const acme = await addUser(app, 'acme', 'Ada@Example.COM', 'editor')
  const globex = await app.users.create({ tenant: 'globex', email, password: other }, noActor)
  const platform = await addUser(app, '', email, 'admin')
  t.equal(new Set([acme, globex.id, platform]).size, 3, 'one address is three users')

  const response = await logIn('acme', 'ADA@example.com', password)
  t.match(response, {
    status: 200,
    headers: { 'cache-control': 'no-store' },
    body: { tokenType: 'Bearer', expiresIn: 3600, user: { id: acme, email, role: 'editor', tenantId: 'acme' } }
  })
  t.match(claimsOf(response.body['token']), {
    sub: acme,
    role: 'editor',
    tenant_id: 'acme',
    email,
    email_verified: false,
    amr: ['pwd'],
    exp: Number,
    iat: Number,
    jti: String
  })
  t.match(await app.auth.verify(String(response.body['token'])), { sub: acme, tenant_id: 'acme' })
  const ofPlatform = await logIn('', email, password)
  t.match(ofPlatform.body, { user: { id: platform, role: 'admin', tenantId: null } })
  t.notOk('tenant_id' in claimsOf(ofPlatform.body['token']), 'a platform user has no tenant')
  t.match((await logIn('globex', email, other)).body, { user: { id: globex.id, role: 'user', tenantId: 'globex' } })
  refused(t, await logIn('globex', email, password), 401, 'CREDENTIALS_INVALID', "another tenant's password")
  refused(t, await logIn('', email, other), 401, 'CREDENTIALS_INVALID', "a tenant's password at the platform")

  refused(t, await ask('POST /auth/login', { tenant: 'nobody', body: { email, password } }), 401, 'CREDENTIALS_INVALID')
  refused(t, await ask('POST /auth/login', { tenant: 'a b', body: { email, password } }), 400, 'TENANT_INVALID')
  await app.tenants.update('globex', { status: 'suspended' })
  refused(t, await logIn('globex', email, other), 403, 'TENANT_SUSPENDED')
  t.same(await app.users.find('acme', acme), {
    id: acme,
    tenant: 'acme',
    email,
    role: 'editor',
    status: 'active',
    emailVerified: false,
    createdAt: new Date(Date.parse('2026-06-01T12:00:00Z'))
  })
  for (const [tenant, id] of [['globex', acme], ['', acme], ['acme', globex.id], ['acme', 'idp:ada'], ['acme', '']] as const) {
    t.equal(await app.users.find(tenant, id), null, `${id} in "${tenant}"`)
  }
  t.strictSame(await audited(app), [
    `acme user.create success ${email}`,
    `globex user.create success ${email}`,
    ` user.create success ${email}`,
    `acme auth.login success ${email} ${acme} 192.0.2.1`,
    ` auth.login success ${email} ${platform} 192.0.2.1`,
    `globex auth.login success ${email} ${globex.id} 192.0.2.1`,
    `globex auth.login failure ${email} 192.0.2.1 credentials`,
    ` auth.login failure ${email} 192.0.2.1 credentials`
  ])
}

async function creates (t: Test, { app }: Opened): Promise<void> {
  const create = (given: object) => app.users.create({ tenant: 'initech', email, password, ...given }, noActor)
  const results = await Promise.allSettled(Array.from({ length: 5 }, () => create({})))
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1, 'one of several concurrent requests')
  await t.rejects(create({ email: 'ADA@example.com' }), { code: 'TENANTRY_CONFLICT' })
  await t.rejects(create({ tenant: 'nobody' }), { code: 'TENANTRY_TENANT_UNKNOWN' })
  for (
    const wrongs of [
      { email: 'ada' },
      { email: `${'a'.repeat(250)}@b.cd` },
      { email: 'a\0@example.com' },
      { email: '' },
      { password: 'short' },
      { password: 'x'.repeat(257) },
      { role: '' },
      { role: 'a b' },
      { role: 'r'.repeat(65) }
    ]
  ) {
    await t.rejects(create({ email: 'bob@example.com', ...wrongs }), { code: 'TENANTRY_VALIDATION_FAILED' }, JSON.stringify(wrongs))
  }
  const longest = `${'a'.repeat(64)}@${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(57)}.ef`
  t.match(await create({ email: longest }), { email: longest }, '254 characters')
  await app.tenants.delete('initech')
  await t.rejects(create({ email: 'eve@example.com' }), { code: 'TENANTRY_TENANT_UNKNOWN' })
  t.same(
    await app.db.selectFrom('tenantry.users').selectAll().where('tenant_id', '=', 'initech').execute(),
    [],
    'users are deleted with their tenant'
  )
}

test('a refused login without X-Tenant-ID says which users it is for, whether the address is known or not', async (t) => {
  const { app, logIn } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  await addUser(app, 'acme', email)
  await addUser(app, '', 'root@example.com', 'admin')
  const hint = [{ path: '', message: 'without the header X-Tenant-ID, only users of the platform can log in', keyword: 'tenant' }]
  const tries = [[email, password], [email, wrong], ['root@example.com', wrong], ['nobody@example.com', password]] as const
  for (const [address, given] of tries) {
    const reply = await logIn('', address, given)
    refused(t, reply, 401, 'CREDENTIALS_INVALID')
    t.same(reply.body.details, hint, address)
  }
  for (const tenant of ['acme', 'nobody']) t.equal((await logIn(tenant, email, wrong)).body.details, undefined, tenant)
})

async function renews (t: Test, { app, logIn }: Opened): Promise<void> {
  const ofRoot = app.db.selectFrom('tenantry.users').select('password_hash').where('tenant_id', '=', '')
  const stored = async () => (await ofRoot.executeTakeFirstOrThrow()).password_hash
  await app.db.updateTable('tenantry.users').set({ password_hash: await hash(password, { memoryCost: 4096, timeCost: 1 }) })
    .where('tenant_id', '=', '').execute()
  const weak = await stored()
  refused(t, await logIn('', email, wrong), 401, 'CREDENTIALS_INVALID')
  t.equal(await stored(), weak, 'not by a failed attempt')
  t.equal((await logIn('', email, password)).status, 200)
  const renewed = await stored()
  t.match(renewed, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.equal((await logIn('', email, password)).status, 200)
  t.equal(await stored(), renewed, 'once')
}

test('registration creates a user if the document opens it and the tenant does not close it', async (t) => {
  const { app, ask } = await open(t, await postgresSection(t), { tenants: ['acme', 'closed'], registration: 'open' })
  await app.db.insertInto('tenantry.tenant_configs').values({
    tenant_id: 'closed',
    version: 1,
    document: JSON.stringify({ settings: { registration: 'closed' } }),
    created_by: 'x'
  }).execute()
  await app.events.change({ topic: 'config', tenant: 'closed' }, async () => {})
  const body = { email: 'New@Example.com', password }
  const register = (request: object = {}) => ask('POST /auth/register', { tenant: 'acme', body, ...request })

  const response = await register()
  t.match(response, {
    status: 201,
    headers: { 'cache-control': 'no-store' },
    body: { tokenType: 'Bearer', expiresIn: 3600, user: { email: 'new@example.com', role: 'user', tenantId: 'acme' } }
  })
  t.match(claimsOf(response.body['token']), { role: 'user', tenant_id: 'acme', amr: ['pwd'] })
  t.match(await ask('POST /auth/login', { tenant: 'acme', body }), { status: 200, body: { user: { email: 'new@example.com' } } })
  refused(t, await register(), 409, 'CONFLICT')
  refused(t, await register({ tenant: 'closed' }), 403, 'FORBIDDEN', 'the tenant disables it')
  refused(t, await register({ tenant: 'closed', body: {} }), 403, 'FORBIDDEN', 'before the body is validated')
  refused(t, await register({ tenant: 'nobody' }), 404, 'TENANT_UNKNOWN')
  refused(
    t,
    await register({ tenant: undefined, body: { ...body, email: 'root@example.com' } }),
    400,
    'TENANT_REQUIRED',
    'no platform user can register'
  )

  // Members that would give the new user more rights.
  const further = ['role', 'permissions', 'tenant', 'tenantId', 'tenant_id', 'id', 'sub', 'status', 'token', '__proto__', 'constructor']
  for (const member of further) {
    const raw = `{"email": "eve@example.com", "password": ${JSON.stringify(password)}, ${JSON.stringify(member)}: "admin"}`
    t.equal((await register({ body: undefined, raw })).status, 400, member)
  }
  for (
    const raw of [
      '[]',
      'null',
      '"x"',
      '',
      '{"email": ["a@example.com"], "password": "12345678"}',
      '{"email": "a@example.com", "password": 12345678}',
      '{"email": "a@example.com", "password": "1234567\\ud800"}'
    ]
  ) {
    t.equal((await register({ body: undefined, raw })).status, 400, raw)
  }
  refused(t, await register({ body: { email: 'a@example.com', password: 'x'.repeat(20_000) } }), 413, 'BODY_TOO_LARGE')
  const fixed = signToken({ sub: 'root', role: 'admin' })
  const taken = await register({ token: fixed, headers: { 'x-api-key': 'k'.repeat(40) }, body: { email: 'eve@example.com', password } })
  t.match(taken, { status: 201, body: { user: { role: 'user' } } })
  t.notMatch(taken.body['token'], fixed, 'a token is ignored')
  t.match(claimsOf(taken.body['token']), { sub: Object(taken.body['user']).id, role: 'user' })
  t.same(await app.db.selectFrom('tenantry.users').select(['tenant_id', 'email', 'role']).orderBy('email').execute(), [
    { tenant_id: 'acme', email: 'eve@example.com', role: 'user' },
    { tenant_id: 'acme', email: 'new@example.com', role: 'user' }
  ])
  t.match(await audited(app), [/^acme auth.register success new@example.com 127.0.0.1$/, /auth.login/, /^acme auth.register success eve/])
})

test('a partial token gives one session, however many concurrent requests send it to several servers', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'], mfa: true })
  const there = await open(t, engine, { clock: here.clock, mfa: true })
  await addUser(here.app, 'acme', email)
  const { body: { token } } = await here.logIn('acme', email, password)
  const { backupCodes } = await enrol(t, caller(t, here.app, { token: String(token) }), here.clock)
  const { body: { partialToken } } = await here.logIn('acme', email, password)
  const responses = await Promise.all(
    backupCodes.slice(0, 4).map((code, index) =>
      [here, there][index % 2]?.ask('POST /auth/mfa/verify', { token: String(partialToken), body: { code } })
    )
  )
  t.same(responses.map((response) => response?.status).sort(), [200, 401, 401, 401])
})

test('a user with a second factor must enter its code', async (t) => {
  const { app, ask, clock, logIn } = await open(t, await postgresSection(t), { tenants: ['acme', 'globex'], mfa: true })
  const id = await addUser(app, 'acme', email)
  await addUser(app, 'globex', email)
  const { body: { token } } = await logIn('acme', email, password)
  const { phone, backupCodes } = await enrol(t, caller(t, app, { token: String(token) }), clock)
  clock.forward(60_000)
  const asBearer = (partialToken: unknown, code: unknown) => ask('POST /auth/mfa/verify', { token: String(partialToken), body: { code } })
  const inBody = (partialToken: unknown, code: unknown, request: object = {}) =>
    ask('POST /auth/mfa/verify', { body: { partialToken, code }, ...request })
  let calls = 0
  const verify = (partialToken: unknown, code: unknown) =>
    [asBearer, inBody][calls++ % 2]?.(partialToken, code) ?? asBearer(partialToken, code)

  const first = await logIn('acme', email, password)
  t.strictSame(Object.keys(first.body).sort(), ['expiresIn', 'mfaRequired', 'partialToken'], 'no token, and nothing of the user')
  t.match(first, { status: 200, headers: { 'cache-control': 'no-store' }, body: { mfaRequired: true, expiresIn: 300 } })
  t.match((await logIn('globex', email, password)).body, { token: String }, 'another user')
  const { partialToken } = first.body
  const refusal = await verify(partialToken, phone.wrong())
  refused(t, refusal, 401, 'CREDENTIALS_INVALID')
  t.match(refusal, { body: { message: 'Invalid code' }, headers: { 'www-authenticate': 'Bearer' } })
  for (const code of [undefined, undefined, '', '', '12345', 123456, 'x'.repeat(65)]) {
    refused(t, await verify(partialToken, code), 400, 'VALIDATION_FAILED', String(code))
  }
  const whole = await verify(partialToken, phone.code())
  t.match(whole, {
    status: 200,
    headers: { 'cache-control': 'no-store' },
    body: { tokenType: 'Bearer', user: { id, email, role: 'user', tenantId: 'acme' } }
  })
  t.match(claimsOf(whole.body['token']), { sub: id, tenant_id: 'acme', amr: ['pwd', 'otp'] })
  refused(t, await verify(partialToken, backupCodes[0]), 401, 'TOKEN_INVALID', 'a used partial token')
  const { body: { partialToken: second } } = await logIn('acme', email, password)
  refused(t, await verify(second, phone.code()), 401, 'CREDENTIALS_INVALID', 'a used code')
  t.match(await verify(second, backupCodes[0]), { status: 200 }, 'a backup code, which the rejection did not use up')
  const { body: { partialToken: unused } } = await logIn('acme', email, password)

  for (const send of [asBearer, inBody]) {
    refused(t, await send(whole.body['token'], backupCodes[1]), 401, 'TOKEN_INVALID', 'a full token is not a partial one')
    refused(t, await send('x'.repeat(9000), backupCodes[1]), 401, 'TOKEN_INVALID')
    refused(t, await send(`${String(unused).slice(0, -3)}abc`, undefined), 401, 'TOKEN_INVALID', 'before the body is validated')
  }
  const [token1, token2] = [String(unused), app.auth.signPartial({ sub: id, tenant_id: 'acme' })]
  refused(t, await inBody(token1, backupCodes[1], { token: token2 }), 400, 'CREDENTIALS_AMBIGUOUS')
  refused(t, await inBody(token1, phone.wrong(), { token: token1 }), 401, 'CREDENTIALS_INVALID', 'the same one twice')
  for (const body of [{ code: backupCodes[1] }, {}, { partialToken: null, code: backupCodes[1] }, { partialToken: [token1] }, [], 'x']) {
    const missing = await ask('POST /auth/mfa/verify', { body })
    refused(t, missing, 401, 'TOKEN_MISSING', JSON.stringify(body).slice(0, 30))
    t.equal(missing.headers['www-authenticate'], 'Bearer')
  }
  refused(
    t,
    await ask('POST /auth/mfa/verify', { raw: `{"__proto__": {"partialToken": "${token1}"}, "code": "123456"}` }),
    400,
    'BAD_REQUEST'
  )
  for (const tenant of ['globex', 'nobody']) {
    refused(t, await inBody(token1, backupCodes[1], { tenant }), 403, 'TENANT_MISMATCH', tenant)
    refused(
      t,
      await ask('POST /auth/mfa/verify', { token: token1, tenant, body: { code: backupCodes[1] } }),
      403,
      'TENANT_MISMATCH',
      tenant
    )
  }
  await app.tenants.update('acme', { status: 'suspended' })
  for (const send of [asBearer, inBody]) refused(t, await send(token1, backupCodes[1]), 403, 'TENANT_SUSPENDED')
  await app.tenants.update('acme', { status: 'active' })

  await app.sessions.closeAll('acme', id, { userId: id, address: null })
  for (const send of [asBearer, inBody]) {
    refused(t, await send(unused, backupCodes[1]), 401, 'TOKEN_INVALID', 'after a logout everywhere')
  }
  const { body: { partialToken: next } } = await logIn('acme', email, password)
  t.equal((await inBody(next, backupCodes[1], { tenant: 'acme' })).status, 200, 'a partial token of the same second, after the logout')
  const { isClosed } = app.sessions
  app.sessions.isClosed = async (claims) => {
    const closed = await isClosed(claims)
    await app.sessions.closeAll('acme', id, { userId: id, address: null })
    return closed
  }
  const { body: { partialToken: another } } = await logIn('acme', email, password)
  refused(t, await asBearer(another, backupCodes[2]), 401, 'TOKEN_INVALID', 'a concurrent logout everywhere')
  app.sessions.isClosed = isClosed

  const { body: { partialToken: last } } = await logIn('acme', email, password)
  await app.db.updateTable('tenantry.users').set({ status: 'disabled' }).where('id', '=', id).execute()
  refused(t, await verify(last, backupCodes[3]), 401, 'TOKEN_INVALID', "a disabled user's")
  await app.db.updateTable('tenantry.users').set({ status: 'active' }).execute()
  for (let tries = 0; tries < 5; tries++) await verify(last, phone.wrong())
  refused(t, await verify(last, backupCodes[3]), 429, 'TOO_MANY_ATTEMPTS')
  refused(
    t,
    await verify((await logIn('acme', email, password)).body['partialToken'], backupCodes[3]),
    429,
    'TOO_MANY_ATTEMPTS',
    'a new login does not reset the attempts'
  )
  clock.forward(400_000)
  refused(t, await verify(last, backupCodes[3]), 401, 'TOKEN_EXPIRED')
  const { body: { partialToken: over } } = await logIn('acme', email, password)
  await app.db.deleteFrom('tenantry.user_mfa').execute()
  refused(
    t,
    await verify(over, backupCodes[3]),
    401,
    'CREDENTIALS_INVALID',
    'after the second factor was removed, a new login is necessary'
  )
  t.match((await logIn('acme', email, password)).body, { token: String })
  const lines = await audited(app)
  t.ok(
    lines.includes(`acme auth.mfa success ${email} ${id} 127.0.0.1`) &&
      lines.includes(`acme auth.mfa failure ${email} ${id} 127.0.0.1 code`) &&
      lines.includes(`acme auth.mfa failure ${email} ${id} 127.0.0.1 locked`),
    lines.join('\n')
  )
})

test("a platform user's second factor is the platform's, whichever tenant a gateway names", async (t) => {
  const { app, ask, clock, logIn } = await open(t, await postgresSection(t), { tenants: ['acme'], mfa: true, trustHeader: true })
  await addUser(app, '', email)
  const session = await ask('POST /auth/login', { body: { email, password } })
  const token = String(session.body['token'])
  await enrol(t, (target, request) => ask(target, { ...request, token, tenant: 'acme' }), clock)
  t.match((await ask('GET /auth/me', { token, tenant: 'acme' })).body, { tenantId: null, mfaEnabled: true })
  t.match((await logIn('', email, password)).body, { mfaRequired: true })
})

test('a server without the key lets no user in whose second factor another server added', async (t) => {
  const engine = await postgresSection(t)
  const [keyless, keyed] = [
    await open(t, engine, { tenants: ['acme'], mfa: { masterKey: '' } }),
    await open(t, engine, { mfa: true })
  ]
  await addUser(keyless.app, 'acme', email)
  const { body } = await keyless.logIn('acme', email, password)
  await enrol(t, (target, request) => keyed.ask(target, { ...request, token: String(body['token']) }), keyed.clock)
  t.match((await keyed.logIn('acme', email, password)).body, { mfaRequired: true })
  refused(t, await keyless.logIn('acme', email, password), 503, 'MFA_NOT_CONFIGURED')
  t.match((await audited(keyless.app)).at(-1), /auth\.login failure .* mfa$/)
  refused(t, await keyless.logIn('acme', email, wrong), 401, 'CREDENTIALS_INVALID')
})

test('the whole server limits requests by address, closes registration by default, and can disable logins', async (t) => {
  const engine = await postgresSection(t)
  const ask = caller(t, await testServer(t, {}, { engine, tenants: ['acme'] }))
  refused(t, await ask('POST /auth/register', { tenant: 'acme', body: {} }), 403, 'FORBIDDEN')
  t.match(
    (await ask('POST /auth/register', { tenant: 'nobody' })).body,
    { message: 'Registration is closed' },
    'tenants are not revealed'
  )
  const responses: Reply[] = []
  for (const tenant of ['acme', 'nobody']) responses.push(await ask('POST /auth/login', { tenant, body: { email, password } }))
  const [headers, others] = responses.map((
    { status, headers: { date: _date, 'x-request-id': _id, 'x-ratelimit-remaining': _remaining, 'x-ratelimit-reset': _reset, ...headers } }
  ) => ({ status, ...headers }))
  t.same(headers, others, 'no header reveals whether the tenant exists')
  t.match(headers, { status: 401, 'x-ratelimit-limit': '60' })
  // The caller's forwarded address is ignored: server.trustProxy is false.
  const statuses = await Promise.all(
    Array.from(
      { length: 58 },
      async (_none, index) => (await ask('POST /auth/login', { body: {}, headers: { 'x-forwarded-for': `192.0.2.${index}` } })).status
    )
  )
  t.strictSame(new Set(statuses), new Set([400]))
  const beyond = await ask('POST /auth/login', { body: { email, password }, headers: { 'x-forwarded-for': '198.51.100.1' } })
  refused(t, beyond, 429, 'RATE_LIMITED')
  t.match(beyond.headers, { 'retry-after': /^\d+$/ })
  const off = caller(t, await testServer(t, { plugins: { login: false } }, { engine }))
  for (const path of ['login', 'register', 'mfa/verify', 'logout', 'logout-all']) {
    refused(t, await off(`POST /auth/${path}`, { body: {} }), 404, 'NOT_FOUND', path)
  }
})
