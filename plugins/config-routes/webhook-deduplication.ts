/**
 * Handles each delivery of a webhook once across all servers. The process that handles a delivery holds its row and renews it. If
 * the process ends, another process takes over.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { type ExpressionBuilder, type Kysely, type RawBuilder, sql } from 'kysely'
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import type { Engine } from '../../lib/database/engine.js'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'

const leaseMs = 60_000 // ms until another process may take over a delivery whose row is not renewed
// By the clock of the database: those of servers may differ.
const leaseEnd = sql<Date>`now() + ${sql.lit(leaseMs)} * interval '1 ms'`
const renewEvery = 20_000 // ms
const pauses = [50, 100, 200, 400, 800, 1600, 2000] // ms between checks of a delivery that another request is handling
const maxWaiting = 100 // requests of this process that wait for a delivery at the same time
const maxWaitingOfTenant = 50

/** Identifies a delivery. */
export interface DeliveryKey {
  readonly tenant: Owner
  /** The path of the route, with its parameters. */
  readonly path: string
  readonly id: string
}

export type WebhookDeduplication = ReturnType<typeof createWebhookDeduplication>

export interface WebhookDeduplicationParts {
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  readonly log: Pick<FastifyBaseLogger, 'warn'>
}

const made = new WeakMap<Engine, WebhookDeduplication>()

/** For the app's database. Removes old rows until the app closes. */
export function webhookDeduplicationOf (app: FastifyInstance): WebhookDeduplication {
  const { engine, db, log } = app
  const known = made.get(engine)
  if (known !== undefined) return known
  const deduplication = createWebhookDeduplication({ dbFor: engine.kyselyFor, log })
  made.set(engine, deduplication)
  sweepHourly(app, 'old deliveries of inbound webhooks', () => sweepHandledWebhooks(db))
  return deduplication
}

/** Removes rows older than 30 days: services resend a delivery for a few days. */
export async function sweepHandledWebhooks (db: Kysely<SystemTables>): Promise<void> {
  await sweep(db, 'tenantry.webhook_receipts.sweep', [removal('tenantry.webhook_receipts', sql`received_at < now() - interval '30 days'`)])
}

export function createWebhookDeduplication ({ dbFor, log }: WebhookDeduplicationParts) {
  // The sender tries again, and then gets the result.
  const busy = () =>
    failure('stateConflict', { message: 'The delivery is already being processed: send it again later', headers: { 'retry-after': '5' } })
  const places = createTenantLimiter({ maxOfTenant: maxWaitingOfTenant, maxInAll: maxWaiting, tooManyOfTenant: busy, tooManyInAll: busy })

  /** The state of the delivery: taken by this holder, handled before, or held by another; null if the tenant does not exist. */
  async function take ({ tenant, path, id }: DeliveryKey, holder: string): Promise<'taken' | 'handled' | 'held' | null> {
    // A handled delivery stays handled. A tenant in deletion gets no row, which would outlive the tenant.
    const { rows: [row] } = await sql<{ taken: boolean | null, handled: boolean | null, present: boolean }>`with live as materialized (
        select 1 from tenantry.tenants where id = ${tenant} and status <> 'deleting' for key share
      ), taken as (
        insert into tenantry.webhook_receipts as r (tenant_id, path, id, holder, held_until, received_at)
        select ${tenant}, ${path}, ${id}, ${holder}::uuid, ${leaseEnd}, now() where ${tenant} = '' or exists (select from live)
        on conflict (tenant_id, path, id) do update set holder = excluded.holder, held_until = excluded.held_until, received_at = excluded.received_at where r.held_until <= now()
        returning true as taken
      )
      select (select taken from taken) as taken,
        (select held_until is null from tenantry.webhook_receipts where tenant_id = ${tenant} and path = ${path} and id = ${id}) as handled,
        ${tenant} = '' or exists (select from live) as present`.execute(dbFor(tenant))
    if (row?.present !== true) return null
    if (row.taken === true) return 'taken'
    return row.handled === true ? 'handled' : 'held'
  }

  async function hold (delivery: DeliveryKey, holder: string): Promise<'taken' | 'handled'> {
    for (const pause of [...pauses, null]) {
      const state = await take(delivery, holder)
      if (state === null) throw failure('tenantUnknown')
      if (state !== 'held') return state
      if (pause !== null) await places.run(delivery.tenant, () => wait(pause))
    }
    throw busy()
  }

  return {
    /**
     * Runs the work unless the delivery was handled before; then resolves with undefined. If another request is handling the delivery,
     * waits for that one, and rejects with `stateConflict` after some seconds. Rejects with `tenantUnknown` for an unknown tenant.
     * If the work rejects, the next request with the delivery runs it again.
     */
    async once<T> (delivery: DeliveryKey, work: () => Promise<T>): Promise<T | undefined> {
      const { tenant } = delivery
      const holder = randomUUID()
      if (await hold(delivery, holder) === 'handled') return undefined
      const isMine = ({ and }: ExpressionBuilder<SystemTables, 'tenantry.webhook_receipts'>) =>
        and({ tenant_id: tenant, path: delivery.path, id: delivery.id, holder })
      const change = async (heldUntil: RawBuilder<Date> | null) =>
        await dbFor(tenant).updateTable('tenantry.webhook_receipts').set({ held_until: heldUntil }).where(isMine)
          .where('held_until', 'is not', null).execute()
      const renewal = setInterval(() => {
        change(leaseEnd).catch((err: unknown) =>
          log.warn({ err, tenant }, 'a webhook takes long, and its claim could not be renewed')
        )
      }, renewEvery).unref()
      try {
        const result = await work()
        clearInterval(renewal)
        // The work is not undone if this write fails. At worst, the delivery is handled again.
        await change(null).catch((err: unknown) =>
          log.warn({ err, tenant }, 'a webhook was processed, but its receipt could not be written')
        )
        return result
      } catch (error) {
        clearInterval(renewal)
        await dbFor(tenant).deleteFrom('tenantry.webhook_receipts').where(isMine).execute().catch((err: unknown) =>
          log.warn({ err, tenant }, 'a webhook failed, and its claim lasts for another minute')
        )
        throw error
      }
    }
  }
}
