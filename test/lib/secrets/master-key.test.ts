import { randomBytes } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { openKeys } from '../../../lib/secrets/master-key.js'

const masterKey = randomBytes(32).toString('base64')
const other = randomBytes(32).toString('base64')

test('PostgreSQL without SECRETS_MASTER_KEY is rejected, with the way to create a key and the alternative', async (t) => {
  await t.rejects(openKeys('postgres', { folder: '/nowhere', previousKeys: other }), {
    message:
      'SECRETS_MASTER_KEY is missing: it encrypts the secrets of tenants. Set it (make one with: openssl rand -base64 32), or disable secrets with "plugins": { "secrets": false } in the document'
  })
  await t.rejects(openKeys('postgres', { masterKey: '' }), /SECRETS_MASTER_KEY is missing/)
  const { keys, note } = await openKeys('postgres', { masterKey, previousKeys: other })
  t.equal(note, undefined)
  t.equal(keys.known.size, 2)
})

test('an invalid key is rejected with the reason, and not shown', async (t) => {
  for (const engine of ['postgres', 'embedded'] as const) {
    await t.rejects(openKeys(engine, { masterKey: 'hunter2hunter2' }), {
      message: /^SECRETS_MASTER_KEY is not 32 bytes in base64: make one with: openssl rand -base64 32$/
    })
    await t.rejects(openKeys(engine, { masterKey, previousKeys: `${other},hunter2hunter2` }), {
      message: /^SECRETS_PREVIOUS_KEYS is not 32 bytes/
    })
  }
})

test('the embedded engine creates a key beside its data, readable only by its owner, and keeps it', async (t) => {
  const folder = t.testdir({})
  const made = await openKeys('embedded', { folder })
  const path = join(folder, 'secrets.key')
  t.match(made.note, /^SECRETS_MASTER_KEY is not set: a master key for secrets was made in .*secrets\.key\. Keep it/)
  t.equal((await stat(path)).mode & 0o777, 0o600)
  const text = await readFile(path, 'utf8')
  t.notOk(made.note?.includes(text.trim()))
  const again = await openKeys('embedded', { folder })
  t.equal(again.note, undefined)
  t.equal(again.keys.current.id, made.keys.current.id)

  const named = await openKeys('embedded', { folder, masterKey })
  t.not(named.keys.current.id, made.keys.current.id)
  t.ok(named.keys.known.has(made.keys.current.id), "secrets stored with the file's key can still be read")

  await writeFile(path, 'damaged')
  await t.rejects(openKeys('embedded', { folder }), /secrets\.key is not 32 bytes in base64/)
})

test('a database in memory has a temporary key', async (t) => {
  const [one, two] = [await openKeys('embedded', {}), await openKeys('embedded', {})]
  t.match(one.note, /is lost when this process ends/)
  t.not(one.keys.current.id, two.keys.current.id)
})
