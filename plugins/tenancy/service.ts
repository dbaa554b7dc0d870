/** The management of tenants by the platform. */
import type { FastifyBaseLogger } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { type Actor, noActor, writeAudit } from '../../lib/database/audit.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { platformRef, type TenantId, tenantIdOf } from '../../lib/identity/tenant-ref.js'
import type { Plans } from '../../lib/plans/plans.js'
import { invalidInput } from '../../lib/validation/detail.js'
import type { TenancyParts } from './provisioning.js'
import type { TenantChanges, TenantList } from './store.js'
import type { Tenant, TenantRecord } from './tenant.js'

/** The type of `app.tenants`. Changes are written to the platform's audit log; the default actor is the server itself. */
export interface Tenants {
  /** The tenant, which may be suspended; null if it does not exist. Synchronous if it is cached. */
  get(id: string): Tenant | null | Promise<Tenant | null>
  /** A page by id, and the total that matches the filters. */
  list(list: TenantList): Promise<{ data: TenantRecord[], total: number }>
  /** Creates an active tenant. Throws `conflict` for a taken id, and `validationFailed` for an unknown plan. Default plan: `free`. */
  create(tenant: { id: string, name: string, plan?: string | undefined }, actor?: Actor): Promise<TenantRecord>
  /** Throws `tenantUnknown`, `conflict` if it is being deleted, and `validationFailed` for an unknown plan. */
  update(id: string, changes: TenantChanges, actor?: Actor): Promise<TenantRecord>
  /**
   * Removes the tenant and all its data. Throws `tenantUnknown`, and `conflict` if rows of others refer to its rows. If it fails
   * half-way, the tenant stays `deleting`: no request can use it. Another call continues, or a server does within the hour.
   */
  delete(id: string, actor?: Actor): Promise<void>
  /** Like `delete`, but resolves when every server refuses requests of the tenant; `ended` settles like `delete`. */
  beginDeletion(id: string, actor?: Actor): Promise<{ readonly ended: Promise<void> }>
  /** Continues deletions that have failed, or whose process has ended. */
  continueDeletions(): Promise<void>
  /** Called within the transaction that removes a tenant, to send a job for example. If a listener fails, the tenant stays `deleting`. */
  onRemoval(listener: RemovalListener): void
  /**
   * Called on the server that deletes a tenant, when its rows are gone, to remove data outside of tables, such as files. If a listener
   * fails, the tenant stays `deleting`, and the next attempt calls all of them again.
   */
  onDelete(listener: (tenant: TenantId) => void | Promise<void>): void
}

const maxContinued = 100 // deletions in a row

type RemovalListener = (tenant: TenantId, transaction: SystemTransaction) => Promise<unknown>

export function createTenants ({ store, memory, events, erasure }: TenancyParts, plans: Plans, log: FastifyBaseLogger): Tenants {
  const removalListeners: RemovalListener[] = []
  const listeners: ((tenant: TenantId) => void | Promise<void>)[] = []
  /** The deletions of this process. */
  const deletions = new Map<TenantId, Promise<void>>()

  /** Deletes the data of a closed tenant, and then the tenant. Calls for the same tenant share one deletion. */
  async function finish (id: TenantId, actor: Actor): Promise<void> {
    let deletion = deletions.get(id)
    if (deletion === undefined) {
      deletion = removeAll(id, actor).finally(() => deletions.delete(id))
      deletions.set(id, deletion)
    }
    await deletion
  }

  async function removeAll (id: TenantId, actor: Actor): Promise<void> {
    await erasure.erase(id)
    // While the tenant is `deleting`: a failed deletion is repeated, and no later tenant with the id has data yet.
    for (const listener of listeners) {
      if ((await store.read(id))?.status !== 'deleting') return
      try {
        await listener(id)
      } catch (err) {
        log.error({ err, tenant: id }, 'a listener for deleted tenants failed: the tenant stays closed')
        throw err
      }
    }
    await events.change({ topic: 'tenant', tenant: id }, async (transaction) => {
      // By this server's clock, which also dates the tokens that it issues, and not by the database's.
      const at = new Date()
      if (!await store.remove(transaction, id, at)) return
      await writeAudit(transaction, { tenant: platformRef, actor, target: id, action: 'tenant.delete', at })
      for (const listener of removalListeners) await listener(id, transaction)
    })
  }

  const service: Tenants = {
    get (id) {
      return whenKnown(memory.get(id), ({ tenant }) => tenant)
    },
    list: store.list,
    async create ({ id, name, plan = 'free' }, actor = noActor) {
      refuseUnknown(plans, plan)
      const tenant = tenantIdOf(id)
      const found = await store.find(tenant)
      if (found.tenant === null && found.deletedAt !== null) await erasure.sweep(tenant)
      return await events.change({ topic: 'tenant', tenant }, async (transaction) => {
        const created = await store.insert(transaction, { id: tenant, name, plan })
        if (created === null) throw failure('conflict', { message: 'There is already a tenant with this id' })
        await writeAudit(transaction, { tenant: platformRef, action: 'tenant.create', actor, target: id, details: { name, plan }, at: new Date() })
        return created
      })
    },
    async update (id: TenantId, changes, actor = noActor) {
      if (changes.plan !== undefined) refuseUnknown(plans, changes.plan)
      const updated = await events.change({ topic: 'tenant', tenant: id }, async (transaction) => {
        const record = await store.update(transaction, id, changes)
        if (record !== null) {
          await writeAudit(transaction, { tenant: platformRef, action: 'tenant.update', actor, target: id, details: { ...changes }, at: new Date() })
        }
        return record
      })
      if (updated !== null) return updated
      throw await store.read(id) === null ? failure('tenantUnknown') : failure('conflict', { message: 'The tenant is being deleted' })
    },
    async delete (id, actor) {
      await (await service.beginDeletion(id, actor)).ended
    },
    async beginDeletion (id: TenantId, actor = noActor) {
      // From here on every server refuses requests for the tenant.
      const closed = await events.change({ topic: 'tenant', tenant: id }, async (transaction) => {
        const done = await store.close(transaction, id)
        if (done) {
          const details = { status: 'deleting' }
          await writeAudit(transaction, { tenant: platformRef, actor, target: id, action: 'tenant.update', details, at: new Date() })
        }
        return done
      })
      if (!closed && await store.read(id) === null) throw failure('tenantUnknown')
      return { ended: finish(id, actor) }
    },
    async continueDeletions () {
      const errors: unknown[] = []
      for (const id of await store.deleting(maxContinued)) await finish(id, noActor).catch((error: unknown) => errors.push(error))
      if (errors.length === 0) return
      throw new AggregateError(errors, 'some tenants are still being deleted, since some of their data cannot be removed')
    },
    onRemoval (listener) {
      removalListeners.push(listener)
    },
    onDelete (listener) {
      listeners.push(listener)
    }
  }
  return service
}

function refuseUnknown ({ tiers }: Plans, plan: string): void {
  if (!tiers.includes(plan)) throw invalidInput('/body/plan', `must be one of ${tiers.join(', ')}`, 'enum')
}
