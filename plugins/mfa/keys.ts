/** The keys that encrypt secrets of second factors, and whether there are any. */
import type { FastifyInstance } from 'fastify'
import { ifUnmigrated } from '../../lib/database/failures.js'
import { optional } from '../../lib/plugin/define.js'
import { SettingError } from '../../lib/schema/setting-error.js'
import { createSecretCipher, headerLength, keyIdOf, type SecretCipher } from '../../lib/secrets/cipher.js'
import { howToMake, type KeyOptions, lacksMasterKey, openKeys } from '../../lib/secrets/master-key.js'
import { refuseUnknownKeys } from '../secrets/key-check.js'
import type { MfaStore } from './store.js'

const turnOff = 'turn second factors off with "mfa": { "enabled": false } in the document'

/**
 * The cipher of the settings. On PostgreSQL without SECRETS_MASTER_KEY it is null, which is logged. It throws if second factors are
 * required, or a user has one and could log in without it.
 */
export async function openCipher (
  app: FastifyInstance,
  store: MfaStore,
  settings: Omit<KeyOptions, 'folder'>,
  required: boolean
): Promise<SecretCipher | null> {
  const { engine, log } = app
  if (lacksMasterKey(engine.kind, settings)) {
    if (required) {
      throw new SettingError(
        `SECRETS_MASTER_KEY is missing: it encrypts the secrets of second factors. Set it (${howToMake})`,
        `, or ${turnOff}`
      )
    }
    if (await store.isUsed().catch(ifUnmigrated(false))) {
      throw new SettingError(
        'SECRETS_MASTER_KEY is missing: it encrypts the secrets of second factors, and users have second factors. Set it',
        `, or ${turnOff}: then users can log in with their passwords alone`
      )
    }
    log.warn(
      `second factors are off: SECRETS_MASTER_KEY is missing: it encrypts their secrets. Set it (${howToMake}), or ${turnOff}`
    )
    return null
  }
  const { keys, note } = await openKeys(engine.kind, { ...settings, folder: engine.folder })
  // The plugin secrets has already logged it.
  if (note !== undefined && optional(app, 'secrets')() === null) log.warn({ masterKeyId: keys.current.id }, note)
  refuseUnknownKeys((await store.headers(headerLength).catch(ifUnmigrated([]))).map(keyIdOf), keys, 'secrets of second factors', log)
  return createSecretCipher(keys)
}
