/** The master keys of secrets: the settings SECRETS_MASTER_KEY and SECRETS_PREVIOUS_KEYS. */
import { createSecretKey, hkdfSync, randomBytes, type KeyObject } from 'node:crypto'

export const masterKeyLength = 32
/** Bytes of a key's id. */
export const keyIdLength = 8

const idInfo = 'service-master-key-id'

/** The command that creates one. */
export const howToMake = 'make one with: openssl rand -base64 32'

export interface MasterKey {
  /** A short hash of the key, in hexadecimal: its name in ciphertexts, messages and logs. */
  readonly id: string
  readonly key: KeyObject
}

export interface MasterKeys {
  /** The key for new values. */
  readonly current: MasterKey
  /** All keys for reading, the current one included, by id. */
  readonly known: ReadonlyMap<string, MasterKey>
}

/** Base64 of 32 bytes; throws an error that names the setting and the command that creates a key, without the text. */
export function parseMasterKey (text: string, setting: string): MasterKey {
  const bytes = Buffer.from(text.trim(), 'base64')
  try {
    // Buffer.from skips invalid characters: a password must not become a shorter key.
    const plain = (base64: string) => base64.replaceAll('=', '').replaceAll('-', '+').replaceAll('_', '/')
    if (bytes.length !== masterKeyLength || plain(bytes.toString('base64')) !== plain(text.trim())) {
      throw new Error(`${setting} is not 32 bytes in base64: ${howToMake}`)
    }
    return masterKeyOf(bytes)
  } finally {
    bytes.fill(0)
  }
}

/** Keys in base64, separated by commas; empty places are skipped. */
export function parseMasterKeys (text: string, setting: string): MasterKey[] {
  return text.split(',').filter((one) => one.trim() !== '').map((one) => parseMasterKey(one, setting))
}

export function masterKeyOf (bytes: Buffer): MasterKey {
  const key = createSecretKey(bytes)
  return { id: Buffer.from(hkdfSync('sha256', key, '', idInfo, keyIdLength)).toString('hex'), key }
}

/** A new key, and its text for the operator. */
export function makeMasterKey (): { key: MasterKey, text: string } {
  const bytes = randomBytes(masterKeyLength)
  const made = { key: masterKeyOf(bytes), text: bytes.toString('base64') }
  bytes.fill(0)
  return made
}

export function masterKeys (current: MasterKey, previous: readonly MasterKey[] = []): MasterKeys {
  return { current, known: new Map([...previous, current].map((key) => [key.id, key])) }
}
