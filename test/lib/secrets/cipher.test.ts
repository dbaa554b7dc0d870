import { createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createSecretCipher, headerLength, keyIdOf, SecretUnreadable } from '../../../lib/secrets/cipher.js'
import { makeMasterKey, masterKeyOf, masterKeys, parseMasterKey, parseMasterKeys } from '../../../lib/secrets/master-key.js'

const place = { tenant: tenantRef('acme'), key: 'stripe', version: 3 }
const value = 'sk_live_ü€😀'

test("a value is encrypted with the tenant's derived key, and once more", (t) => {
  const master = randomBytes(32)
  const cipher = createSecretCipher(masterKeys(masterKeyOf(master)))
  const sealed = cipher.encrypt(place, value)
  t.equal(cipher.decrypt(place, sealed), value)
  t.not(sealed.indexOf(value), 0)
  t.notOk(sealed.includes(Buffer.from(value)))
  t.notSame(cipher.encrypt(place, value), sealed, 'a new nonce each time')

  // By hand, as docs/guides/secrets.md describes it.
  const open = (key: ArrayBuffer, data: Buffer, text: Buffer) => {
    const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key), text.subarray(0, 12)).setAAD(data).setAuthTag(text.subarray(-16))
    return Buffer.concat([decipher.update(text.subarray(12, -16)), decipher.final()])
  }
  const data = Buffer.from('acme\0stripe\x003')
  const outer = open(
    hkdfSync('sha256', master, '', 'service-platform-secrets', 32),
    Buffer.concat([sealed.subarray(0, headerLength), data]),
    sealed.subarray(headerLength)
  )
  t.notOk(outer.includes(Buffer.from(value)), 'the outer layer contains no plain text')
  t.equal(open(hkdfSync('sha256', master, 'tenant:acme', 'service-tenant-config', 32), data, outer).toString(), value)
  t.end()
})

test('a ciphertext of another tenant, key or version, or with any changed byte does not decrypt', (t) => {
  const cipher = createSecretCipher(masterKeys(makeMasterKey().key))
  const sealed = cipher.encrypt(place, value)
  const others = [{ ...place, tenant: tenantRef('globex') }, { ...place, key: 'strip' }, { ...place, version: 4 }, {
    tenant: tenantRef('acm'),
    key: 'estripe',
    version: 3
  }]
  for (const other of others) t.throws(() => cipher.decrypt(other, sealed), SecretUnreadable, JSON.stringify(other))
  for (let index = 0; index < sealed.length; index++) {
    const changed = Buffer.from(sealed)
    changed[index]! ^= 1
    if (!throws(() => cipher.decrypt(place, changed))) t.fail(`byte ${index}`)
  }
  for (let length = 0; length < sealed.length; length++) {
    if (!throws(() => cipher.decrypt(place, sealed.subarray(0, length)))) t.fail(`${length} bytes`)
  }
  t.end()

  function throws (work: () => void): boolean {
    try {
      work()
      return false
    } catch (error) {
      return error instanceof SecretUnreadable && !error.message.includes('sk_live')
    }
  }
})

test('a ciphertext names its master key: previous keys are read and replaced, unknown keys are named', (t) => {
  const [old, current] = [makeMasterKey().key, makeMasterKey().key]
  const before = createSecretCipher(masterKeys(old)).encrypt(place, value)
  t.equal(keyIdOf(before), old.id)
  t.match(old.id, /^[0-9a-f]{16}$/)
  const cipher = createSecretCipher(masterKeys(current, [old]))
  t.equal(cipher.decrypt(place, before), value)
  const after = cipher.renew(place, before)
  t.equal(keyIdOf(after), current.id)
  t.equal(createSecretCipher(masterKeys(current)).decrypt(place, after), value)
  t.throws(() => createSecretCipher(masterKeys(current)).decrypt(place, before), { message: new RegExp(`master key ${old.id}`) })
  t.throws(() => cipher.renew({ ...place, tenant: tenantRef('globex') }, before), SecretUnreadable)
  t.end()
})

test('a master key is 32 bytes in base64; any other text is rejected and not shown', (t) => {
  const text = randomBytes(32).toString('base64')
  t.equal(parseMasterKey(text, 'X').id, parseMasterKey(` ${text}\n`, 'X').id)
  t.equal(parseMasterKey(Buffer.from(text, 'base64').toString('base64url'), 'X').id, parseMasterKey(text, 'X').id)
  t.not(parseMasterKey(text, 'X').id, text.slice(0, 16))
  for (
    const wrong of [
      'short',
      'a password that somebody thought of, no key',
      randomBytes(31).toString('base64'),
      randomBytes(33).toString('base64'),
      randomBytes(32).toString('hex'),
      `${text.slice(0, 20)}!${text.slice(20)}`
    ]
  ) {
    t.throws(() => parseMasterKey(wrong, 'SECRETS_MASTER_KEY'), {
      message: 'SECRETS_MASTER_KEY is not 32 bytes in base64: make one with: openssl rand -base64 32'
    })
  }
  t.same(parseMasterKeys('', 'X'), [])
  t.equal(parseMasterKeys(`${text}, ${text} ,`, 'X').length, 2)
  t.end()
})
