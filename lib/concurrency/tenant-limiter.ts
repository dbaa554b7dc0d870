/** Limits how many requests wait for other services: a slow service occupies only its tenant's share of places, connections and memory. */
import { isTenant, type TenantRef } from '../identity/tenant-ref.js'
import { FairSemaphore } from './fair-semaphore.js'
import { KeyCounts } from './key-counts.js'

const defaultWait = 2000 // ms of waiting for a place

export interface TenantLimiterOptions {
  /** Running and waiting calls of one tenant. Callers without a tenant are limited by `maxInAll` only. */
  readonly maxOfTenant: number
  /** Running calls of one tenant; further ones wait for its own. Default: as many as fairness allows. */
  readonly maxRunningOfTenant?: number
  readonly maxInAll: number
  /** The error if the tenant already has that many. */
  readonly tooManyOfTenant: () => Error
  /** The error if no place became free in time. */
  readonly tooManyInAll: () => Error
  /** Milliseconds to wait for a place. Default: 2,000. */
  readonly maxWait?: number
}

export type TenantLimiter = ReturnType<typeof createTenantLimiter>

export function createTenantLimiter (
  { maxOfTenant, maxRunningOfTenant = maxOfTenant, maxInAll, tooManyOfTenant, tooManyInAll, maxWait = defaultWait }: TenantLimiterOptions
) {
  const gate = new FairSemaphore<TenantRef>(maxInAll, maxWait, { maxOf: (ref) => isTenant(ref) ? maxRunningOfTenant : maxInAll })
  const pending = new KeyCounts<TenantRef>()

  return {
    /** Runs the work in a place of the tenant. */
    async run<T> (tenant: TenantRef, work: () => Promise<T>): Promise<T> {
      if (isTenant(tenant) && pending.of(tenant) >= maxOfTenant) throw tooManyOfTenant()
      pending.add(tenant, 1)
      try {
        return await gate.run(tenant, tooManyInAll, work)
      } finally {
        pending.add(tenant, -1)
      }
    },
    /** Refuses callers that wait for a place. */
    close: () => gate.close()
  }
}
