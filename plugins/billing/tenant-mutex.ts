/**
 * One piece of work at a time for each tenant, on this server. Work that locks a tenant in the database goes through here: otherwise many
 * would wait for one another with a connection each, and leave none to the other tenants.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { databaseBusy } from '../../lib/database/failures.js'
import { FairSemaphore } from '../../lib/concurrency/fair-semaphore.js'

const waitMs = 5000 // for the turn

/** Runs the work in the tenant's turn. Rejects with `databaseBusy` after a timeout. */
export type TenantMutex = <T>(tenant: Owner, work: () => Promise<T>) => Promise<T>

export function createTenantMutex (): TenantMutex {
  const lines = new Map<string, { readonly gate: FairSemaphore, length: number }>()
  return async (tenant, work) => {
    const line = lines.get(tenant) ?? { gate: new FairSemaphore(1, waitMs, false), length: 0 }
    lines.set(tenant, line)
    line.length++
    try {
      return await line.gate.run(tenant, databaseBusy, work)
    } finally {
      if (--line.length === 0) lines.delete(tenant)
    }
  }
}
