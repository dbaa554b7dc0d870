/** The master keys of a server: the settings SECRETS_MASTER_KEY and SECRETS_PREVIOUS_KEYS, or a file beside an embedded database. */
import { createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'
import { open, readFile, rename } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { codeOf } from '../errors.js'
import { SettingError } from '../schema/setting-error.js'

const masterKeyLength = 32
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
      throw new SettingError(`${setting} is not 32 bytes in base64: ${howToMake}`)
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

const fileName = 'secrets.key'

/** The path of the key of the database in this folder. */
function keyFile (folder: string): string {
  return join(resolve(folder), fileName)
}

/** The key in the file; undefined without a file. Throws for an invalid file. */
async function readKeyFile (folder: string): Promise<MasterKey | undefined> {
  const path = keyFile(folder)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
  return parseMasterKey(text, path)
}

/** Creates the file, readable by its owner only. This process holds the lock of the database. The key is on disk before it is used. */
async function createKeyFile (folder: string): Promise<MasterKey> {
  const path = keyFile(folder)
  const { key, text } = makeMasterKey()
  const unfinished = `${path}.unfinished`
  const file = await open(unfinished, 'w', 0o600)
  try {
    // A file of an interrupted start may have another mode.
    await file.chmod(0o600)
    await file.writeFile(`${text}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(unfinished, path)
  // Also flushes the name; on Windows, where a folder cannot be opened, the system does that.
  const home = await open(folder, 'r').catch(() => undefined)
  await home?.sync().finally(() => home.close())
  return key
}

export interface KeyOptions {
  /** The setting SECRETS_MASTER_KEY: 32 bytes in base64. */
  readonly masterKey?: string | undefined
  /** The setting SECRETS_PREVIOUS_KEYS: former keys of stored values, separated by commas. */
  readonly previousKeys?: string | undefined
  /** The folder of an embedded database, which has its own key (`engine.folder`); without one it is in memory. */
  readonly folder?: string | undefined
}

/** Whether there is no key: PostgreSQL without SECRETS_MASTER_KEY. The embedded engine has a key of its own. */
export function lacksMasterKey (engine: 'postgres' | 'embedded', { masterKey = '' }: Pick<KeyOptions, 'masterKey'>): boolean {
  return engine === 'postgres' && masterKey === ''
}

/**
 * The keys of the settings, and a note for the operator if there is something to add. Without SECRETS_MASTER_KEY, the embedded engine
 * uses its own key, created if necessary; PostgreSQL throws an error that names the setting. Errors and notes contain no part of a key.
 */
export async function openKeys (
  engine: 'postgres' | 'embedded',
  { masterKey = '', previousKeys = '', folder }: KeyOptions
): Promise<{ readonly keys: MasterKeys, readonly note?: string }> {
  const previous = parseMasterKeys(previousKeys, 'SECRETS_PREVIOUS_KEYS')
  const home = engine === 'embedded' ? folder : undefined
  const own = home === undefined ? undefined : await readKeyFile(home)
  if (masterKey !== '') {
    // The values of a database that had its own key so far can still be read.
    return { keys: masterKeys(parseMasterKey(masterKey, 'SECRETS_MASTER_KEY'), own === undefined ? previous : [own, ...previous]) }
  }
  if (engine === 'postgres') {
    throw new SettingError(
      `SECRETS_MASTER_KEY is missing: it encrypts the secrets of tenants. Set it (${howToMake})`,
      ', or disable secrets with "plugins": { "secrets": false } in the document'
    )
  }
  if (own !== undefined) return { keys: masterKeys(own, previous) }
  if (home === undefined) {
    return {
      keys: masterKeys(makeMasterKey().key, previous),
      note:
        'SECRETS_MASTER_KEY is not set: secrets are encrypted with a key that is lost when this process ends, like its database in memory'
    }
  }
  return {
    keys: masterKeys(await createKeyFile(home), previous),
    note: `SECRETS_MASTER_KEY is not set: a master key for secrets was made in ${keyFile(home)}. Keep it with the data: without it no secret can be read`
  }
}
