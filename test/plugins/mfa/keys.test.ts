/** The master key for secrets of second factors: missing, changed and rotated; and the sweep. */
import { sql } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { platformRef } from '../../../lib/identity/tenant-ref.js'
import { createSecretCipher } from '../../../lib/secrets/cipher.js'
import { makeMasterKey, masterKeys } from '../../../lib/secrets/master-key.js'
import { rekeySecrets } from '../../../lib/secrets/rekey.js'
import { createServer } from '../../../lib/server.js'
import { createMfaStore } from '../../../plugins/mfa/store.js'
import { testApp } from '../../helpers/app.js'
import type { DatabaseOptions, DatabaseSection } from '../../helpers/postgres.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testDocument, testMasterKey, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'
import { enrol, open, phoneOf, scan, setUp } from './app.js'

const step = 30_000 // ms
const day = 86_400_000 // ms

async function postgres (t: Test, options: DatabaseOptions = {}): Promise<DatabaseSection> {
  const { connectionString } = await postgresDatabase(t, options)
  return { provider: 'postgres', postgres: { connectionString } }
}

test('second factors are moved to the next master key, and readable with it alone', async (t) => {
  const engine = await postgres(t)
  const [lost, old, next] = [makeMasterKey(), makeMasterKey(), makeMasterKey()]
  const { app, clock, as } = await open(t, engine, { tenants: ['acme'], masterKey: old.text })
  const [ada, root] = [as({ sub: 'ada', tenant_id: 'acme' }), as({ sub: 'root', role: 'admin' })]
  const { phone, backupCodes } = await enrol(t, ada, clock)
  const pending = await setUp(t, ada, clock, backupCodes[0])
  const own = await enrol(t, root, clock)
  // More rows than one batch.
  await sql`insert into tenantry.user_mfa (tenant_id, user_id, secret, version, enabled) select 'acme', 'other-' || n, secret, version, true from generate_series(1, 150) n, tenantry.user_mfa where user_id = 'ada'`
    .execute(app.db)

  await t.rejects(open(t, engine, { masterKey: next.text }), {
    message: new RegExp(
      `^the secrets of second factors in the database were encrypted under the master key ${old.key.id}, but this server has ${next.key.id}: set SECRETS_MASTER_KEY`
    )
  })
  const cipher = createSecretCipher(masterKeys(next.key, [old.key]))
  const { moved, unreadable, unfinished } = await rekeySecrets(app.db, cipher)
  t.same([moved, unreadable.length, unfinished], [2, 150, false], 'rows copied from another user are not moved')
  t.match(unreadable[0], { tenant: 'acme', key: /^mfa\/other-\d+$/, reason: /^it cannot be decrypted/ })
  await sql`delete from tenantry.user_mfa where user_id like 'other-%'`.execute(app.db)
  t.same(await rekeySecrets(app.db, cipher), { moved: 0, unreadable: [], unfinished: false })

  clock.forward(step)
  t.same(
    (await ada('POST /mfa/verify', { body: { code: phone.code() } })).body,
    { valid: false },
    'a server with only the old key cannot read them any more'
  )
  t.match(
    (await ada('POST /mfa/backup-codes/verify', { body: { code: backupCodes[1] } })).body,
    { valid: true },
    'backup codes need no key'
  )
  const after = await open(t, engine, { clock, masterKey: next.text })
  t.same((await after.as({ sub: 'ada', tenant_id: 'acme' })('POST /mfa/verify', { body: { code: phone.code() } })).body, { valid: true })
  t.same((await after.as({ sub: 'root', role: 'admin' })('POST /mfa/verify', { body: { code: own.phone.code() } })).body, { valid: true })
  t.match((await after.as({ sub: 'ada', tenant_id: 'acme' })('POST /mfa/enable', { body: { code: pending.code() } })).body, {
    enabled: true
  }, 'a setup was moved, too')

  await sql`update tenantry.user_mfa set secret = encode(${
    createSecretCipher(masterKeys(lost.key)).encrypt({ tenant: platformRef, key: 'mfa/root', version: 1 }, 'x')
  }, 'base64') where user_id = 'root'`.execute(app.db)
  t.match(await rekeySecrets(app.db, cipher), {
    moved: 0,
    unreadable: [{ tenant: '', key: 'mfa/root', reason: new RegExp(`under the master key ${lost.key.id}`) }],
    unfinished: false
  })
})

test('PostgreSQL without a master key starts without second factors, unless a user already has one', async (t) => {
  const engine = await postgres(t, { empty: true })
  const document = testDocument({ plugins: { secrets: false } }, engine)
  const log: string[] = []
  const logger = {
    level: 'info',
    stream: {
      write: (line: string) => {
        log.push(line)
      }
    }
  }
  const start = async (mfa: object | undefined, env = {}, migrate: 'auto' | 'manual' = 'auto') => {
    const app = createServer({ ...document, migrate, ...mfa === undefined ? {} : { mfa } }, { env, logger })
    t.teardown(() => app.close())
    await app.ready()
    return app
  }
  for (const env of [{}, { SECRETS_MASTER_KEY: testMasterKey }]) {
    t.ok(await start(undefined, env, 'manual'), 'a database that is not migrated has none')
  }
  const app = await start(undefined)
  t.notOk(app.hasDecorator('mfa'))
  t.match(log.join(''), /second factors are off: SECRETS_MASTER_KEY is missing/)
  refused(t, await caller(t, app, { token: signToken() })('GET /mfa/status'), 404, 'NOT_FOUND')
  await t.rejects(start({ enabled: true }), {
    message:
      /^SECRETS_MASTER_KEY is missing: it encrypts the secrets of second factors\. Set it \(make one with: openssl rand -base64 32\), or turn second factors off with "mfa": \{ "enabled": false \} in the document$/
  })

  await sql`insert into tenantry.user_mfa (tenant_id, user_id, enabled, secret) values ('', 'root', true, 'x')`.execute(app.db)
  await t.rejects(
    start(undefined),
    { message: /^SECRETS_MASTER_KEY is missing.* and users have second factors/ },
    'a password alone never suffices by mistake'
  )
  t.notOk((await start({ enabled: false })).hasDecorator('mfa'), 'unless the document says so')
  for (
    const [wrong, pointer] of [
      [{ mfa: { enabled: true }, jwt: undefined }, '/mfa/enabled'],
      [{ mfa: { enabled: true }, plugins: { mfa: false } }, '/mfa/enabled'],
      [{ mfa: { issuer: 'a:b' } }, '/mfa/issuer'],
      [{ mfa: { issuer: '' } }, '/mfa/issuer']
    ] as const
  ) {
    t.throws(
      () => createServer(JSON.parse(JSON.stringify({ ...document, ...wrong })), { env: {} }),
      { message: new RegExp(pointer) },
      JSON.stringify(wrong)
    )
  }

  await sql`delete from tenantry.user_mfa`.execute(app.db)
  const named = await testServer(t, { plugins: { openapi: { title: 'Notes: the API' } } }, { engine })
  const ask = caller(t, named, { token: signToken({ sub: 'ada', email: 'ada@example.com' }) })
  t.match(
    scan(String((await ask('POST /mfa/setup')).body['qrCode'])),
    /^otpauth:\/\/totp\/Notes-%20the%20API:ada%40example\.com\?.*&issuer=Notes-%20the%20API&/,
    'apps show the name of the API'
  )
  t.match((await ask('GET /doc')).body, {
    paths: {
      '/mfa/setup': { post: { requestBody: {}, responses: { 200: {}, 400: {}, 429: {} } } },
      '/mfa/backup-codes': { get: { parameters: [{ name: 'code', required: false }] } }
    }
  })
})

test('the plugin works without tenancy', async (t) => {
  const { app, ask: root, as } = await testApp(t, { plugins: { mfa: {} }, claims: { sub: 'root', role: 'admin' } })
  const { body } = await root('POST /mfa/setup')
  const phone = phoneOf(String(body['secret']), Date)
  t.match((await root('POST /mfa/enable', { body: { code: phone.code() } })).body, { enabled: true })
  refused(t, await as({ sub: 'ada', tenant_id: 'nowhere' })('POST /mfa/setup'), 404, 'TENANT_UNKNOWN')

  const now = new Date()
  const ages = (of: string) =>
    sql`insert into tenantry.user_mfa (tenant_id, user_id, enabled, secret, updated_at) values ('', ${of}, ${of === 'old'}, 'x', ${new Date(
      now.getTime() - 2 * day
    )})`.execute(app.db)
  await ages('old')
  await ages('unfinished')
  t.ok(await createMfaStore(app.db).sweep(new Date(now.getTime() - day)))
  const { rows } = await sql`select from tenantry.user_mfa where user_id = 'unfinished'`.execute(app.db)
  t.same(rows, [], 'an unfinished setup is removed')
  t.ok(await app.mfa.isEnabled('', 'old'))
})

test('enabled: false of the plugin leaves second factors out, with and without a master key', async (t) => {
  const engine = await postgres(t)
  for (const masterKey of [testMasterKey, undefined]) {
    const { app } = await open(t, engine, { enabled: false, masterKey })
    for (const name of ['mfa', 'uncheckedMfa']) t.notOk(app.hasDecorator(name), name)
    t.notOk(app.hasRoute({ method: 'GET', url: '/mfa/status' }))
    await sql`insert into tenantry.user_mfa (tenant_id, user_id, enabled, secret) values ('', 'ada', true, 'x') on conflict do nothing`
      .execute(app.db)
  }
})
