/**
 * Limits that tenants set for their users: `app.resourceLimits`, and the endpoints under `/tenant/limits/resources` (SPEC
 * "Resource limit rule", DESIGN 7). A service plugin (fp); its endpoints stay in a context of their own. Needs the plugins
 * database, auth and tenancy.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { everyHour } from '../../lib/database/sweeping.js'
import conventions from '../conventions/index.js'
import { requireDecorator, requireWhole } from '../../lib/plugin/requirement.js'
import { resourceLimitRoutes } from './routes.js'
import { createResourceLimits, type ResourceLimits } from './service.js'
import { sweepUsage } from './sweep.js'

export { limitedUser } from './service.js'
export type { ResourceLimits, Taken, Use, UsageEntry } from './service.js'
export type { LimitedUser, Rule } from './rules.js'
export type { CheckResult } from './usage.js'

const defaultMaxCounters = 100_000

declare module 'fastify' {
  interface FastifyInstance {
    resourceLimits: ResourceLimits
  }
}

export interface ResourceLimitsOptions {
  /** Users, each with a resource and a metric, of whom a tenant's usage is counted at most: more are refused with 409. Default: 100,000. */
  readonly maxCounters?: number | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function resourceLimits (app: FastifyInstance, { maxCounters = defaultMaxCounters, now = Date.now }: ResourceLimitsOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'resource-limits')
  requireDecorator(app, 'auth', 'auth', 'resource-limits')
  requireDecorator(app, 'tenancy', 'tenancy', 'resource-limits')
  requireWhole('maxCounters', maxCounters, 1, 2 ** 31 - 1)

  const { engine, log, tenancy } = app
  const service = createResourceLimits({ engine, maxTenants: tenancy.maxRemembered, maxCounters, log, now })
  const stopSweeping = everyHour(() => sweepUsage(app.db, new Date(now())), (err) => log.warn({ err }, 'what users have used in periods that are over could not be swept; it is tried again'))
  app.decorate('resourceLimits', service)
  app.addHook('onClose', async () => {
    await stopSweeping()
    await service.close()
  })

  await app.register(async (group) => {
    await group.register(conventions)
    resourceLimitRoutes(group, service)
  })
}

export default fp(resourceLimits, { name: 'tenantry-resource-limits', fastify: '5.x' })
