/**
 * Sessions: `app.sessions`, which opens and ends them, and the endpoints `/auth/logout` and `/auth/logout-all`. The plugin
 * auth refuses the tokens of `app.revocations`.
 */
import { definePlugin, optional, requireSameContext } from '../../lib/plugin/define.js'
import { listen, sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, whole } from '../../lib/plugin/options.js'
import { defaultRefreshDays, maxRefreshDays } from '../../lib/schema/auth.js'
import { dayMs } from '../../lib/time/spans.js'
import { createRevocations } from './list.js'
import { createOwners } from './owners.js'
import { sessionRoutes } from './routes.js'
import { createSessions, type Sessions } from './service.js'
import { createRevocationStore } from './store.js'

export type { SessionUser } from './refresh-tokens.js'
export type { BegunSession, EndUser, SessionClaims, Sessions } from './service.js'

const maxTenants = 10_000 // with cached lists, if the plugin tenancy does not set a number

declare module 'fastify' {
  interface FastifyInstance {
    sessions: Sessions
  }
}

export interface SessionsOptions extends ClockOption {
  /** Days that a refresh token lives, 1 to 365. Default: 30. */
  readonly refreshDays?: number | undefined
}

export default definePlugin<SessionsOptions>({
  name: 'sessions',
  dependencies: ['database', 'auth'],
  after: ['tenancy'],
  routeDependencies: [],
  options: { refreshDays: whole(1, maxRefreshDays), now: callback },
  setup (app, { refreshDays = defaultRefreshDays, now = Date.now }) {
    const store = createRevocationStore(app.db)
    const owners = createOwners(app.auth.providers)
    const revocations = createRevocations(store, owners, optional(app, 'tenancy')()?.maxRemembered ?? maxTenants, now)
    requireSameContext(app, 'auth', 'sessions')
    app.decorate('revocations', revocations)
    const service = createSessions(app, store, owners, refreshDays * dayMs, now)
    app.decorate('sessions', service)

    // The deletion of a tenant changes its sessions too.
    listen(app, app.events, { sessions: revocations.changed, users: revocations.changed, gap: revocations.missed })
    sweepHourly(app, 'logouts of expired tokens', () => store.sweep(new Date(now())))
    return (group) => sessionRoutes(group, service)
  }
})
