/**
 * The event `usage.limit_reached` for outbound webhooks: a tenant has reached a limit of its plan. It is sent once for each
 * metric and period, over all servers. The refused request does not wait for it.
 */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { lruOptions } from '../../lib/cache/lru-options.js'
import type { Emitter } from '../../lib/database/outbox.js'
import { removal, sweep } from '../../lib/database/retention.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Plan, Plans } from '../../lib/plans/plans.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Tenant } from '../tenancy/tenant.js'
import { type Gauge, limits, type Reserved } from './metrics.js'
import { dayOf, monthOf } from './periods.js'

const maxRemembered = 10_000 // notices that this process remembers as written
const maxWriting = 50 // at a time; beyond them the next refusal writes the notice
const keptFor = 62 * dayMs // the longest period and the one after it

/** Monthly counts send one notice a month, gauges one a day. */
const monthly: ReadonlySet<Reserved | Gauge> = new Set(['llm_tokens', 'ai_cost'])

export type Notices = ReturnType<typeof createNotices>

/**
 * @param emitter returns null without the plugin webhooks
 * @param now the clock, in milliseconds since 1970
 */
export function createNotices (
  { db, engine, log, tenants }: FastifyInstance,
  emitter: () => Emitter | null,
  plans: Plans,
  now: () => number
) {
  const sent = new LRUCache<string, true>(lruOptions(maxRemembered))
  const writing = new Set<Promise<void>>()

  async function write (events: Emitter, tenant: Owner, metric: Reserved | Gauge, period: string, plan: Plan): Promise<void> {
    const at = new Date(now())
    const limit = limits[metric].limitOf(plan)
    const isNew = await engine.kyselyFor(tenant).transaction().execute(async (transaction) => {
      if (!await lockTenant(transaction, tenant, 'shared')) return false
      const row = await transaction.insertInto('tenantry.usage_notices').values({ tenant_id: tenant, metric, period, at })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'metric', 'period']).doNothing()).returning('metric').executeTakeFirst()
      if (row === undefined) return false
      const upgrade = plans.upgrade(plan.tier, limits[metric].limitOf, limit + 1)
      await events.emit(transaction, {
        tenant,
        type: 'usage.limit_reached',
        subject: `usage:${metric}`,
        data: { metric, period, plan: plan.tier, limit, upgrade },
        at
      })
      return true
    })
    if (isNew) events.wake()
  }

  /** Does nothing if this process has written the notice, or if there is no such tenant. */
  function writeOnce (events: Emitter, tenant: Tenant | null, metric: Reserved | Gauge, plan: Plan): void | Promise<void> {
    if (tenant === null) return
    const day = dayOf(now())
    const period = monthly.has(metric) ? monthOf(day) : day
    // A later tenant with the id gets its own notices.
    const key = `${tenant.life} ${metric} ${period}`
    if (sent.has(key)) return
    sent.set(key, true)
    return write(events, tenant.id, metric, period, plan).catch((error: unknown) => {
      sent.delete(key)
      throw error
    })
  }

  return {
    /** An operation was refused. Returns at once, and never throws. */
    reached (tenant: Owner, metric: Reserved | Gauge, plan: Plan): void {
      const events = emitter()
      if (events === null || writing.size >= maxWriting) return
      const work = whenKnown(tenants.get(tenant), (found) => writeOnce(events, found, metric, plan))
      if (work === undefined) return
      const written: Promise<void> = work
        .catch((err: unknown) =>
          log.warn({ err, tenant, metric }, 'the event of a reached limit could not be written; the next refusal tries again')
        )
        .finally(() => writing.delete(written))
      writing.add(written)
    },
    async sweep (): Promise<void> {
      await sweep(db, 'tenantry.usage_notices.sweep', [removal('tenantry.usage_notices', sql`at < ${new Date(now() - keptFor)}`)])
    },
    /** Resolves when all started writes have ended. */
    async close (): Promise<void> {
      await Promise.all(writing)
    }
  }
}
