import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { refused, type Reply } from '../../http/caller.js'
import { platformKey } from '../auth/app.js'
import { addUser, claimsOf, password, wrong } from '../login/app.js'
import { open, type Opened, tokenOf } from './app.js'

const email = 'ada@example.com'
const next = secretText('another horse battery staple', 'a new password')
const minute = 60_000

const reset = ({ ask }: Opened, token: string, request: object = {}) =>
  ask('POST /auth/password/reset', { body: { token, password: next }, ...request })
const me = async ({ ask }: Opened, { body: { token } }: Reply) => (await ask('GET /auth/me', { token: String(token) })).status

/** Requests a link, and returns its token. */
async function linkFor (t: Test, opened: Opened, tenant: string, address = email): Promise<string> {
  const before = opened.mails.length
  t.match(await opened.forgot(tenant, address), { status: 202, body: { success: true } })
  await opened.settled()
  const mail = opened.mails[before]
  if (mail === undefined) throw new Error('no mail was sent')
  return tokenOf(mail)
}

test('a forgotten password is reset with the link of a mail', (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme', 'globex'] })
    const { app, mails, logIn } = opened
    const id = await addUser(app, 'acme', email)
    await addUser(app, 'globex', email)
    await addUser(app, '', email, 'admin')
    const sessions = [await logIn('acme', email), await logIn('acme', email)]
    const others = [await logIn('globex', email), await logIn('', email)]

    const token = await linkFor(t, opened, 'acme', 'ADA@Example.com')
    t.match(mails, [{
      kind: 'reset',
      tenant: 'acme',
      to: email,
      subject: 'Reset your password',
      link: /^https:\/\/app\.example\.com\/reset-password#token=lt_acme\./
    }])
    t.match(mails[0]?.text, mails[0]?.link)
    t.match(await reset(opened, token), { status: 200, body: { success: true } })
    refused(t, await logIn('acme', email), 401, 'CREDENTIALS_INVALID', 'the old password')
    t.match(claimsOf((await logIn('acme', email, next)).body['token']), { email_verified: true }, 'the mail has arrived')
    for (const session of sessions) {
      t.equal(await me(opened, session), 401)
      refused(t, await opened.ask('POST /auth/refresh', { body: { refreshToken: session.body['refreshToken'] } }), 401, 'TOKEN_INVALID')
    }
    for (const other of others) t.equal(await me(opened, other), 200, 'the same address in another tenant is another user')
    t.equal((await logIn('globex', email)).status, 200)
    t.equal((await app.users.find('acme', id))?.emailVerified, true, 'the mail has arrived')
    refused(t, await reset(opened, token), 400, 'LINK_INVALID', 'a second time')

    const ofPlatform = await linkFor(t, opened, '')
    t.match(ofPlatform, /^lt_\./)
    t.equal((await reset(opened, ofPlatform)).status, 200)
    t.equal((await logIn('', email, next)).status, 200, 'a platform user')
    const { rows } = await sql<
      { line: string }
    >`select concat_ws(' ', tenant_id, action, target, user_id, address) as line from tenantry.audit_log where action like 'auth.password%' order by id`
      .execute(app.db)
    t.match(rows.map(({ line }) => line), [
      `acme auth.password.forgot ${email} 192.0.2.1`,
      `acme auth.password.reset ${email} ${id} 127.0.0.1`,
      ` auth.password.forgot ${email} 192.0.2.1`,
      / auth\.password\.reset/
    ])
  }))

test('a link that is used, expired, of another tenant or of a deleted user gets the same rejection', async (t) => {
  const engine = await postgresSection(t)
  const opened = await open(t, engine, { tenants: ['acme', 'globex', 'initech'] })
  const { app, ask, clock } = opened
  const id = await addUser(app, 'acme', email)
  await addUser(app, 'globex', email)
  const refusals: Reply[] = []
  const fails = async (token: string, label: string, request?: object) => {
    const response = await reset(opened, token, request)
    refused(t, response, 400, 'LINK_INVALID', label)
    refusals.push(response)
  }
  const first = await linkFor(t, opened, 'acme')
  const second = await linkFor(t, opened, 'acme')
  await fails(first, 'a newer link was sent')
  await fails(second.replace('lt_acme', 'lt_globex'), 'of another tenant')
  await fails(second.replace('lt_acme', 'lt_'), 'of the platform')
  await fails(second.replace('lt_acme', 'lt_nobody'), 'of no tenant')
  await fails(second, 'a header that names another tenant', { tenant: 'globex' })
  for (
    const token of [
      `${second}x`,
      second.slice(0, -1),
      'lt_',
      'x',
      `lt_acme.${'A'.repeat(43)}`,
      String((await opened.logIn('acme', email)).body['token']).slice(0, 200)
    ]
  ) await fails(token, 'no token')
  refused(t, await ask('POST /auth/email/verify', { body: { token: second } }), 400, 'LINK_INVALID', 'another kind')
  refused(
    t,
    await ask('POST /auth/password/reset', { body: { token: second, password: 'short' } }),
    400,
    'VALIDATION_FAILED',
    'an invalid password does not use up the link'
  )
  clock.forward(30 * minute - 1)
  const responses = await Promise.all(Array.from({ length: 10 }, () => reset(opened, second)))
  t.same(responses.map(({ status }) => status).sort(), [200, ...Array.from({ length: 9 }, () => 400)], 'one of several concurrent requests')
  await fails(second, 'used')

  clock.forward(60 * minute)
  const late = await linkFor(t, opened, 'acme')
  clock.forward(30 * minute)
  await fails(late, 'after 30 minutes')
  const disabled = await linkFor(t, opened, 'acme')
  await app.db.updateTable('tenantry.users').set({ status: 'disabled' }).where('id', '=', id).execute()
  await fails(disabled, 'a disabled user')
  await app.db.deleteFrom('tenantry.users').where('id', '=', id).execute()
  await fails(disabled, 'a deleted user')
  await addUser(app, 'acme', email)
  await fails(disabled, 'another user of the address')
  await addUser(app, 'initech', email)
  const ofInitech = await linkFor(t, opened, 'initech')
  await app.tenants.delete('initech')
  await fails(ofInitech, 'a deleted tenant')
  t.equal(
    new Set(refusals.map(({ body: { message, code, error } }) => JSON.stringify([message, code, error]))).size,
    1,
    'with the same body'
  )
})

test("forgot responds the same for any address, and sends mail only to users' addresses", async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme', 'off'] })
  const { app, ask, clock, mails, forgot } = opened
  await addUser(app, 'acme', email)
  await addUser(app, 'acme', 'eve@example.com')
  await app.db.updateTable('tenantry.users').set({ status: 'disabled' }).where('email', '=', 'eve@example.com').execute()
  const responses = [
    await forgot('acme', email),
    await forgot('acme', 'nobody@example.com'),
    await forgot('nobody', email),
    await forgot('', email),
    await forgot('acme', 'eve@example.com')
  ]
  for (let more = 0; more < 4; more++) responses.push(await forgot('acme', email), await forgot('acme', 'nobody@example.com'))
  t.same(new Set(responses.map(({ status, text }) => `${status} ${text}`)), new Set(['202 {"success":true}']))
  const names = (response: Reply | undefined) => Object.keys(response?.headers ?? {}).sort()
  for (const response of responses) t.same(names(response), names(responses[0]))
  await opened.settled()
  t.same(mails.map(({ to }) => to), [email, email, email], 'three within an hour')
  const { rows } = await sql<{ jobs: number }>`select count(*)::integer as jobs from tenantry_queue.job`.execute(app.db)
  t.same(rows, [{ jobs: 3 + 3 + 1 + 1 + 1 }], 'an unknown address causes the same work')
  clock.forward(60 * minute)
  await forgot('acme', email)
  await opened.settled()
  t.equal(mails.length, 4, 'and again an hour later')

  await app.tenants.update('off', { status: 'suspended' })
  refused(t, await forgot('off', email), 403, 'TENANT_SUSPENDED')
  refused(t, await forgot('a b', email), 400, 'TENANT_INVALID')
  for (const body of [{}, { email: 'ada' }, { email, further: 1 }, { email: [email] }, { email: `${'a'.repeat(250)}@b.cd` }]) {
    refused(t, await ask('POST /auth/password/forgot', { tenant: 'acme', body }), 400, 'VALIDATION_FAILED')
  }
})

test('a thousand concurrent resets of one address on two servers send three mails', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme'] })
  const there = await open(t, engine, { clock: here.clock })
  await addUser(here.app, 'acme', email)
  const responses = await Promise.all(
    Array.from({ length: 1000 }, (_, index) => (index % 2 === 0 ? here : there).forgot('acme', email, `198.51.100.${index % 250}`))
  )
  // A slow machine may reject some of so many concurrent requests.
  t.same(
    responses.filter(({ status, body }) => status !== 202 && !/^TENANTRY_DATABASE_(BUSY|UNAVAILABLE)$/.test(String(body['code']))).map((
      { text }
    ) => text),
    []
  )
  await here.settled()
  t.equal(here.mails.length + there.mails.length, 3)
})

test('a mail that cannot be sent is retried, and the request succeeds', async (t) => {
  let failures = 2
  const tokens: string[] = []
  const opened = await open(t, await postgresSection(t), {
    tenants: ['acme'],
    async onMail (mail) {
      tokens.push(tokenOf(mail))
      if (failures-- > 0) throw new Error('the provider is down')
    }
  })
  const { app, ask, mails, forgot } = opened
  await addUser(app, 'acme', email)
  t.equal((await forgot('acme', email)).status, 202)
  // Instead of the queue's own retry delay.
  await until('the mail', async () => {
    await sql`update tenantry_queue.job set start_after = created_on where state = 'retry'`.execute(app.db)
    return mails.length > 0
  })
  t.equal(tokens.length, 3)
  const { rows: jobs } = await sql`select * from tenantry_queue.job`.execute(app.db)
  const { headers } = { headers: { 'x-api-key': platformKey } }
  const [listed] = (await ask('GET /queue/jobs', { headers })).body.data ?? []
  const job = await ask(`GET /queue/jobs/${String(listed?.['id'])}`, { headers })
  t.equal(job.status, 200)
  const stored = JSON.stringify([
    jobs,
    listed,
    job.body,
    await app.db.selectFrom('tenantry.audit_log').selectAll().execute(),
    await app.db.selectFrom('tenantry.user_links').selectAll().execute()
  ])
  for (const token of tokens) t.notMatch(stored, token.split('.')[1], 'neither the job nor the database contains the token')
  t.equal((await reset(opened, tokens[2] ?? '')).status, 200)
  for (const token of tokens) refused(t, await reset(opened, token), 400, 'LINK_INVALID')
})

test("changing the password ends the user's other sessions", (t) =>
  forEachEngine(t, async (t, engine) => {
    const opened = await open(t, engine, { tenants: ['acme'] })
    const { app, ask, logIn } = opened
    await addUser(app, 'acme', email, 'editor')
    const [own, other] = [await logIn('acme', email), await logIn('acme', email)]
    const link = await linkFor(t, opened, 'acme')
    const change = (body: object, token = own.body['token'], address = '203.0.113.1') =>
      ask('POST /auth/password', {
        token: String(token),
        body: { currentPassword: password, password: next, ...body },
        headers: { 'x-forwarded-for': address }
      })
    refused(t, await change({ currentPassword: wrong }), 401, 'CREDENTIALS_INVALID')
    for (const given of [{ password: 'short' }, { currentPassword: undefined }, { further: 1 }]) {
      refused(t, await change(given), 400, 'VALIDATION_FAILED', JSON.stringify(given))
    }
    refused(
      t,
      await ask('POST /auth/password', { headers: { 'x-api-key': platformKey }, body: { currentPassword: password, password: next } }),
      403,
      'FORBIDDEN'
    )
    refused(t, await change({}, app.auth.sign({ sub: 'idp-ada', tenant_id: 'acme' })), 403, 'FORBIDDEN')
    t.equal(await me(opened, other), 200, 'nothing has changed')

    const changed = await change({})
    t.match(changed, { status: 200, body: { success: true } })
    t.equal(await me(opened, own), 200, 'the session that changes it continues')
    const refreshed = await ask('POST /auth/refresh', { body: { refreshToken: own.body['refreshToken'] } })
    t.equal(refreshed.status, 200)
    t.equal(await me(opened, refreshed), 200)
    t.equal(await me(opened, other), 401, 'all others end')
    refused(t, await ask('POST /auth/refresh', { body: { refreshToken: other.body['refreshToken'] } }), 401, 'TOKEN_INVALID')
    refused(t, await reset(opened, link), 400, 'LINK_INVALID', 'an earlier link')
    refused(t, await logIn('acme', email), 401, 'CREDENTIALS_INVALID')
    t.equal((await logIn('acme', email, next)).status, 200)

    for (let tries = 0; tries < 5; tries++) {
      refused(t, await change({ currentPassword: wrong }, refreshed.body['token']), 401, 'CREDENTIALS_INVALID')
    }
    refused(
      t,
      await change({ currentPassword: next }, refreshed.body['token']),
      429,
      'TOO_MANY_ATTEMPTS',
      'the limit of logins, with the valid password too'
    )
  }))

test('a reset password cannot be changed by a request with the old one', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { app } = opened
  await addUser(app, 'acme', email)
  const user = await app.users.authenticate('acme', email, password)
  if (user === null) throw new Error('no user')
  t.equal((await reset(opened, await linkFor(t, opened, 'acme'))).status, 200)
  const hash = await app.users.hashPassword('acme', 'a password of the thief')
  t.equal(await app.sessions.changeUsers('acme', async (writer) => await app.users.setPassword(writer, user, hash, user)), false)
})

test('a registration sends a mail that confirms the address', async (t) => {
  const opened = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { ask, clock, mails } = opened
  const registered = await ask('POST /auth/register', { tenant: 'acme', body: { email: 'New@example.com', password } })
  t.equal(registered.status, 201)
  const verified = async () => (await ask('GET /auth/me', { token: String(registered.body['token']) })).body['emailVerified']
  t.equal(await verified(), false, 'the user is already logged in')
  t.match(claimsOf(registered.body['token']), { email: 'new@example.com', email_verified: false })
  await opened.settled()
  t.match(mails, [{ kind: 'verify', to: 'new@example.com', link: /^https:\/\/app\.example\.com\/verify-email#token=lt_acme\./ }])
  const token = mails[0] === undefined ? '' : tokenOf(mails[0])
  const verify = () => ask('POST /auth/email/verify', { body: { token } })
  refused(t, await reset(opened, token), 400, 'LINK_INVALID', 'it resets no password')
  t.match(await verify(), { status: 200, body: { success: true } })
  t.equal(await verified(), true)
  const refreshed = await ask('POST /auth/refresh', { body: { refreshToken: registered.body['refreshToken'] } })
  t.match(claimsOf(refreshed.body['token']), { email: 'new@example.com', email_verified: true }, 'the next token says so')
  refused(t, await verify(), 400, 'LINK_INVALID', 'a second time')
  clock.forward(minute)
})
