/** Second factors of users: `app.mfa` and the endpoints under `/mfa`. On PostgreSQL without a master key it is off. */
import { definePlugin } from '../../lib/plugin/define.js'
import { callback, type ClockOption, flag, text } from '../../lib/plugin/options.js'
import type { KeyOptions } from '../../lib/secrets/master-key.js'
import { openCipher } from './keys.js'
import { mfaRoutes } from './routes.js'
import { createEnabledCheck, createMfa, type Mfa } from './service.js'
import { createMfaStore, markSecondFactors } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    mfa: Mfa
    /** Instead of `mfa` on a server without a master key: users whom another server gave a second factor must not log in here. */
    uncheckedMfa: Pick<Mfa, 'isEnabled'>
  }
}

export type { Mfa } from './service.js'

/** The settings of the master keys, as in the plugin secrets; and the document's `mfa` section. */
export interface MfaOptions extends Omit<KeyOptions, 'folder'>, ClockOption {
  /**
   * false: second factors are off, also those of users who have one. true: the start fails without a master key. Default: on; without a
   * key the plugin is off until a user has a second factor.
   */
  readonly enabled?: boolean | undefined
  /** The name that authenticator apps show. Default: `API`. */
  readonly issuer?: string | undefined
}

export default definePlugin<MfaOptions>({
  name: 'mfa',
  dependencies: ['database', 'auth'],
  optional: ['secrets', 'mail', 'users'],
  routeDependencies: [],
  options: { masterKey: text, previousKeys: text, enabled: flag, issuer: text, now: callback },
  async setup (app, { enabled, issuer = 'API', now = Date.now, ...settings }) {
    if (enabled === false) return undefined
    const cipher = await openCipher(app, createMfaStore(app.db), settings, enabled === true)
    if (cipher === null) {
      app.decorate('uncheckedMfa', createEnabledCheck(app.engine))
      return undefined
    }
    const service = createMfa(app, cipher, issuer, now)
    app.decorate('mfa', service)
    markSecondFactors(app.db)
    return (group) => mfaRoutes(group, service)
  }
})
