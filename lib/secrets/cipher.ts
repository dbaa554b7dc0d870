/**
 * The encryption of secrets: AES-256-GCM with the tenant's key, and the result again with the platform's key. Both layers authenticate
 * tenant, key and version: a ciphertext in another row cannot be decrypted.
 *
 * A ciphertext is: format (1 byte), id of the master key (8), then the outer layer: nonce (12), text, tag (16). The text of the outer layer
 * is the inner one: nonce, text, tag.
 */
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../cache/lru-options.js'
import type { Owner } from '../identity/tenant-ref.js'
import { keyIdLength, type MasterKey, type MasterKeys } from './master-key.js'

const format = 1
/** Bytes at the start of a ciphertext: format and master key. */
export const headerLength = 1 + keyIdLength

const algorithm = 'aes-256-gcm'
const nonceLength = 12
const tagLength = 16
const keyLength = 32
const tenantInfo = 'service-tenant-config'
const platformInfo = 'service-platform-secrets'
const maxDerivedKeys = 10_000

/** The tenant of the value. */
export interface SecretPlace {
  readonly tenant: Owner
  readonly key: string
  /** Counts the values of the key. */
  readonly version: number
}

export interface SecretCipher {
  encrypt(place: SecretPlace, value: string): Buffer
  /** Throws a SecretUnreadable. */
  decrypt(place: SecretPlace, ciphertext: Buffer): string
  /** The same value under the current master key; throws a SecretUnreadable. */
  renew(place: SecretPlace, ciphertext: Buffer): Buffer
  /** The prefix of every ciphertext under the current master key. */
  readonly header: Buffer
}

/** A value cannot be decrypted; the message has the reason, and no part of the value. */
export class SecretUnreadable extends Error {
  override readonly name = 'SecretUnreadable'
}

export function createSecretCipher ({ current, known }: MasterKeys): SecretCipher {
  const derived = new LRUCache<string, KeyObject>(lruOptions(maxDerivedKeys))
  const header = headerOf(current)

  function derive (master: MasterKey, salt: string, info: string): KeyObject {
    const name = `${master.id} ${info} ${salt}`
    const there = derived.get(name)
    if (there !== undefined) return there
    const bytes = Buffer.from(hkdfSync('sha256', master.key, salt, info, keyLength))
    const key = createSecretKey(bytes)
    bytes.fill(0)
    derived.set(name, key)
    return key
  }

  const keysOf = (master: MasterKey, tenant: Owner) => ({
    inner: derive(master, `tenant:${tenant}`, tenantInfo),
    outer: derive(master, '', platformInfo)
  })

  function encryptBytes (place: SecretPlace, plain: Buffer): Buffer {
    const { inner, outer } = keysOf(current, place.tenant)
    const data = dataOf(place)
    // The outer layer authenticates the header, so that format and key cannot be exchanged.
    return Buffer.concat([header, seal(outer, Buffer.concat([header, data]), seal(inner, data, plain))])
  }

  function decryptBytes (place: SecretPlace, ciphertext: Buffer): Buffer {
    if (ciphertext[0] !== format) throw new SecretUnreadable('its format is unknown to this version')
    const id = keyIdOf(ciphertext)
    const master = known.get(id)
    if (master === undefined) {
      throw new SecretUnreadable(`it was encrypted under the master key ${id}, which is not among the keys of this server`)
    }
    const { inner, outer } = keysOf(master, place.tenant)
    const data = dataOf(place)
    try {
      return open(inner, data, open(outer, Buffer.concat([headerOf(master), data]), ciphertext.subarray(headerLength)))
    } catch {
      throw new SecretUnreadable('it cannot be decrypted: it was changed, or belongs to another tenant, key or version')
    }
  }

  return {
    header,
    encrypt: (place, value) => wiped(Buffer.from(value), (plain) => encryptBytes(place, plain)),
    decrypt: (place, ciphertext) => wiped(decryptBytes(place, ciphertext), (plain) => plain.toString()),
    renew: (place, ciphertext) => wiped(decryptBytes(place, ciphertext), (plain) => encryptBytes(place, plain))
  }
}

/** The result of `use`; then the bytes are wiped. */
function wiped<Result> (plain: Buffer, use: (plain: Buffer) => Result): Result {
  try {
    return use(plain)
  } finally {
    plain.fill(0)
  }
}

export function keyIdOf (ciphertext: Buffer): string {
  return ciphertext.toString('hex', 1, headerLength)
}

function headerOf ({ id }: MasterKey): Buffer {
  return Buffer.concat([Buffer.from([format]), Buffer.from(id, 'hex')])
}

/** Neither tenants nor keys contain a NUL, so the data of two places always differ. */
function dataOf ({ tenant, key, version }: SecretPlace): Buffer {
  return Buffer.from(`${tenant}\0${key}\0${version}`)
}

function seal (key: KeyObject, data: Buffer, plain: Buffer): Buffer {
  const nonce = randomBytes(nonceLength)
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagLength }).setAAD(data)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

function open (key: KeyObject, data: Buffer, sealed: Buffer): Buffer {
  const tagAt = sealed.length - tagLength
  const decipher = createDecipheriv(algorithm, key, sealed.subarray(0, nonceLength), { authTagLength: tagLength })
    .setAAD(data).setAuthTag(sealed.subarray(tagAt))
  const plain = decipher.update(sealed.subarray(nonceLength, tagAt))
  // Unauthenticated bytes are never returned; GCM's `final` returns no bytes.
  decipher.final()
  return plain
}

// The places of other values that the server encrypts for a tenant. The cipher binds each value to its place as associated data. No key of
// a tenant's secret contains a slash.

/** A response that is kept under an idempotency key. */
export function idempotencyPlace (tenant: Owner, id: Buffer): SecretPlace {
  return { tenant, key: `idempotency/${id.toString('hex')}`, version: 1 }
}

/** The second factor of a user. */
export function mfaPlace (tenant: Owner, userId: string, version: number): SecretPlace {
  return { tenant, key: `mfa/${userId}`, version }
}

/** The generated secret that signs webhooks where no other is named. */
export function webhookSecretPlace (tenant: Owner): SecretPlace {
  return { tenant, key: 'webhooks/secret', version: 1 }
}

/** Bytes of an encrypted callback. Longer ones, which earlier versions stored, have a secret that cannot sign. */
export const maxCallback = 100_000

/** Address and secret of a callback, as JSON. */
export function callbackPlace (tenant: Owner, delivery: string): SecretPlace {
  return { tenant, key: `webhooks/callback/${delivery}`, version: 1 }
}
