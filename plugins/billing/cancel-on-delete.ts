/**
 * Cancels the subscriptions of a deleted tenant at the provider. This is a job, since the deletion must not depend on a provider, and a
 * failed job is repeated.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { archivedTenant, noActor, writeAudit } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import type { Job } from '../queue/index.js'
import type { PaymentProvider, ProviderName, Snapshot } from './providers/provider.js'

const job = 'billing.depart'
// The last try is days after the first.
const options = { retryLimit: 12, retryDelay: 60, expireIn: 120, concurrency: 1, endpoints: 'DELETE /tenants/{id} sends it' } as const

// s between two jobs: a provider's search finds a new subscription after a minute, in an outage after an hour.
const secondAfter = 7200

/** @param now the clock, in milliseconds since 1970 */
export function cancelForDeleted (
  { db, log, queue, tenants }: FastifyInstance,
  providers: ReadonlyMap<ProviderName, PaymentProvider>,
  now: () => number
): void {
  if (providers.size === 0) return
  queue.define(job, options, async ({ id, data, attempt }) => {
    const { tenant, deletedAt } = deletionOf(data)
    const errors: unknown[] = []
    /** Logs an error, and goes on: the others must not depend on it. */
    const attempted = async (subject: { readonly provider: ProviderName, readonly subscription?: string }, work: () => Promise<void>) => {
      try {
        await work()
      } catch (err) {
        errors.push(err)
        log.warn({ err, tenant, ...subject }, 'subscriptions of a deleted tenant could not be canceled')
      }
    }
    const cancel = async (provider: PaymentProvider, snapshot: Snapshot) => {
      const { status, endedAt, cancelAtPeriodEnd } = snapshot
      const isOver = status === 'canceled' || status === 'incomplete' || endedAt !== null
      // A later tenant with the same id keeps its own subscriptions.
      if (isOver || snapshot.startedAt.getTime() > deletedAt) return
      // An earlier attempt may have canceled it, and failed before the entry.
      if (cancelAtPeriodEnd && (attempt === 1 || await isAudited(db, tenant, snapshot.id))) return
      const { periodEnd } = cancelAtPeriodEnd ? snapshot : await provider.cancel(snapshot.id, `${id}:${snapshot.id}`)
      await writeAudit(db, {
        tenant: platformRef,
        action: 'billing.subscription',
        actor: noActor,
        target: snapshot.id,
        details: { provider: provider.name, deletedTenant: tenant, cancelAtPeriodEnd: true, periodEnd: periodEnd.toISOString() },
        at: new Date(now())
      })
    }
    for (const provider of providers.values()) {
      const { name } = provider
      await attempted({ provider: name }, async () => {
        for (const snapshot of await provider.subscriptions(tenant)) {
          await attempted({ provider: name, subscription: snapshot.id }, () => cancel(provider, snapshot))
        }
      })
    }
    if (errors.length > 0) throw errors[0]
  })
  tenants.onRemoval(async (tenant, transaction) => {
    const sent = { tenant: platformRef, data: { tenant, deletedAt: now() } }
    await queue.send(job, sent, transaction)
    await queue.send(job, { ...sent, delay: secondAfter }, transaction)
  })
}

/** Whether the log of the platform, or that of the deleted tenant, has the cancellation. */
async function isAudited (db: Kysely<SystemTables>, tenant: Owner, subscription: string): Promise<boolean> {
  const entry = await db.selectFrom('tenantry.audit_log').select('id')
    .where('tenant_id', 'in', [platformRef, archivedTenant(tenant)]).where('target', '=', subscription)
    .where('action', '=', 'billing.subscription').where(sql<boolean>`details ->> 'cancelAtPeriodEnd' = 'true'`).limit(1).executeTakeFirst()
  return entry !== undefined
}

function deletionOf ({ tenant, deletedAt }: Job['data']): { tenant: Owner, deletedAt: number } {
  if (typeof tenant !== 'string' || typeof deletedAt !== 'number') throw new Error('not the data of this job')
  return { tenant: tenantRef(tenant), deletedAt }
}
