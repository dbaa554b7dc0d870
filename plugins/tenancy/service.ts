/** What `app.tenants` is. */
import type { Events } from '../../lib/database/events.js'
import type { Plans } from '../../lib/plans.js'
import type { Erasure } from './erasure.js'
import type { TenantMemory } from './memory.js'
import type { TenantChanges, TenantStore } from './store.js'
import type { Tenant, TenantRecord } from './tenant.js'
import { failure } from '../../lib/errors.js'

export interface Tenants {
  /** The tenant, at once where it is remembered; null where there is none. It may be suspended. */
  get (id: string): Tenant | null | Promise<Tenant | null>
  /** A page in the order of ids, and how many there are in all. */
  list (page: { limit: number, offset: number }): Promise<{ data: TenantRecord[], total: number }>
  /** Makes an active tenant. `conflict` where there is one of this id, `validationFailed` without such a plan. Default plan: `free`. */
  create (tenant: { id: string, name: string, plan?: string | undefined }): Promise<TenantRecord>
  /** `tenantUnknown`; `conflict` where it is being deleted; `validationFailed` without such a plan. */
  update (id: string, changes: TenantChanges): Promise<TenantRecord>
  /**
   * Removes the tenant and all that it owns. `tenantUnknown`; `conflict` where rows that are not the tenant's refer to
   * rows of it. Where it ends half-way the tenant stays `deleting`, served to nobody, and another call carries on.
   */
  delete (id: string): Promise<void>
  /** Calls back, on the server that deleted it, for what is in no table: files, say. */
  onDelete (listener: (tenant: string) => void | Promise<void>): void
}

export interface TenantsParts {
  readonly store: TenantStore
  readonly plans: Plans
  readonly memory: TenantMemory
  readonly events: Events
  readonly erasure: Erasure
  /** Told about an `onDelete` listener that failed. */
  readonly warn: (error: unknown, message: string) => void
}

export function createTenants ({ store, plans, memory, events, erasure, warn }: TenantsParts): Tenants {
  const listeners: ((tenant: string) => void | Promise<void>)[] = []

  return {
    get (id) {
      const found = memory.get(id)
      return found instanceof Promise ? found.then(({ tenant }) => tenant) : found.tenant
    },
    list: (page) => store.list(page),
    async create ({ id, name, plan = 'free' }) {
      refuseUnknown(plans, plan)
      const found = await store.find(id)
      if (found.tenant === null && found.deletedAt !== null) await erasure.sweep(id)
      return await events.change({ topic: 'tenant', tenant: id }, async (transaction) => {
        const created = await store.insert(transaction, { id, name, plan })
        if (created === null) throw failure('conflict', { message: 'There is a tenant of this id already' })
        return created
      })
    },
    async update (id, changes) {
      if (changes.plan !== undefined) refuseUnknown(plans, changes.plan)
      const updated = await events.change({ topic: 'tenant', tenant: id }, (transaction) => store.update(transaction, id, changes))
      if (updated !== null) return updated
      throw await store.read(id) === null ? failure('tenantUnknown') : failure('conflict', { message: 'The tenant is being deleted' })
    },
    async delete (id) {
      const notice = { topic: 'tenant', tenant: id } as const
      // From here on every server refuses what is done in its name.
      if (!await events.change(notice, (transaction) => store.close(transaction, id))) throw failure('tenantUnknown')
      await erasure.erase(id)
      // By the clock of this server, which is that of the tokens that it issues, and not by the database's.
      await events.change(notice, (transaction) => store.remove(transaction, id, new Date()))
      for (const listener of listeners) {
        try {
          await listener(id)
        } catch (error) {
          warn(error, 'a listener for deleted tenants failed')
        }
      }
    },
    onDelete (listener) { listeners.push(listener) }
  }
}

function refuseUnknown ({ tiers }: Plans, plan: string): void {
  if (!tiers.includes(plan)) throw failure('validationFailed', { extras: { details: [{ path: '/body/plan', message: `must be one of ${tiers.join(', ')}`, keyword: 'enum' }] } })
}
