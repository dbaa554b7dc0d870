/** The keys that encrypt the secrets of webhooks. */
import type { FastifyInstance } from 'fastify'
import { SettingError } from '../../lib/schema/setting-error.js'
import { createSecretCipher, type SecretCipher } from '../../lib/secrets/cipher.js'
import { howToMake, type KeyOptions, lacksMasterKey, openKeys } from '../../lib/secrets/master-key.js'

/**
 * The cipher of the settings. On PostgreSQL without SECRETS_MASTER_KEY it is null, which is logged.
 *
 * @param isRequired whether the document declares outbound webhooks; without the key, it then throws
 */
export async function openCipher (
  { engine, log }: Pick<FastifyInstance, 'engine' | 'log'>,
  settings: Omit<KeyOptions, 'folder'>,
  isRequired: boolean
): Promise<SecretCipher | null> {
  if (lacksMasterKey(engine.kind, settings)) {
    if (isRequired) {
      throw new SettingError(
        `SECRETS_MASTER_KEY is missing: it encrypts the secrets of webhooks. Set it (${howToMake})`,
        ', or remove the webhooks with a `url` from the document'
      )
    }
    log.warn(
      `outbound webhooks are off: SECRETS_MASTER_KEY is missing: it encrypts their secrets. Set it (${howToMake}), or turn them off with "plugins": { "webhooks": false } in the document`
    )
    return null
  }
  const { keys, note } = await openKeys(engine.kind, { ...settings, folder: engine.folder })
  // The plugin secrets reports a key in memory.
  if (note !== undefined && engine.folder !== undefined) log.warn({ masterKeyId: keys.current.id }, note)
  return createSecretCipher(keys)
}
