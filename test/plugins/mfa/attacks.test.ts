/** Guessed, replayed, stolen and misplaced codes, on two servers of one database. */
import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { fakeClock } from '../../helpers/clock.js'
import { untilBlocked } from '../../helpers/locks.js'
import { postgresSection } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import type { Ask, Reply } from '../../http/caller.js'
import { caller, refused } from '../../http/caller.js'
import { audited, enrol, open, setUp, testApiKey } from './app.js'

const step = 30_000 // ms
const window = 300_000 // ms

test('attacks', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock()
  const first = await open(t, engine, { clock, tenants: ['acme', 'globex'] })
  const second = await open(t, engine, { clock })
  const { app } = first
  const both = (
    sub: string,
    tenant = 'acme'
  ): readonly [Ask, Ask] => [first.as({ sub, tenant_id: tenant }), second.as({ sub, tenant_id: tenant })]
  const statuses = (responses: readonly Reply[]) => responses.map(({ status }) => status).sort()

  await t.test('of parallel guesses over all endpoints and servers, five are checked', async (t) => {
    const asks = both('ada')
    const [ada, adaElsewhere] = asks
    const { phone, backupCodes } = await enrol(t, ada, clock)
    await setUp(t, ada, clock, backupCodes[0])
    const wrong = 'ZZZZ-ZZZZ-ZZZZ'
    const responses = await Promise.all(
      asks.flatMap((ask) => [
        ask('POST /mfa/verify', { body: { code: phone.wrong() } }),
        ask('POST /mfa/enable', { body: { code: '000000' } }),
        ask('POST /mfa/disable', { body: { code: phone.wrong() } }),
        ask('POST /mfa/disable', { body: { code: wrong } }),
        ask('POST /mfa/setup', { body: { code: phone.wrong() } }),
        ask('POST /mfa/backup-codes/verify', { body: { code: wrong } }),
        ask(`GET /mfa/backup-codes?code=${wrong}`)
      ]).concat([...Array(6)].map(() =>
        app.mfa.check('acme', 'ada', phone.wrong(), { userId: 'ada', address: null }).then(
          (valid): Reply => ({ status: 200, headers: {}, text: '', body: { valid } }),
          (error: unknown): Reply => ({ status: Object(error).statusCode, headers: {}, text: '', body: {} })
        )
      ))
    )
    t.equal(responses.filter(({ status }) => status !== 429).length, 5)
    t.notOk(responses.some(({ body }) => body['valid'] === true || body['secret'] !== undefined || body['backupCodes'] !== undefined))
    clock.forward(step)
    for (
      const refusal of [
        await adaElsewhere('POST /mfa/verify', { body: { code: phone.code() } }),
        await ada('POST /mfa/disable', { body: { code: backupCodes[1] } }),
        await ada(`GET /mfa/backup-codes?code=${phone.code()}`)
      ]
    ) {
      refused(t, refusal, 429, 'TOO_MANY_ATTEMPTS', 'the valid code comes too late')
      t.match(refusal, { headers: { 'retry-after': '270' }, body: { retryAfter: 270 } })
    }
    t.same((await ada('GET /mfa/status')).body, { enabled: true, backupCodesRemaining: 9 }, 'nothing is changed, and no code is used up')
    for (
      const other of [first.as({ sub: 'ada', tenant_id: 'globex' }), first.as({ sub: 'ada' }), first.as({ sub: 'alan', tenant_id: 'acme' })]
    ) {
      t.same((await other('POST /mfa/verify', { body: { code: '123456' } })).body, { valid: false }, 'other users have their own attempts')
    }
    clock.forward(window)
    t.same(
      (await adaElsewhere('POST /mfa/verify', { body: { code: phone.code() } })).body,
      { valid: true },
      'after five minutes there are new ones'
    )
    for (let round = 0; round < 4; round++) {
      clock.forward(step)
      t.same((await ada('POST /mfa/verify', { body: { code: phone.wrong() } })).body, { valid: false })
      t.same(
        (await ada('POST /mfa/verify', { body: { code: phone.code() } })).body,
        { valid: true },
        'a valid code clears the failures'
      )
    }
    const failed = (reason: string) =>
      sql<{ count: number }>`select count(*)::int as count from tenantry.audit_log where action like 'mfa.%' and outcome = 'failure'
        and user_id = 'ada' and tenant_id = 'acme' and coalesce(details->>'reason', '') = ${reason}`.execute(app.db)
    t.same((await failed('')).rows, [{ count: 9 }], 'wrong codes are audited')
    const lockedTries = responses.length - 5 + 3
    t.same((await failed('locked')).rows, [{ count: lockedTries }], 'and tries that are refused unchecked')
  })

  await t.test('a code sent many times at once is accepted once, also a backup code', async (t) => {
    const asks = both('bob')
    const [bob] = asks
    const { phone, backupCodes } = await enrol(t, bob, clock)
    for (
      const [label, target, code] of [['a code', 'POST /mfa/verify', phone.code(1)], [
        'a backup code',
        'POST /mfa/backup-codes/verify',
        backupCodes[0]
      ]] as const
    ) {
      const responses = await Promise.all([...asks, ...asks].map((ask) => ask(target, { body: { code } })))
      t.equal(responses.filter(({ body }) => body['valid'] === true).length, 1, label)
      clock.forward(window)
    }
    const code = phone.code()
    const uses = await Promise.all([
      ...asks.map((ask) => ask('POST /mfa/setup', { body: { code } })),
      ...asks.map((ask) => ask(`GET /mfa/backup-codes?code=${code}`))
    ])
    t.same(statuses(uses), [200, 400, 400, 400], 'for any use')
    clock.forward(window)
    t.ok(await app.mfa.check('acme', 'bob', phone.code(), noActor))
    t.notOk(await second.app.mfa.check('acme', 'bob', phone.code(), noActor), 'in logins, too')
    t.notOk(await second.app.mfa.check('acme', 'bob', phone.code(-1), noActor), 'the code before a used one is used up')
    refused(t, await bob('POST /mfa/disable', { body: { code: phone.code() } }), 400, 'CODE_INVALID')
    const ends = await Promise.all(asks.map((ask) => ask('POST /mfa/disable', { body: { code: phone.code(1) } })))
    t.equal(ends.filter(({ status }) => status === 200).length, 1, 'it is disabled once')
    t.notOk(await app.mfa.check('acme', 'bob', phone.code(1), noActor), 'without a second factor no code is valid')
  })

  await t.test('a clock that is set back, or differs between servers, accepts no code of an earlier step', async (t) => {
    const late = fakeClock()
    const slow = await open(t, engine, { clock: late })
    late.forward(clock.now() - late.now())
    const hal = first.as({ sub: 'hal', tenant_id: 'acme' })
    const { phone } = await enrol(t, hal, clock)
    const before = phone.code(-1)
    clock.forward(2 * step)
    t.same((await hal('POST /mfa/verify', { body: { code: phone.code() } })).body, { valid: true })
    const behind = slow.as({ sub: 'hal', tenant_id: 'acme' })
    for (const code of [before, phone.code(-2), phone.code(-1)]) {
      t.same((await behind('POST /mfa/verify', { body: { code } })).body, { valid: false }, 'by a server that is a minute behind')
    }
    late.forward(3 * step)
    t.same((await behind('POST /mfa/verify', { body: { code: phone.code(1) } })).body, { valid: true })
  })

  await t.test('of several setups enabled at once, one is in force', async (t) => {
    const asks = both('cy')
    const phones = await Promise.all(asks.map((ask) => setUp(t, ask, clock)))
    const responses = await Promise.all(
      phones.flatMap((phone) => asks.map((ask) => ask('POST /mfa/enable', { body: { code: phone.code() } })))
    )
    t.equal(responses.filter(({ status }) => status === 200).length, 1)
    clock.forward(step)
    const valid = await Promise.all(phones.map((phone) => app.mfa.check('acme', 'cy', phone.code(), noActor)))
    t.same(valid.sort(), [false, true])
  })

  await t.test('a request that began before another request changed the second factor has no effect', async (t) => {
    const [gil, gilElsewhere] = both('gil')
    /** The response to a request that has read the old row, and waits for it during the change. */
    const overtaken = async (request: () => Promise<Reply>, change: string): Promise<Reply> => {
      const { waiting } = await app.db.transaction().execute(async (transaction) => {
        await sql`select 1 from tenantry.user_mfa where user_id = 'gil' for update`.execute(transaction)
        const waiting = request()
        await untilBlocked(app.db, waiting)
        await sql.raw(`update tenantry.user_mfa set ${change} where user_id = 'gil'`).execute(transaction)
        return { waiting }
      })
      return await waiting
    }
    const phone = await setUp(t, gil, clock)
    refused(
      t,
      await overtaken(() => gilElsewhere('POST /mfa/enable', { body: { code: phone.code() } }), 'pending_version = 9'),
      400,
      'CODE_INVALID',
      'another setup'
    )
    refused(
      t,
      await overtaken(() => gilElsewhere('POST /mfa/setup'), 'secret = pending_secret, version = 1, enabled = true'),
      409,
      'CONFLICT',
      'a setup without a code'
    )
    clock.forward(step)
    refused(
      t,
      await overtaken(() => gilElsewhere('POST /mfa/disable', { body: { code: phone.code() } }), 'version = 2'),
      400,
      'CODE_INVALID',
      'another secret'
    )
    await sql`update tenantry.user_mfa set version = 1 where user_id = 'gil'`.execute(app.db)
    t.ok(await app.mfa.check('acme', 'gil', phone.code(), noActor))
  })

  await t.test('setups are limited too', async (t) => {
    const [dan] = both('dan')
    const responses: Reply[] = []
    for (let round = 0; round < 11; round++) responses.push(await dan('POST /mfa/setup'))
    t.same(responses.map(({ status }) => status), [...Array(10).fill(200), 429])
  })

  await t.test('an API key has no second factor', async (t) => {
    const key = caller(t, app, { headers: { 'x-api-key': testApiKey } })
    for (
      const target of [
        'POST /mfa/setup',
        'POST /mfa/verify',
        'POST /mfa/enable',
        'POST /mfa/disable',
        'GET /mfa/status',
        'GET /mfa/backup-codes',
        'POST /mfa/backup-codes/verify'
      ]
    ) {
      refused(t, await key(target, target.startsWith('POST') ? { raw: 'no JSON' } : {}), 403, 'FORBIDDEN', target)
      refused(t, await caller(t, app)(target), 401, 'TOKEN_MISSING', target)
    }
  })

  await t.test("platform administrators are the platform's users, whichever tenant they act on", async (t) => {
    const root = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin' }), tenant: 'acme' })
    t.same((await root('GET /mfa/status')).body, { enabled: false, backupCodesRemaining: 0 }, "not the tenant's user with that name")
    await enrol(t, root, clock)
    t.ok(await app.mfa.isEnabled('', 'ada'))
    t.match((await audited(app)).filter((line) => line.endsWith(' ada ')).slice(-2), ['mfa.setup success', 'mfa.enable success'])
  })

  await t.test("a secret copied to another user's row is useless", async (t) => {
    const [eve] = both('eve')
    const mallory = first.as({ sub: 'mallory', tenant_id: 'acme' })
    const { phone, backupCodes } = await enrol(t, mallory, clock)
    await enrol(t, eve, clock)
    await sql`update tenantry.user_mfa e set secret = m.secret, version = m.version, backup_codes = m.backup_codes, last_step = 0 from tenantry.user_mfa m where m.user_id = 'mallory' and e.user_id = 'eve'`
      .execute(app.db)
    t.same((await eve('POST /mfa/verify', { body: { code: phone.code(1) } })).body, { valid: false })
    t.match((await eve('POST /mfa/backup-codes/verify', { body: { code: backupCodes[0] } })).body, { valid: false })
    const { rows: [row] } = await sql<
      { all: string }
    >`select json_agg(u)::text || (select json_agg(a)::text from tenantry.audit_log a) as all from tenantry.user_mfa u`.execute(app.db)
    for (const text of [phone.secret, ...backupCodes, phone.code(1)]) {
      t.notOk(String(row?.all).includes(text), 'none of it is readable in the database')
    }
  })

  await t.test('nothing is written for a tenant in deletion', async (t) => {
    await app.tenants.create({ id: 'gone', name: 'gone' })
    await sql`update tenantry.tenants set status = 'deleting' where id = 'gone'`.execute(app.db)
    await t.rejects(app.mfa.setup({ tenant: tenantRef('gone'), id: 'ada' }, 'ada', undefined, noActor), { code: 'TENANTRY_TENANT_UNKNOWN' })
    const { rows } = await sql`select * from tenantry.user_mfa where tenant_id = 'gone'`.execute(app.db)
    t.same(rows, [])
  })

  await t.test('an invalid code is rejected without counting as a failure', async (t) => {
    const [fay] = both('fay')
    const { phone } = await enrol(t, fay, clock)
    for (
      const code of [
        undefined,
        null,
        123456,
        '',
        '12345',
        '1234567',
        '12a456',
        '１２３４５６',
        ['123456'],
        { code: '1' },
        'x'.repeat(100_000),
        '123456\n',
        '1e5000'
      ]
    ) {
      for (const target of ['POST /mfa/verify', 'POST /mfa/enable', 'POST /mfa/disable', 'POST /mfa/backup-codes/verify']) {
        const response = await fay(target, { body: { code } })
        refused(t, response, 400, 'VALIDATION_FAILED', `${target} ${JSON.stringify(code)?.slice(0, 20)}`)
        t.match(response.body.details, [{ path: '/body/code' }])
      }
    }
    refused(t, await fay('POST /mfa/verify', { body: { code: '123456', user: 'ada' } }), 400, 'VALIDATION_FAILED')
    refused(
      t,
      await fay('POST /mfa/verify', { body: { code: '0123-ABCD-WXYZ' } }),
      400,
      'VALIDATION_FAILED',
      'a backup code is not a one-time password'
    )
    refused(t, await fay('POST /mfa/backup-codes/verify', { body: { code: '123456' } }), 400, 'VALIDATION_FAILED')
    refused(t, await fay('GET /mfa/backup-codes?code=1'), 400, 'VALIDATION_FAILED')
    t.match(await fay('HEAD /mfa/backup-codes?code=000000'), { status: 404 }, 'changing endpoints have no HEAD')
    for (const typed of ['', 'no code', '0'.repeat(100_000)]) {
      t.notOk(await app.mfa.check('acme', 'fay', typed, noActor), 'in a login it counts as wrong')
    }
    t.same((await fay('POST /mfa/verify', { body: { code: phone.code(1) } })).body, { valid: true })
  })

  await t.test('a user whose name cannot be stored has no second factor', async (t) => {
    for (const sub of ['a'.repeat(513), 'a\0b', 'a\ud800']) {
      const odd = first.as({ sub, tenant_id: 'acme' })
      for (const target of ['POST /mfa/setup', 'GET /mfa/status']) {
        refused(t, await odd(target), 400, 'BAD_REQUEST', `${target} ${JSON.stringify(sub).slice(0, 20)}`)
      }
      t.notOk(await app.mfa.isEnabled('acme', sub))
      t.notOk(await app.mfa.check('acme', sub, '123456', noActor))
    }
    const long = first.as({ sub: '\u{10ffff}'.repeat(256), tenant_id: 'acme' })
    await enrol(t, long, clock)
  })
})
