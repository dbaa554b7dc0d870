/** The master keys of a server. */
import { createKeyFile, keyFile, readKeyFile } from './key-file.js'
import { howToMake, makeMasterKey, masterKeys, parseMasterKey, parseMasterKeys, type MasterKeys } from './master-key.js'

export interface KeyOptions {
  /** The setting SECRETS_MASTER_KEY: 32 bytes in base64. */
  readonly masterKey?: string | undefined
  /** The setting SECRETS_PREVIOUS_KEYS: former keys of stored values, separated by commas. */
  readonly previousKeys?: string | undefined
  /** The folder of an embedded database, which has its own key (`engine.folder`); without one it is in memory. */
  readonly folder?: string | undefined
}

export interface OpenedKeys {
  readonly keys: MasterKeys
  /** A note for the operator; undefined if there is nothing to add. */
  readonly note?: string
}

/**
 * The keys of the settings. Without SECRETS_MASTER_KEY, the embedded engine uses its own key, created if necessary; PostgreSQL throws an
 * error that names the setting. Errors and notes contain no part of a key.
 */
export async function openKeys (
  engine: 'postgres' | 'embedded',
  { masterKey = '', previousKeys = '', folder }: KeyOptions
): Promise<OpenedKeys> {
  const previous = parseMasterKeys(previousKeys, 'SECRETS_PREVIOUS_KEYS')
  const home = engine === 'embedded' ? folder : undefined
  const own = home === undefined ? undefined : await readKeyFile(home)
  if (masterKey !== '') {
    // The values of a database that had its own key so far can still be read.
    return { keys: masterKeys(parseMasterKey(masterKey, 'SECRETS_MASTER_KEY'), own === undefined ? previous : [own, ...previous]) }
  }
  if (engine === 'postgres') {
    throw new Error(
      `SECRETS_MASTER_KEY is missing: it encrypts the secrets of tenants. Set it (${howToMake}), or disable secrets with "plugins": { "secrets": false } in the document`
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
