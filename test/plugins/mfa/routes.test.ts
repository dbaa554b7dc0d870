import { sql } from 'kysely'
import { test } from 'tap'
import { forEachEngine } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { audited, enrol, listOf, open, scan, setUp } from './app.js'

const step = 30_000 // ms
const invalid = 'CODE_INVALID'

test("each user's second factor is set up, enabled, used, replaced and disabled", (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, clock, as } = await open(t, engine, { tenants: ['acme', 'globex'], issuer: 'My API' })
    const ada = as({ sub: 'ada', tenant_id: 'acme', email: 'ada@example.com' })
    t.same((await ada('GET /mfa/status')).body, { enabled: false, backupCodesRemaining: 0 })
    refused(t, await ada('POST /mfa/enable', { body: { code: '123456' } }), 409, 'CONFLICT')
    refused(t, await ada('POST /mfa/disable', { body: { code: '123456' } }), 409, 'CONFLICT')
    for (const query of ['', '?code=123456']) refused(t, await ada(`GET /mfa/backup-codes${query}`), 409, 'CONFLICT')

    const first = await ada('POST /mfa/setup')
    t.match(first, {
      status: 200,
      headers: { 'cache-control': 'no-store' },
      body: { secret: /^[A-Z2-7]{32}$/, qrCode: /^data:image\/png;base64,/, manualEntry: /^(?:[A-Z2-7]{4} ){7}[A-Z2-7]{4}$/ }
    })
    t.equal(String(first.body['manualEntry']).replaceAll(' ', ''), first.body['secret'])
    t.equal(
      scan(String(first.body['qrCode'])),
      `otpauth://totp/My%20API:ada%40example.com?secret=${String(first.body['secret'])}&issuer=My%20API&algorithm=SHA1&digits=6&period=30`
    )
    t.same((await ada('GET /mfa/status')).body, { enabled: false, backupCodesRemaining: 0 })

    const phone = await setUp(t, ada, clock)
    t.not(phone.secret, first.body['secret'], 'another setup has another secret')
    t.same((await ada('POST /mfa/verify', { body: { code: phone.wrong() } })).body, { valid: false })
    refused(t, await ada('POST /mfa/enable', { body: { code: phone.wrong() } }), 400, invalid)
    for (const code of [phone.code(), phone.code(), `${phone.code().slice(0, 3)} ${phone.code().slice(3)}`]) {
      t.same((await ada('POST /mfa/verify', { body: { code } })).body, { valid: true }, 'before it is enabled no code is used up')
    }
    const enabled = await ada('POST /mfa/enable', { body: { code: phone.code() } })
    t.match(enabled, { status: 200, headers: { 'cache-control': 'no-store' }, body: { enabled: true } })
    const codes = listOf(enabled.body['backupCodes'])
    t.equal(new Set(codes).size, 10)
    for (const code of codes) t.match(code, /^[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}$/)
    t.same((await ada('GET /mfa/status')).body, { enabled: true, backupCodesRemaining: 10 })
    refused(t, await ada('POST /mfa/enable', { body: { code: phone.code() } }), 409, 'CONFLICT', 'no other setup begins')

    t.same((await ada('POST /mfa/verify', { body: { code: phone.code() } })).body, { valid: false }, 'the code that enabled it is used up')
    t.same((await ada('POST /mfa/verify', { body: { code: phone.code(1) } })).body, { valid: true })
    t.same((await ada('POST /mfa/verify', { body: { code: phone.code(1) } })).body, { valid: false }, 'a code is accepted once')
    t.same((await ada('POST /mfa/backup-codes/verify', { body: { code: codes[0] } })).body, { valid: true, backupCodesRemaining: 9 })
    t.same((await ada('POST /mfa/backup-codes/verify', { body: { code: codes[0] } })).body, { valid: false, backupCodesRemaining: 9 })
    t.same((await ada('POST /mfa/backup-codes/verify', { body: { code: codes[1]?.replaceAll('-', '').toLowerCase() } })).body, {
      valid: true,
      backupCodesRemaining: 8
    }, 'case and dashes do not matter')

    for (const others of [{ sub: 'ada', tenant_id: 'globex' }, { sub: 'ada' }, { sub: 'alan', tenant_id: 'acme' }]) {
      const other = as(others)
      const name = JSON.stringify(others)
      t.same((await other('GET /mfa/status')).body, { enabled: false, backupCodesRemaining: 0 }, `${name} is another user`)
      const { backupCodes } = await enrol(t, other, clock)
      t.same(
        (await other('POST /mfa/verify', { body: { code: phone.code(1) } })).body,
        { valid: false },
        `${name}: another user's codes are invalid`
      )
      t.same(
        (await other('POST /mfa/backup-codes/verify', { body: { code: codes[2] } })).body,
        { valid: false, backupCodesRemaining: 10 },
        `${name}: so are their backup codes`
      )
      t.same((await ada('POST /mfa/backup-codes/verify', { body: { code: backupCodes[0] } })).body, {
        valid: false,
        backupCodesRemaining: 8
      })
      clock.forward(900_000)
    }
    t.ok(await app.mfa.isEnabled('globex', 'ada'))
    t.notOk(await app.mfa.isEnabled('globex', 'alan'))

    refused(t, await ada('POST /mfa/setup'), 400, 'VALIDATION_FAILED', 'a change needs a code')
    refused(t, await ada('POST /mfa/setup', { body: { code: phone.wrong() } }), 400, invalid)
    const next = await setUp(t, ada, clock, phone.code())
    clock.forward(step)
    t.same(
      (await ada('POST /mfa/verify', { body: { code: phone.code() } })).body,
      { valid: true },
      'the previous one is valid until the next is enabled'
    )
    refused(
      t,
      await ada('POST /mfa/enable', { body: { code: phone.code(1) } }),
      400,
      invalid,
      "the previous factor's code does not enable the next"
    )
    const again = await ada('POST /mfa/enable', { body: { code: next.code() } })
    t.match(again.body, { enabled: true })
    clock.forward(step)
    t.same((await ada('POST /mfa/verify', { body: { code: phone.code() } })).body, { valid: false }, 'then it ends')
    t.same(
      (await ada('POST /mfa/backup-codes/verify', { body: { code: codes[3] } })).body,
      { valid: false, backupCodesRemaining: 10 },
      'and its backup codes'
    )

    const withoutCode = await ada('GET /mfa/backup-codes')
    refused(t, withoutCode, 400, 'VALIDATION_FAILED')
    t.match(withoutCode.body['details'], [{ path: '/query/code', keyword: 'required' }])
    refused(t, await ada(`GET /mfa/backup-codes?code=${next.wrong()}`), 400, invalid)
    const renewed = await ada(`GET /mfa/backup-codes?code=${next.code()}`)
    t.match(renewed, { status: 200, headers: { 'cache-control': 'no-store' } })
    const fresh = listOf(renewed.body['backupCodes'])
    t.equal(new Set([...fresh, ...codes, ...listOf(again.body['backupCodes'])]).size, 30)
    t.same((await ada('POST /mfa/backup-codes/verify', { body: { code: listOf(again.body['backupCodes'])[0] } })).body, {
      valid: false,
      backupCodesRemaining: 10
    }, 'the previous codes are invalid')

    refused(t, await ada('POST /mfa/disable', { body: { code: next.code() } }), 400, invalid, 'the code is used up')
    t.match(
      await ada('POST /mfa/disable', { body: { code: fresh[0] } }),
      { status: 200, body: { enabled: false } },
      'a backup code disables it, too'
    )
    t.same((await ada('GET /mfa/status')).body, { enabled: false, backupCodesRemaining: 0 })
    t.ok(await app.mfa.isEnabled('globex', 'ada'), "another user's stays")
    const { rows } = await sql`select * from tenantry.user_mfa where tenant_id = 'acme' and user_id = 'ada'`.execute(app.db)
    t.same(rows, [], 'nothing of it remains')
    t.same((await audited(app)).filter((line) => line.endsWith(' ada acme')).map((line) => line.split(' ', 2).join(' ')), [
      'mfa.setup success',
      'mfa.setup success',
      'mfa.verify failure',
      'mfa.enable failure',
      'mfa.verify success',
      'mfa.verify success',
      'mfa.verify success',
      'mfa.enable success',
      'mfa.verify failure',
      'mfa.verify success',
      'mfa.verify failure',
      'mfa.backup_code success',
      'mfa.backup_code failure',
      'mfa.backup_code success',
      'mfa.backup_code failure',
      'mfa.backup_code failure',
      'mfa.backup_code failure',
      'mfa.setup failure',
      'mfa.setup success',
      'mfa.verify success',
      'mfa.enable failure',
      'mfa.enable success',
      'mfa.verify failure',
      'mfa.backup_code failure',
      'mfa.backup_codes failure',
      'mfa.backup_codes success',
      'mfa.backup_code failure',
      'mfa.disable failure',
      'mfa.disable success'
    ], 'every event is audited')
  }))
