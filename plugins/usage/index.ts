/**
 * Usage of tenants: `app.usage`, the endpoints under `/usage`, and `GET /billing/usage`. A service plugin (fp); its endpoints
 * stay in a context of their own. Needs the plugins database, auth and tenancy, and takes plans where that is registered. It
 * counts the requests of routes that are registered after it: register it before them.
 */
import type {} from '../auth/index.js'
import type {} from '../database.js'
import type {} from '../plans/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { builtInPlans } from '../../lib/plans.js'
import conventions from '../conventions.js'
import { requireDecorator } from '../requirement.js'
import { countRequests } from './requests.js'
import { usageRoutes } from './routes.js'
import { createUsage, type Usage } from './service.js'

export type { Counted, Counter, Gauge, Reserved } from './metrics.js'
export type { Report } from './report.js'
export type { Reservation } from './reservations.js'
export type { HistoryEntry, Summary, Usage } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    usage: Usage
  }
}

export interface UsageOptions {
  /** Whether there is `GET /billing/usage`. Default: true. */
  readonly report?: boolean | undefined
  /** The clock of days and months, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function usage (app: FastifyInstance, { report = true, now }: UsageOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'usage')
  requireDecorator(app, 'auth', 'auth', 'usage')
  requireDecorator(app, 'tenants', 'tenancy', 'usage')
  const plans = app.hasDecorator('plans') ? app.plans : builtInPlans

  const service = createUsage({ engine: app.engine, tenants: app.tenants, plans, log: app.log, now })
  app.decorate('usage', service)
  countRequests(app, service)
  service.start()
  app.addHook('onClose', () => service.close())

  await app.register(async (group) => {
    await group.register(conventions)
    usageRoutes(group, service, { report })
  })
}

export default fp(usage, { name: 'tenantry-usage', fastify: '5.x' })
