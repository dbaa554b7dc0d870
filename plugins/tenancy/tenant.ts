/** A tenant. */
import type { TenantId } from '../../lib/identity/tenant-ref.js'
import type { ScopeTenant } from '../../lib/expressions/types.js'
import { failure } from '../../lib/errors.js'

/** `deleting`: what it owns is being removed, or was until the server stopped. */
export type TenantStatus = 'active' | 'suspended' | 'deleting'

/** A tenant as the platform manages it. */
export interface TenantRecord {
  readonly id: TenantId
  readonly name: string
  /** The tier, as it is stored: this server may not know it, see `app.plans.of`. */
  readonly plan: string
  readonly status: TenantStatus
  readonly createdAt: Date
}

/** A tenant as requests see it; frozen throughout, since they share it. */
export interface Tenant extends TenantRecord, ScopeTenant {
  /** The `settings` of its document in force; empty without one. */
  readonly config: Readonly<Record<string, unknown>>
}

/** What the database says of an id. */
export interface Found {
  readonly tenant: Tenant | null
  /** When a tenant of this id was deleted last; null where none ever was. */
  readonly deletedAt: Date | null
  /** Of the JSON of its settings: what it takes to remember it. */
  readonly characters: number
}

/** Throws `tenantSuspended` for a tenant that is suspended, or is being deleted. The platform's administrator reaches suspended ones. */
export function requireActive ({ status }: TenantRecord, byPlatform = false): void {
  if (status === 'suspended' && !byPlatform) throw failure('tenantSuspended')
  if (status === 'deleting') throw failure('tenantSuspended', { message: 'The tenant is being deleted' })
}
