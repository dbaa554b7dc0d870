/**
 * A tenant's data is written only while the tenant exists and is not being deleted, so that a late write does not outlive it. The writes
 * take `for key share`, which lets changes of status and plan through. With `for share`, a tenant's long transactions could stop them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import { type Owner, platformRef, startOfLife, type TenantLife } from '../identity/tenant-ref.js'
import { databaseBusy } from './failures.js'
import type { SystemTables } from './system-tables.js'

const waitMs = 50 // ms between checks for transactions that have locked a tenant
const maxWaitMs = 30_000 // ms to wait for those transactions

/**
 * Locks the tenant until the transaction ends; false if it does not exist or is being deleted. The platform, the empty tenant,
 * always exists.
 *
 * @param how `shared`: prevents only the removal of the tenant; `alone`: transactions with this lock run one after the other
 * @param life false for a later tenant with the id too
 */
export async function lockTenant (
  transaction: Kysely<SystemTables>,
  tenant: Owner,
  how: 'shared' | 'alone',
  life?: TenantLife
): Promise<boolean> {
  if (tenant === platformRef) return true
  const present = presentTenant(transaction, tenant)
  const found = await (how === 'shared' ? present.forKeyShare() : present.forNoKeyUpdate()).executeTakeFirst()
  return found !== undefined && (life === undefined || found.created_at.getTime() === startOfLife(life))
}

/** Whether the tenant exists now, and is not being deleted. */
export async function hasTenant (db: Kysely<SystemTables>, tenant: Owner): Promise<boolean> {
  return await presentTenant(db, tenant).executeTakeFirst() !== undefined
}

/**
 * Waits for the transactions that have locked the tenant. Once it is being deleted, only transactions with an earlier snapshot can still
 * lock it: those with `repeatable read` or `serializable`. The wait holds no connection. Throws `databaseBusy` after 30 s.
 *
 * @param signal ends the wait
 */
export async function waitForWrites (db: Kysely<SystemTables>, tenant: Owner, signal?: AbortSignal): Promise<void> {
  const end = performance.now() + maxWaitMs
  while (await isLocked(db, tenant)) {
    if (performance.now() > end) throw databaseBusy()
    await sleep(waitMs)
    signal?.throwIfAborted()
  }
}

async function isLocked (db: Kysely<SystemTables>, tenant: Owner): Promise<boolean> {
  const found = db.selectFrom('tenantry.tenants').select('id').where('id', '=', tenant)
  if (await found.forUpdate().skipLocked().executeTakeFirst() !== undefined) return false
  return await found.executeTakeFirst() !== undefined
}

function presentTenant (db: Kysely<SystemTables>, tenant: Owner) {
  return db.selectFrom('tenantry.tenants').select('created_at').where('id', '=', tenant).where('status', '!=', 'deleting')
}
