/** A tenant, in the database and for requests. */
import { whenKnown } from '../../lib/cache/async-cache.js'
import { failure } from '../../lib/errors.js'
import type { ScopeTenant } from '../../lib/expressions/types.js'
import type { TenantId, TenantLife } from '../../lib/identity/tenant-ref.js'

/** `deleting`: its data is being removed, or was until the server stopped. */
export type TenantStatus = 'active' | 'suspended' | 'deleting'

/** A tenant in the management API. */
export interface TenantRecord {
  readonly id: TenantId
  readonly name: string
  /** The stored tier, which this server may lack: see `app.plans.of`. */
  readonly plan: string
  readonly status: TenantStatus
  readonly createdAt: Date
}

/** A tenant for requests. Deeply frozen, since requests share it. */
export interface Tenant extends TenantRecord, ScopeTenant {
  /** The `settings` of its current document; empty without one. */
  readonly config: Readonly<Record<string, unknown>>
}

/** The database's data for an id. */
export interface TenantLookup {
  readonly tenant: Tenant | null
  /** The time of the last deletion of a tenant with this id; null without one. */
  readonly deletedAt: Date | null
  /** The size of the JSON of its settings, which determines its size in the cache. */
  readonly characters: number
}

/** Throws `tenantSuspended` for a tenant that is suspended or being deleted. The platform's administrators can use suspended ones. */
export function requireActive ({ status }: TenantRecord, { byPlatform = false } = {}): void {
  if (status === 'suspended' && !byPlatform) throw failure('tenantSuspended')
  if (status === 'deleting') throw failure('tenantSuspended', { message: 'The tenant is being deleted' })
}

/** `app.tenants`, for one tenant. */
export interface FindsTenants {
  get(id: string): Tenant | null | Promise<Tenant | null>
}

/**
 * For long work, before it reads or writes data of its tenant. Throws, or rejects with, `tenantUnknown` if the tenant was deleted, even if
 * a later tenant has its id. Synchronous if the tenant is cached.
 */
export function requireSameLife (
  tenants: FindsTenants,
  { id, life }: { readonly id: string, readonly life: TenantLife }
): void | Promise<void> {
  return whenKnown(tenants.get(id), (found) => {
    if (found?.life !== life || found.status === 'deleting') throw failure('tenantUnknown')
  })
}

/** The tenant of the id, which has this life if one is given. Rejects with `tenantUnknown` without it, also while it is deleted. */
export async function presentTenant (tenants: FindsTenants, id: string, life?: TenantLife): Promise<Tenant> {
  const found = await tenants.get(id)
  if (found === null || found.status === 'deleting' || (life !== undefined && found.life !== life)) throw failure('tenantUnknown')
  return found
}
