/** The audit log: `app.audit`, the endpoint `GET /audit`, and the removal of old entries. Other plugins write their entries without it. */
import { definePlugin } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, whole } from '../../lib/plugin/options.js'
import { defaultRetentionDays, maxRetentionDays } from '../../lib/schema/plugins.js'
import { plansOf } from '../plans/plans-of.js'
import { auditRoutes } from './routes.js'
import { type Audit, createAudit } from './service.js'
import { sweepAudit } from './store.js'

export { auditActions, noActor } from '../../lib/database/audit.js'
export { actorOf } from '../auth/actor.js'
export type { Actor, AuditAction, AuditEntry } from '../../lib/database/audit.js'
export type { ActingRequest } from '../auth/actor.js'
export type { Audit } from './service.js'
export type { AuditFilter, AuditPage, AuditRow } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    audit: Audit
  }
}

export interface AuditOptions extends ClockOption {
  /** The days, 1 to 36,500, that the platform's own entries are kept; a tenant's plan sets those of its entries. Default: 365. */
  readonly retentionDays?: number | undefined
}

export default definePlugin<AuditOptions>({
  name: 'audit',
  dependencies: ['database'],
  routeDependencies: ['auth', 'tenancy'],
  after: ['plans'],
  options: { retentionDays: whole(1, maxRetentionDays), now: callback },
  setup (app, { retentionDays = defaultRetentionDays, now = Date.now }) {
    const { db, engine } = app
    const plans = plansOf(app)
    app.decorate('audit', createAudit({ db, dbFor: engine.kyselyFor, plans, retentionDays, now }))
    sweepHourly(app, 'old audit entries', () => sweepAudit(db, { plans, retentionDays }, new Date(now())))
    return auditRoutes
  }
})
