/**
 * Sessions: `app.sessions`, which opens sessions and ends them early, and the endpoints `/auth/logout` and
 * `/auth/logout-all`. It tells the plugin auth which tokens have ended.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { listen } from '../../lib/plugin/listen.js'
import { callback } from '../../lib/plugin/options.js'
import { sweepHourly } from '../../lib/plugin/sweep.js'
import { createRevocations } from './list.js'
import { createOwners } from './owner.js'
import { sessionRoutes } from './routes.js'
import { createSessions, type Sessions } from './service.js'
import { createRevocationStore } from './store.js'

export type { SessionClaims, Sessions } from './service.js'

const maxTenants = 10_000 // whose lists are remembered, where the plugin tenancy does not say how many

declare module 'fastify' {
  interface FastifyInstance {
    sessions: Sessions
  }
}

export interface SessionsOptions {
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export default definePlugin<SessionsOptions>({
  name: 'sessions',
  dependencies: ['database', 'auth'],
  after: ['tenancy'],
  routeDependencies: [],
  options: { now: callback },
  setup (app, { now = Date.now }) {
    const { auth, db, engine, events, log } = app
    const store = createRevocationStore(db)
    const owners = createOwners(auth.providers)
    const revocations = createRevocations({ maxTenants: app.hasDecorator('tenancy') ? app.tenancy.maxRemembered : maxTenants, store, owners, now })
    auth.useRevocations(revocations)
    const service = createSessions({ store, owners, events, auth, dbFor: (tenant) => engine.kyselyFor(tenant), log, now })
    app.decorate('sessions', service)

    // The deletion of a tenant is a change of its sessions too.
    listen(app, events, { sessions: revocations.changed, gap: revocations.missed })
    sweepHourly(app, 'logouts of expired tokens', () => store.sweep(new Date(now())))
    return (group) => sessionRoutes(group, service)
  }
})
