/** Logins with e-mail address and password, second factors and registration: `/auth/login`, `/auth/mfa/verify` and `/auth/register`. */
import { createAttemptLimiter } from '../../lib/database/attempt-limiter.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, section } from '../../lib/plugin/options.js'
import { Auth as AuthSection } from '../../lib/schema/auth.js'
import { hasSecondFactors } from '../mfa/store.js'
import { meRoute } from './me.js'
import { loginRoutes } from './routes.js'
import { createLogin } from './service.js'

export interface LoginOptions extends ClockOption {
  /** `open`: anyone who knows the id of a tenant can become its user. Default: `closed`. */
  readonly registration?: 'open' | 'closed' | undefined
}

export default definePlugin<LoginOptions>({
  name: 'login',
  dependencies: ['database', 'auth', 'tenancy', 'sessions', 'users'],
  after: ['mail', 'mfa'],
  routeDependencies: [],
  options: { registration: section(AuthSection.properties.registration), now: callback },
  setup (app, { registration = 'closed', now = Date.now }) {
    const { db, engine, users } = app
    const mfa = optional(app, 'mfa')()
    if (mfa !== null && !app.auth.canSignPartial) {
      throw new Error(
        'the plugin "tenantry/plugins/auth" has no key for logins of users with a second factor: give it the option `jwt` with a signing key'
      )
    }
    app.addHook('onReady', async () => {
      if (mfa === null && hasSecondFactors(db)) {
        throw new Error(
          'register the plugin "tenantry/plugins/mfa" before "tenantry/plugins/login", in the same context or in a parent: otherwise users with a second factor could log in with a password alone'
        )
      }
    })
    const attempts = createAttemptLimiter((tenant) => engine.kyselyFor(tenant), now)
    sweepHourly(app, 'old attempts at passwords', () => attempts.sweep(db))
    return (group) => {
      loginRoutes(group, createLogin(app, mfa, attempts, now), registration === 'open', mfa !== null)
      meRoute(group, users, mfa)
    }
  }
})
