/** `tenantry secrets rekey`. */
import { writeFileSync } from 'node:fs'
import { type Test, test } from 'tap'
import { noActor } from '../../lib/database/audit.js'
import { makeMasterKey } from '../../lib/secrets/master-key.js'
import { secretText } from '../helpers/log-scan.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { open, valuesOf } from '../plugins/secrets/app.js'
import { here, tenantry } from './tenantry.js'

const value = secretText('a value that is moved')

async function stored (t: Test, masterKey: string) {
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const { app } = await open(t, engine, { masterKey, tenants: { acme: 'pro' } })
  for (const key of ['a', 'b']) await app.secrets.put('acme', { key, value }, noActor)
  return { app, engine, document: JSON.stringify({ postgres: { connectionString }, routes: [] }) }
}

test('secrets rekey re-encrypts while a server serves, and a server with only the new key reads the result', async (t) => {
  const [old, current] = [makeMasterKey(), makeMasterKey()]
  const { app, engine, document } = await stored(t, old.text)
  const folder = t.testdir({ 'tenantry.json': document, '.env': `SECRETS_MASTER_KEY=${current.text}\nSECRETS_PREVIOUS_KEYS=${old.text}\n` })
  t.strictSame(await tenantry(t, folder, ['secrets', 'rekey']), {
    code: 0,
    output: [`2 secrets moved to the master key ${current.key.id}`],
    errors: []
  })
  t.strictSame(await here(['secrets', 'rekey', `${folder}/tenantry.json`]), {
    code: 0,
    output: [`0 secrets moved to the master key ${current.key.id}`],
    errors: []
  })
  t.same(await valuesOf(app, 'acme'), {}, 'the server with only the old key cannot read them any more')
  const { app: after } = await open(t, engine, { masterKey: current.text })
  t.same(await valuesOf(after, 'acme'), { a: value, b: value })
})

test('secrets rekey lists unreadable secrets and re-encrypts the rest', async (t) => {
  const [lost, old, current] = [makeMasterKey(), makeMasterKey(), makeMasterKey()]
  const { engine, document } = await stored(t, lost.text)
  const { app } = await open(t, engine, { masterKey: old.text, previousKeys: lost.text })
  await app.secrets.put('acme', { key: 'b', value }, noActor)
  const path = `${t.testdir({ 'tenantry.json': document })}/tenantry.json`
  t.strictSame(await here(['secrets', 'rekey', path], { SECRETS_MASTER_KEY: current.text, SECRETS_PREVIOUS_KEYS: old.text }), {
    code: 1,
    output: [`1 secret moved to the master key ${current.key.id}`],
    errors: [
      `the secret "a" of the tenant "acme" was not changed: it was encrypted under the master key ${lost.key.id}, which is not among the keys of this server`
    ]
  })
  t.match(await here(['secrets', 'rekey', path], { SECRETS_PREVIOUS_KEYS: old.text }), {
    code: 1,
    output: { length: 0 },
    errors: [/^SECRETS_MASTER_KEY is missing/]
  })
  t.match(await here(['secrets', 'rekey', path], { SECRETS_MASTER_KEY: 'none' }), {
    code: 1,
    output: { length: 0 },
    errors: [/^SECRETS_MASTER_KEY is not 32 bytes in base64: make one with: openssl rand -base64 32$/]
  })
})

test('secrets rekey of an embedded database changes from the key beside the data to the configured one', async (t) => {
  const folder = t.testdir({})
  const current = makeMasterKey()
  const embedded = { dbPath: `${folder}/data` }
  const path = `${folder}/tenantry.json`
  writeFileSync(path, JSON.stringify({ embedded, routes: [] }))
  const { app } = await open(t, { provider: 'embedded', embedded }, { masterKey: undefined, tenants: { acme: 'pro' } })
  await app.secrets.put('acme', { key: 'a', value }, noActor)
  await app.close()
  t.match(await here(['secrets', 'rekey', path], { SECRETS_MASTER_KEY: current.text }), {
    code: 0,
    output: [`1 secret moved to the master key ${current.key.id}`]
  })
})

test('secrets rekey reports a database that is not migrated', async (t) => {
  const { connectionString } = await postgresDatabase(t, { empty: true })
  const path = `${t.testdir({ 'tenantry.json': JSON.stringify({ postgres: { connectionString }, routes: [] }) })}/tenantry.json`
  t.strictSame(await here(['secrets', 'rekey', path], { SECRETS_MASTER_KEY: makeMasterKey().text }), {
    code: 1,
    output: [],
    errors: ['the database is not migrated: run "tenantry migrate"']
  })
})

test('secrets without a subcommand lists the subcommands', async (t) => {
  t.match(await here(['secrets']), { code: 1, errors: ['"tenantry secrets" requires another word: "tenantry secrets rekey"'] })
  t.match(await here(['secrets', 'rekey', '--help']), { code: 0, output: [/^usage: tenantry secrets rekey \[document\]$/] })
  t.strictSame((await here(['help', 'secrets', 'rekey'])).output, (await here(['secrets', 'rekey', '--help'])).output)
})
