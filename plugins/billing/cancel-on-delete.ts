/**
 * Cancels the subscriptions of a deleted tenant at the provider. This is a job, since the deletion must not depend on a provider, and a
 * failed job is repeated.
 */
import type { FastifyInstance } from 'fastify'
import { noActor, writeAudit } from '../../lib/database/audit.js'
import { type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import type { Job } from '../queue/index.js'
import type { PaymentProvider, ProviderName } from './providers/provider.js'

const job = 'billing.depart'
// The last try is days after the first.
const options = { retryLimit: 12, retryDelay: 60, expireIn: 120, concurrency: 1, endpoints: 'DELETE /tenants/{id} sends it' } as const

// s between two jobs: a provider's search finds a new subscription after a minute, in an outage after an hour.
const secondAfter = 7200

/** @param now the clock, in milliseconds since 1970 */
export function cancelForDeleted (
  { db, queue, tenants }: FastifyInstance,
  providers: ReadonlyMap<ProviderName, PaymentProvider>,
  now: () => number
): void {
  if (providers.size === 0) return
  queue.define(job, options, async ({ id, data }) => {
    const { tenant, deletedAt } = deletionOf(data)
    for (const provider of providers.values()) {
      for (const snapshot of await provider.subscriptions(tenant)) {
        const { status, endedAt, cancelAtPeriodEnd } = snapshot
        const isOver = status === 'canceled' || status === 'incomplete' || endedAt !== null || cancelAtPeriodEnd
        // A later tenant with the same id keeps its own subscriptions.
        if (isOver || snapshot.startedAt.getTime() > deletedAt) continue
        const { periodEnd } = await provider.cancel(snapshot.id, `${id}:${snapshot.id}`)
        await writeAudit(db, {
          tenant: platformRef,
          action: 'billing.subscription',
          actor: noActor,
          target: snapshot.id,
          details: { provider: provider.name, deletedTenant: tenant, cancelAtPeriodEnd: true, periodEnd: periodEnd.toISOString() },
          at: new Date(now())
        })
      }
    }
  })
  tenants.onRemoval(async (tenant, transaction) => {
    const sent = { tenant: platformRef, data: { tenant, deletedAt: now() } }
    await queue.send(job, sent, transaction)
    await queue.send(job, { ...sent, delay: secondAfter }, transaction)
  })
}

function deletionOf ({ tenant, deletedAt }: Job['data']): { tenant: Owner, deletedAt: number } {
  if (typeof tenant !== 'string' || typeof deletedAt !== 'number') throw new Error('not the data of this job')
  return { tenant: tenantRef(tenant), deletedAt }
}
