/**
 * Secrets of tenants: `app.secrets` and the endpoints under `/tenant/secrets`. On PostgreSQL it rejects without a master key.
 * It also rejects if the keys decrypt none of the stored secrets.
 */
import { definePlugin } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, text } from '../../lib/plugin/options.js'
import { createSecretCipher } from '../../lib/secrets/cipher.js'
import { type KeyOptions, openKeys } from '../../lib/secrets/master-key.js'
import { refuseOtherKeys } from './key-check.js'
import { secretRoutes } from './routes.js'
import { createSecrets, type Secrets } from './service.js'
import { sweepSecrets } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    secrets: Secrets
  }
}

/** The settings of the master keys. Without any, an embedded database stores its own key beside its data. */
export type SecretsOptions = Omit<KeyOptions, 'folder'> & ClockOption

export default definePlugin<SecretsOptions>({
  name: 'secrets',
  dependencies: ['database', 'tenancy'],
  optional: ['webhooks'],
  after: ['plans'],
  routeDependencies: ['auth'],
  options: { masterKey: text, previousKeys: text, now: callback },
  async setup (app, { now = Date.now, ...settings }) {
    const { keys, note } = await openKeys(app.engine.kind, { ...settings, folder: app.engine.folder })
    if (note !== undefined) app.log.warn({ masterKeyId: keys.current.id }, note)
    await refuseOtherKeys(app.db, keys, app.log)

    const service = createSecrets(app, createSecretCipher(keys), now)
    app.decorate('secrets', service)
    sweepHourly(app, 'expired secrets', () => sweepSecrets(app.db, new Date(now())))
    return (group) => secretRoutes(group, service)
  }
})
