/** A tenant's data is written only while the tenant exists and is not being deleted, so that a late write does not outlive it. */
import type { Kysely } from 'kysely'
import { type Owner, platformRef } from '../identity/tenant-ref.js'
import type { SystemTables } from './system-tables.js'

/**
 * Locks the tenant until the transaction ends; false if it does not exist or is being deleted. The platform, the empty tenant,
 * always exists.
 *
 * @param how `shared`: other shared locks are possible; `alone`: no other lock is, so that writes happen one after the other
 */
export async function lockTenant (transaction: Kysely<SystemTables>, tenant: Owner, how: 'shared' | 'alone'): Promise<boolean> {
  if (tenant === platformRef) return true
  const present = presentTenant(transaction, tenant)
  return await (how === 'shared' ? present.forShare() : present.forNoKeyUpdate()).executeTakeFirst() !== undefined
}

/** Whether the tenant exists now, and is not being deleted. */
export async function hasTenant (db: Kysely<SystemTables>, tenant: Owner): Promise<boolean> {
  return await presentTenant(db, tenant).executeTakeFirst() !== undefined
}

function presentTenant (db: Kysely<SystemTables>, tenant: Owner) {
  return db.selectFrom('tenantry.tenants').select('id').where('id', '=', tenant).where('status', '!=', 'deleting')
}
