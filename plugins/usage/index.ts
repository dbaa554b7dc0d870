/** Usage of tenants: `app.usage` and its endpoints. Register it before the routes whose requests it should count. */
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { sweepHourly, worksBesideRequests } from '../../lib/plugin/lifecycle.js'
import { callback, flag } from '../../lib/plugin/options.js'
import { plansOf } from '../plans/plans-of.js'
import { createNotices } from './notices.js'
import { countRequests } from './requests.js'
import { usageRoutes } from './routes.js'
import { createUsage, type Usage } from './service.js'
import { sweepUsage } from './store.js'

export type { Counted, Counter, Gauge, Reserved } from './metrics.js'
export type { HistoryEntry, Report, Summary } from './report.js'
export type { Reservation } from './reservations.js'
export type { Usage } from './service.js'
export type { Instance } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    usage: Usage
  }
}

export interface UsageOptions {
  /** Adds `GET /billing/usage`. Default: true. */
  readonly report?: boolean | undefined
  /** The clock of days and months, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export default definePlugin<UsageOptions>({
  name: 'usage',
  dependencies: ['database', 'tenancy'],
  routeDependencies: ['auth'],
  optional: ['webhooks'],
  after: ['plans'],
  observesRoutes: true,
  options: { report: flag, now: callback },
  setup (app, { report = true, now = Date.now }) {
    const { db, engine, log, tenants } = app
    const plans = plansOf(app)
    const notices = createNotices(app, optional(app, 'webhooks'), plans, now)
    const service = createUsage({ engine, tenants, plans, notices, log, now })
    app.decorate('usage', service)
    countRequests(app, service.request)
    if (worksBesideRequests(app)) service.start()
    app.addHook('onClose', async () => {
      await service.close()
      await notices.close()
    })
    sweepHourly(app, 'notices of limits', () => notices.sweep())
    sweepHourly(app, 'old figures of usage', () => sweepUsage(db, now()))
    return (group) => usageRoutes(group, report)
  }
})
