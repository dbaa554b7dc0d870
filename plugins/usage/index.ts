/**
 * Usage of tenants: `app.usage` (DESIGN 7). A service plugin (fp). Needs the plugins database and tenancy, and takes plans
 * where that is registered. It counts the requests of routes that are registered after it: register it before them.
 * `usageRoutes`, beside it, are its endpoints.
 */
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { everyHour } from '../../lib/database/sweeping.js'
import { plansOf } from '../plans/plans-of.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { emitterOf } from '../webhooks/emitter.js'
import { createNotices } from './notices.js'
import { countRequests } from './requests.js'
import { createUsage, type Usage } from './service.js'

export { default as usageRoutes } from './routes.js'
export type { Counted, Counter, Gauge, Reserved } from './metrics.js'
export type { Report } from './report.js'
export type { UsageRoutesOptions } from './routes.js'
export type { Reservation } from './reservations.js'
export type { HistoryEntry, Summary, Usage } from './service.js'
export type { Instance } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    usage: Usage
  }
}

export interface UsageOptions {
  /** The clock of days and months, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function usage (app: FastifyInstance, { now }: UsageOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'usage')
  requireDecorator(app, 'tenants', 'tenancy', 'usage')
  const plans = plansOf(app, 'usage')

  const { db, engine, log } = app
  const notices = createNotices({ emitter: emitterOf(app, 'usage'), plans, db, dbFor: (tenant) => engine.kyselyFor(tenant), now: now ?? Date.now, log })
  const stopSweeping = everyHour(() => notices.sweep(), (err) => log.warn({ err }, 'notices of limits could not be swept; it is tried again in an hour'))
  const service = createUsage({ engine, tenants: app.tenants, plans, notices, log, now })
  app.decorate('usage', service)
  countRequests(app, service)
  service.start()
  app.addHook('onClose', async () => {
    await stopSweeping()
    await service.close()
    await notices.close()
  })
}

export default fp(usage, { name: 'tenantry-usage', fastify: '5.x' })
