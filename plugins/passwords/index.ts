/** Passwords of existing users: forgotten, reset and changed; and the confirmation of their addresses. */
import { createAttemptLimiter } from '../../lib/database/attempt-limiter.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption } from '../../lib/plugin/options.js'
import { passwordRoutes } from './routes.js'
import { createPasswordService } from './service.js'

export type PasswordsOptions = ClockOption

export default definePlugin<PasswordsOptions>({
  name: 'passwords',
  dependencies: ['database', 'auth', 'tenancy', 'sessions', 'users', 'mail'],
  routeDependencies: [],
  options: { now: callback },
  setup (app, { now = Date.now }) {
    const attempts = createAttemptLimiter(app.engine.kyselyFor, now)
    // The plugin login, which removes them too, may be off.
    sweepHourly(app, 'old attempts at passwords', () => attempts.sweep(app.db))
    return (group) => passwordRoutes(group, createPasswordService(app, attempts, now))
  }
})
