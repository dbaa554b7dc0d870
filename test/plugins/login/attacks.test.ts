/** Attacks without the password: many attempts, concurrent, from many addresses, on several servers; and attempts to detect users. */
import type { FastifyInstance } from 'fastify'
import type { KyselyPlugin, RootOperationNode } from 'kysely'
import { test } from 'tap'
import { createAttemptLimiter } from '../../../lib/database/attempt-limiter.js'
import { failure } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { untilBlocked } from '../../helpers/locks.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { refused, type Reply } from '../../http/caller.js'
import { addUser, audited, open, type Opened, password, wrong } from './app.js'

const quarter = 900_000 // ms

/** The number of responses with each status. */
async function statuses (responses: readonly Promise<Reply>[]): Promise<Record<number, number>> {
  const counts: Record<number, number> = {}
  for (const { status } of await Promise.all(responses)) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

test('guesses', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, engine, { tenants: ['acme', 'globex'] })
  const there = await open(t, engine, { clock: here.clock })
  const { app, clock } = here
  for (const tenant of ['acme', 'globex', '']) await addUser(app, tenant, 'ada@example.com')
  const { authenticate } = app.users
  /** The statuses of wrong passwords, with a fake check: hashing would take time, and only the counting matters here. */
  async function guesses (tries: () => Promise<Reply>[]): Promise<Record<number, number>> {
    for (const { app } of [here, there]) app.users.authenticate = async () => null
    const counts = await statuses(tries())
    for (const { app } of [here, there]) app.users.authenticate = authenticate
    return counts
  }
  const guess = ({ logIn }: Opened, email: string, address?: string, tenant = 'acme') => logIn(tenant, email, wrong, address)

  await t.test('failed logins of one address are rejected after five, concurrent or not, on any server; other addresses are unaffected', async (t) => {
    // The last pair looks like the counter key of the one before it.
    for (
      const [tenant, email] of [['acme', 'ada@example.com'], ['acme', 'nobody@example.com'], ['nobody', 'ada@example.com'], [
        'nobody2',
        'ada@example.com'
      ], ['', 'ada@example.com']] as const
    ) {
      const tries = () =>
        Array.from({ length: 15 }, () => [guess(here, email, undefined, tenant), guess(there, email, undefined, tenant)]).flat()
      t.same(await guesses(tries), { 401: 5, 429: 25 }, `${tenant} ${email}`)
      const refusal = await here.logIn(tenant, email, password)
      refused(t, refusal, 429, 'TOO_MANY_ATTEMPTS', 'with the password, too')
      t.match(refusal, { headers: { 'retry-after': '900' }, body: { retryAfter: 900 } })
    }
    refused(t, await here.logIn('acme', 'ADA@Example.com', password), 429, 'TOO_MANY_ATTEMPTS', 'in any spelling')
    t.equal((await here.logIn('acme', 'ada@example.com', password, '198.51.100.7')).status, 200, 'the user from another address')
    t.equal((await here.logIn('globex', 'ada@example.com', password)).status, 200, 'the same address in another tenant')
    t.same(await guesses(() => Array.from({ length: 7 }, (_none, index) => guess(here, 'ada@example.com', `2001:db8:1:2::${index + 1}`))), {
      401: 5,
      429: 2
    }, 'a whole IPv6 network counts as one caller')
    refused(t, await guess(here, 'ada@example.com', '2001:db8:1:3::1'), 401, 'CREDENTIALS_INVALID', 'the next network')

    clock.forward(quarter - 1)
    refused(t, await there.logIn('acme', 'ada@example.com', password), 429, 'TOO_MANY_ATTEMPTS')
    clock.forward(1)
    t.equal((await there.logIn('acme', 'ada@example.com', password)).status, 200, 'after a quarter of an hour')
    for (let round = 0; round < 2; round++) {
      t.same(await guesses(() => Array.from({ length: 4 }, () => guess(here, 'ada@example.com'))), { 401: 4 })
      t.equal((await here.logIn('acme', 'ada@example.com', password)).status, 200, "a login clears the user's earlier failures")
    }
    const lines = await audited(app)
    t.equal(lines.filter((line) => line === 'acme auth.login failure nobody@example.com 192.0.2.1 credentials').length, 5)
    t.equal(lines.filter((line) => line === 'acme auth.login failure nobody@example.com 192.0.2.1 locked').length, 26)
    t.notMatch(lines.join('\n'), /nobody2? auth/, 'the log of an unknown tenant')
  })

  await t.test('failures within any fifteen minutes count, and the lock lasts as long from the last of them', async (t) => {
    const once = async () => Number(Object.keys(await guesses(() => [guess(here, 'spaced@example.com')]))[0])
    for (let tries = 0; tries < 7; tries++) {
      t.equal(await once(), 401, 'four in any fifteen minutes')
      clock.forward(quarter / 4 + 1)
    }
    clock.forward(quarter)
    t.equal(await once(), 401)
    clock.forward(quarter - 2000)
    for (let tries = 0; tries < 3; tries++) t.equal(await once(), 401)
    clock.forward(3000)
    t.same([await once(), await once()], [401, 401], 'the first one has expired')
    t.equal(await once(), 429, 'five within a few seconds')
    clock.forward(quarter - 1)
    t.equal(await once(), 429)
    clock.forward(1)
    t.same(
      [await once(), await once(), await once(), await once(), await once(), await once()],
      [401, 401, 401, 401, 401, 429],
      'all attempts are available again'
    )
  })

  await t.test('a clock that was a year ahead locks no user once it is correct', async (t) => {
    const once = async () => Number(Object.keys(await guesses(() => [guess(here, 'ahead@example.com')]))[0])
    clock.forward(365 * 24 * 4 * quarter)
    for (let tries = 0; tries < 5; tries++) t.equal(await once(), 401)
    clock.forward(-365 * 24 * 4 * quarter)
    for (let tries = 0; tries < 5; tries++) t.equal(await once(), 401)
    t.equal(await once(), 429)
  })

  await t.test('failures from many addresses are limited to fifty, then one a minute; the user can still log in, without resetting the limit', async (t) => {
    let address = 0
    clock.forward(quarter)
    await app.db.deleteFrom('tenantry.attempts').execute()
    const many = (count: number) =>
      guesses(() =>
        Array.from(
          { length: count },
          () => guess(++address % 2 === 0 ? here : there, 'ada@example.com', `10.0.${address >> 8}.${address & 255}`)
        )
      )
    t.same(await many(45), { 401: 45 })
    for (let login = 0; login < 7; login++) {
      t.equal((await here.logIn('acme', 'ada@example.com', password, '192.0.2.9')).status, 200, 'the user, without a limit')
    }
    t.same(await many(30), { 401: 5, 429: 25 })
    const refusal = await here.logIn('acme', 'ada@example.com', password)
    refused(t, refusal, 429, 'TOO_MANY_ATTEMPTS')
    t.match(refusal, { headers: { 'retry-after': '60' }, body: { retryAfter: 60 } })
    t.equal((await here.logIn('globex', 'ada@example.com', password)).status, 200, 'of another tenant')
    for (let minutes = 0; minutes < 2; minutes++) {
      clock.forward(59_999)
      t.same(await many(1), { 429: 1 })
      clock.forward(1)
      t.same(await many(100), { 401: 1, 429: 99 }, 'of a hundred at once')
    }
    // More than an address may send, and none was checked.
    for (let tries = 0; tries < 6; tries++) refused(t, await there.logIn('acme', 'ada@example.com', password), 429, 'TOO_MANY_ATTEMPTS')
    clock.forward(60_000)
    t.equal((await here.logIn('acme', 'ada@example.com', password)).status, 200, 'the user, within a minute')
    t.same(await many(3), { 429: 3 }, "that used this minute's attempt")
    clock.forward(quarter)
    t.same(await many(51), { 401: 50, 429: 1 }, 'a quarter of an hour later')
    t.same(await guesses(() => Array.from({ length: 60 }, (_none, index) => guess(here, 'ada@example.com', `10.1.0.${index}`, 'nobody'))), {
      401: 50,
      429: 10
    }, 'for an unknown tenant')
    await app.db.deleteFrom('tenantry.attempts').execute()
  })

  await t.test('an attacker with many addresses does not lock out a user at an address of an earlier login', async (t) => {
    const home = '198.51.100.9'
    const flood = () => guesses(() => Array.from({ length: 60 }, (_none, index) => guess(here, 'ada@example.com', `10.3.0.${index}`)))
    t.equal((await here.logIn('acme', 'ada@example.com', password, home)).status, 200)
    t.same(await flood(), { 401: 50, 429: 10 })
    for (let minute = 0; minute < 3; minute++) {
      t.equal((await there.logIn('acme', 'ada@example.com', password, home)).status, 200, 'on another server')
      refused(t, await here.logIn('acme', 'ada@example.com', password, '198.51.100.10'), 429, 'TOO_MANY_ATTEMPTS', 'a new address')
      refused(t, await guess(here, 'ada@example.com', '10.3.0.70'), 429, 'TOO_MANY_ATTEMPTS', "the user's logins return no attempt")
      clock.forward(60_000)
      t.same(await flood(), { 401: 1, 429: 59 }, 'the attacker takes the attempt of each minute')
    }
    t.same(await guesses(() => Array.from({ length: 8 }, () => guess(there, 'ada@example.com', home))), { 401: 5, 429: 3 }, 'guesses from there')
    t.equal((await here.logIn('globex', 'ada@example.com', password, home)).status, 200)
    clock.forward(quarter)
    t.equal((await here.logIn('acme', 'ada@example.com', password, home)).status, 200)
    clock.forward(30 * 86_400_000)
    await flood()
    refused(t, await here.logIn('acme', 'ada@example.com', password, home), 429, 'TOO_MANY_ATTEMPTS', '30 days later')
    t.ok(await createAttemptLimiter(() => app.db, clock.now).sweep(app.db))
    t.same(await app.db.selectFrom('tenantry.attempts').select('kind').where('kind', '=', 'password.known').execute(), [], 'it is swept')
    await app.db.deleteFrom('tenantry.attempts').execute()
  })

  await t.test('failures are swept when none of them counts any more', async (t) => {
    const kept = async () => (await app.db.selectFrom('tenantry.attempts').select('kind').orderBy('kind').execute()).map(({ kind }) => kind)
    await guesses(() => [guess(here, 'ada@example.com')])
    clock.forward(quarter - 1)
    await guesses(() => [guess(here, 'bob@example.com', '10.2.0.1', 'globex')])
    const attempts = createAttemptLimiter(() => app.db, clock.now)
    t.ok(await attempts.sweep(app.db))
    t.same(await kept(), ['password', 'password', 'password.address', 'password.address'])
    clock.forward(1)
    t.ok(await attempts.sweep(app.db))
    t.same(await kept(), ['password', 'password.address'])
    await app.db.deleteFrom('tenantry.attempts').execute()
  })
})

/** The statements of a tenant's login, without their values. */
async function statementsOf (app: FastifyInstance, work: () => Promise<unknown>): Promise<string[]> {
  const { engine } = app
  const { kyselyFor } = engine
  const seen: string[] = []
  const recorder: KyselyPlugin = {
    transformQuery ({ node }) {
      seen.push(withoutValues(node))
      return node
    },
    transformResult: async ({ result }) => result
  }
  engine.kyselyFor = (tenant) => kyselyFor(tenant).withPlugin(recorder)
  await work()
  engine.kyselyFor = kyselyFor
  return seen
}

function withoutValues (node: RootOperationNode): string {
  return JSON.stringify(node, (key, value: unknown) => key === 'value' || key === 'values' ? undefined : value)
}

test('responses, headers and statements do not reveal whether a user exists', async (t) => {
  const { app, logIn } = await open(t, await postgresSection(t), { tenants: ['acme'], mfa: true })
  await addUser(app, 'acme', 'known@example.com')
  await addUser(app, 'acme', 'disabled@example.com')
  await app.db.updateTable('tenantry.users').set({ status: 'disabled' }).where('email', '=', 'disabled@example.com').execute()
  const cases = [
    ['known', wrong],
    ['unknown', wrong],
    ['disabled', wrong],
    ['disabled', password],
    ['unknown', ''],
    ['known', ''],
    ['known', 'x'.repeat(1024)],
    ['known', wrong, 'nobody'],
    ['unknown', password, 'nobody']
  ] as const
  const seen: unknown[] = []
  const statements: string[][] = []
  for (const [name, given, tenant = 'acme'] of cases) {
    statements.push(
      await statementsOf(app, async () => {
        const { status, headers: { date: _date, ...headers }, body: { requestId: _id, ...body } } = await logIn(
          tenant,
          `${name}@example.com`,
          given
        )
        seen.push({ status, headers, body })
      })
    )
  }
  t.match(seen[0], {
    status: 401,
    body: { code: 'TENANTRY_CREDENTIALS_INVALID', message: 'The e-mail address or the password is wrong' },
    headers: { 'www-authenticate': 'Bearer' }
  })
  t.ok(statements[0] !== undefined && statements[0].length >= 3, 'two counters and the user')
  for (const [index, [name, given]] of cases.entries()) {
    t.same(seen[index], seen[0], `${name} ${given.slice(0, 10)}`)
    t.strictSame(statements[index], statements[0], `${name} ${given.slice(0, 10)}: statements`)
  }
  const entries = (await audited(app)).filter((line) => line.includes('auth.login')).map((line) => line.replace(/\w+@/, '@'))
  t.equal(new Set(entries).size, 1, 'the audit log reveals no more')
})

test('malformed addresses and passwords are a 400 and have no other effect', async (t) => {
  const { app, ask, logIn } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  await addUser(app, 'acme', 'ada@example.com')
  const emails = [
    '',
    ' ',
    'ada',
    'ada@example.com ',
    ' ada@example.com',
    'ada@example.com\n',
    'ada@example.com\0',
    "ada@example.com' or '1'='1",
    'ada@ex\u00e4mple.com',
    '\u212ada@example.com',
    `${'a'.repeat(300)}@example.com`,
    'ada@example.com,eve@example.com',
    '%@example.com<b>'
  ]
  for (const email of emails) refused(t, await logIn('acme', email, password), 400, 'VALIDATION_FAILED', JSON.stringify(email.slice(0, 40)))
  for (
    const body of [
      {},
      { email: 'ada@example.com' },
      { password },
      { email: 'ada@example.com', password: null },
      { email: 'ada@example.com', password: { length: 9 } },
      { email: 'ada@example.com', password, code: '123456' },
      { email: 'ada@example.com', password: 'x'.repeat(1025) }
    ]
  ) {
    const response = await ask('POST /auth/login', { tenant: 'acme', body })
    refused(t, response, 400, 'VALIDATION_FAILED', JSON.stringify(body).slice(0, 60))
    t.notMatch(response.text, password, 'nothing of the password')
  }
  for (const email of ["'--@example.com", '%@example.com', '_da@example.com', '$1@example.com']) {
    refused(t, await logIn('acme', email, password), 401, 'CREDENTIALS_INVALID', email)
  }
  for (const given of ['\0', `${password}\0`, `${password} `, '\ud800', '\ufeff' + password, "' or 1=1 --"]) {
    refused(
      t,
      await ask('POST /auth/login', {
        tenant: 'acme',
        body: { email: 'ada@example.com', password: given },
        headers: { 'x-forwarded-for': `203.0.113.${given.length}` }
      }),
      401,
      'CREDENTIALS_INVALID',
      JSON.stringify(given.slice(-8))
    )
  }
  t.equal((await logIn('acme', 'ada@example.com', password)).status, 200)
})

test('a busy server says so, and does not count an unchecked attempt', async (t) => {
  const { app, logIn } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  await addUser(app, 'acme', 'ada@example.com')
  const { authenticate } = app.users
  app.users.authenticate = async () => {
    throw failure('loginBusy', { headers: { 'retry-after': '1' } })
  }
  const responses = await Promise.all(Array.from({ length: 5 }, () => logIn('acme', 'ada@example.com', password)))
  for (const response of responses) refused(t, response, 503, 'LOGIN_BUSY')
  t.match(responses[0]?.headers, { 'retry-after': '1' })
  app.users.authenticate = authenticate
  t.same(await statuses(Array.from({ length: 6 }, () => logIn('acme', 'ada@example.com', wrong))), { 401: 5, 429: 1 }, 'all five are left')
})

test('changes during a password check take effect', async (t) => {
  const { app, ask, logIn } = await open(t, await postgresSection(t), { tenants: ['acme'], mfa: true })
  const id = await addUser(app, 'acme', 'ada@example.com', 'admin')
  t.same(
    await statuses(Array.from({ length: 7 }, () => logIn('acme', 'ada@example.com', password))),
    { 200: 7 },
    'concurrent logins do not lock each other out'
  )
  const { authenticate } = app.users
  const setUser = (values: object) => app.db.updateTable('tenantry.users').set(values).where('id', '=', id).execute()
  const hashOf = async (user: string) =>
    (await app.db.selectFrom('tenantry.users').select('password_hash').where('id', '=', user).executeTakeFirstOrThrow()).password_hash
  const hash = await hashOf(id)
  for (const change of [{ status: 'disabled' }, { role: 'user' }, { password_hash: hash.replace(/.{8}$/, 'AAAAAAAA') }]) {
    app.users.authenticate = async (...given) => {
      const user = await authenticate(...given)
      await setUser(change)
      await app.sessions.closeAll('acme', id, { userId: null, address: null })
      return user
    }
    refused(t, await logIn('acme', 'ada@example.com', password), 401, 'CREDENTIALS_INVALID', Object.keys(change)[0])
    await setUser({ status: 'active', role: 'admin', password_hash: hash })
  }
  const other = await hashOf(await addUser(app, 'acme', 'same@example.com'))
  app.users.authenticate = async (...given) => {
    const user = await authenticate(...given)
    await setUser({ password_hash: other })
    return user
  }
  t.equal((await logIn('acme', 'ada@example.com', password)).status, 200, 'another hash of the same password')

  // A caller that names many tenants has one turn.
  const turns: string[] = []
  app.users.authenticate = async (tenant) => {
    turns.push(tenant)
    return null
  }
  for (const tenant of ['a', 'b', 'c']) refused(t, await logIn(tenant, 'ada@example.com', password), 401, 'CREDENTIALS_INVALID')
  t.equal(new Set(turns).size, 1)
  for (const tenant of ['acme, globex', 'acme,acme', '', ' ', '?', 'a/b', 'x'.repeat(65)]) {
    refused(
      t,
      await ask('POST /auth/login', { headers: { 'x-tenant-id': tenant }, body: { email: 'ada@example.com', password } }),
      400,
      'TENANT_INVALID',
      tenant
    )
  }
  app.users.authenticate = authenticate
  const { body: { token } } = await logIn('acme', 'ada@example.com', password)
  await app.tenants.delete('acme')
  refused(t, await logIn('acme', 'ada@example.com', password), 401, 'CREDENTIALS_INVALID', 'a deleted tenant')
  await app.tenants.create({ id: 'acme', name: 'acme' })
  refused(t, await logIn('acme', 'ada@example.com', password), 401, 'CREDENTIALS_INVALID', 'its users are deleted with it')
  t.not((await ask('GET /mfa/status', { token: String(token) })).status, 200, 'and so are their tokens')
})

test('a login with the old password opens no session while a new one is being written', async (t) => {
  const { app, logIn } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const id = await addUser(app, 'acme', 'ada@example.com')
  const hash = await app.users.hashPassword('acme', secretText('another horse battery staple', 'a new password'))
  const { late } = await app.sessions.changeUsers('acme', async (writer, end) => {
    await app.users.setPassword(writer, { tenant: tenantRef('acme'), id }, hash)
    await end(id, 'sessions')
    const late = logIn('acme', 'ada@example.com', password)
    await untilBlocked(app.db, late)
    return { late }
  })
  refused(t, await late, 401, 'CREDENTIALS_INVALID')
})
