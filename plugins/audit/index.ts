/**
 * The audit log: `app.audit`, and the removal of entries that were kept long enough. A service plugin (fp). Needs the plugin
 * database; without the plugin plans the plans are the built-in ones. What is audited is written by whoever does it,
 * with or without this plugin. `auditRoutes`, beside it, are its endpoint.
 */
import type {} from '../database/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { defaultRetentionDays, maxRetentionDays } from '../../lib/config/schema/audit.js'
import { everyHour } from '../../lib/database/sweeping.js'
import { plansOf } from '../plans/plans-of.js'
import { requireDecorator, requireWhole } from '../../lib/plugin/requirement.js'
import { createAudit, type Audit } from './service.js'
import { sweepAudit } from './sweep.js'

export { auditActions, noActor } from '../../lib/audit.js'
export { actorOf } from './actor.js'
export { default as auditRoutes } from './routes.js'
export type { Actor, AuditAction, AuditEntry } from '../../lib/audit.js'
export type { ActingRequest } from './actor.js'
export type { Audit } from './service.js'
export type { AuditFilter, AuditPage, AuditRow } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    audit: Audit
  }
}

export interface AuditOptions {
  /** Days, 1 to 36,500, for which the platform's own entries are kept; those of a tenant are as long as its plan says. Default: 365. */
  readonly retentionDays?: number | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function audit (app: FastifyInstance, { retentionDays = defaultRetentionDays, now = Date.now }: AuditOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'audit')
  requireWhole('retentionDays', retentionDays, 1, maxRetentionDays)
  const { db, engine, log } = app
  const plans = plansOf(app, 'audit')
  app.decorate('audit', createAudit({ db, dbFor: (tenant) => engine.kyselyFor(tenant), plans, retentionDays, now }))
  const stopSweeping = everyHour(() => sweepAudit(db, { plans, retentionDays }, new Date(now())), (err) => log.warn({ err }, 'old audit entries could not be removed; it is tried again'))
  app.addHook('onClose', stopSweeping)
}

export default fp(audit, { name: 'tenantry-audit', fastify: '5.x' })
