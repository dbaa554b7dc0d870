/** Limits that tenants set for their users: `app.resourceLimits` and the endpoints under `/tenant/limits/resources`. */
import { definePlugin } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, whole } from '../../lib/plugin/options.js'
import { resourceLimitRoutes } from './routes.js'
import { createResourceLimits, type ResourceLimits } from './service.js'
import { sweepUsage } from './store.js'

export { limitedUser } from './service.js'
export type { ResourceLimits, Taken, Use } from './service.js'
export type { LimitedUser, Rule } from './rules.js'
export type { CheckResult, UsageEntry } from './usage.js'

const defaultMaxCounters = 100_000

declare module 'fastify' {
  interface FastifyInstance {
    resourceLimits: ResourceLimits
  }
}

export interface ResourceLimitsOptions extends ClockOption {
  /**
   * The maximum number of usage counters of a tenant: one for each user, resource and metric. More are refused with 409. Default: 100,000.
   */
  readonly maxCounters?: number | undefined
}

export default definePlugin<ResourceLimitsOptions>({
  name: 'resource-limits',
  dependencies: ['database', 'tenancy'],
  optional: ['users'],
  routeDependencies: ['auth'],
  options: { maxCounters: whole(1, 2 ** 31 - 1), now: callback },
  setup (app, { maxCounters = defaultMaxCounters, now = Date.now }) {
    const service = createResourceLimits(app, maxCounters, now)
    app.decorate('resourceLimits', service)
    sweepHourly(app, 'usage of past periods', () => sweepUsage(app.db, new Date(now())))
    return (group) => resourceLimitRoutes(group, service)
  }
})
