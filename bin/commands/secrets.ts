/** `tenantry secrets rekey`: moves stored secrets to the current master key. */
import { environmentOf } from '../../lib/configuration/index.js'
import { isFailure } from '../../lib/errors.js'
import { setting } from '../../lib/expressions/environment.js'
import type { Command } from '../command.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'

export const rekey: Command = {
  summary: 'Encrypt all stored secrets with the current master key.',
  usage: '[document]',
  details: `Requires SECRETS_MASTER_KEY, the new key, and SECRETS_PREVIOUS_KEYS, the current keys of the secrets, separated by
commas. Servers can keep running; stop the server of an embedded database first. The command can be repeated. Prints how
many secrets it encrypted again; ends with 1 and names the secret and the reason if a secret could not be read.`,
  options: {},

  async run (call) {
    const config = await loadDocument(call.document, call.env)
    const env = environmentOf(config)
    const [{ createEngine }, { openKeys }, { createSecretCipher }, { rekeySecrets }] = await Promise.all([
      import('../../lib/database/index.js'),
      import('../../lib/secrets/master-key.js'),
      import('../../lib/secrets/cipher.js'),
      import('../../lib/secrets/rekey.js')
    ])
    const { database } = config
    const engine = await createEngine({ ...database, migrate: 'manual' })
    try {
      const { keys } = await openKeys(engine.kind, {
        masterKey: setting(env, 'SECRETS_MASTER_KEY'),
        previousKeys: setting(env, 'SECRETS_PREVIOUS_KEYS'),
        folder: engine.folder
      })
      const { moved, unreadable, unfinished } = await rekeySecrets(engine.kysely, createSecretCipher(keys))
      call.print(`${moved} ${moved === 1 ? 'secret' : 'secrets'} moved to the master key ${keys.current.id}`)
      for (const { tenant, key, reason } of unreadable) {
        call.note(`the secret "${key}" of ${tenant === '' ? 'the platform' : `the tenant "${tenant}"`} was not changed: ${reason}`)
      }
      if (unfinished) {
        call.note('servers still store secrets with another key: set the new SECRETS_MASTER_KEY for them, then run this again')
      }
      return unreadable.length > 0 || unfinished ? 1 : 0
    } catch (error) {
      throw isFailure(error, 'schemaChanged') ? new CommandError('the database is not migrated: run "tenantry migrate"') : error
    } finally {
      await engine.close()
    }
  }
}
