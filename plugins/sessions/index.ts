/**
 * Sessions: `app.sessions`, which opens them and ends them before their time, and the endpoints `/auth/logout` and
 * `/auth/logout-all` (DESIGN 5). A service plugin (fp); its endpoints stay in a context of their own. It tells the plugin
 * auth which tokens were ended. Needs the plugins database and auth.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { everyHour } from '../../lib/database/sweeping.js'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
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

export async function sessions (app: FastifyInstance, { now = Date.now }: SessionsOptions): Promise<void> {
  requireDecorator(app, 'events', 'database', 'sessions')
  requireDecorator(app, 'auth', 'auth', 'sessions')
  const { auth, db, engine, events, log } = app
  const store = createRevocationStore(db)
  const owners = createOwners(auth.providers)
  const revocations = createRevocations({ maxTenants: app.hasDecorator('tenancy') ? app.tenancy.maxRemembered : maxTenants, store, owners, now })
  auth.useRevocations(revocations)
  const service = createSessions({ store, owners, events, auth, dbFor: (tenant) => engine.kyselyFor(tenant), log, now })
  app.decorate('sessions', service)

  const ends = [
    // Also told when a tenant is deleted.
    events.on('sessions', revocations.changed),
    events.onGap(revocations.missed)
  ]
  const stopSweeping = everyHour(() => store.sweep(new Date(now())), (err) => log.warn({ err }, 'logouts whose tokens have expired could not be swept; it is tried again'))
  app.addHook('onClose', async () => {
    for (const end of ends) end()
    await stopSweeping()
  })

  await app.register(async (group) => {
    await group.register(conventions)
    sessionRoutes(group, service)
  })
}

export default fp(sessions, { name: 'tenantry-sessions', fastify: '5.x' })
