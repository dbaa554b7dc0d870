/** Limits how many requests wait for other services: a slow service occupies only its tenant's share of places, connections and memory. */
import { isTenant, type TenantRef, withoutToken } from '../identity/tenant-ref.js'
import { FairSemaphore } from './fair-semaphore.js'
import { KeyCounts } from './key-counts.js'

const defaultWait = 2000 // ms of waiting for a place

export interface TenantLimiterOptions {
  /** Running and waiting calls of one tenant. Callers without a tenant are limited by `maxInAll` only. */
  readonly maxOfTenant: number
  /** Running and waiting calls of an address without a token, of all tenants. Default: `maxOfTenant`. */
  readonly maxOfAddress?: number
  /** Calls of an address without a token that run or have a turn, of all tenants; further ones wait for its own. Default: all. */
  readonly maxRunningOfAddress?: number
  /** Running calls of one tenant; further ones wait for its own. Default: as many as fairness allows. */
  readonly maxRunningOfTenant?: number
  readonly maxInAll: number
  /** The error if the tenant, or the address, already has that many. */
  readonly tooManyOfTenant: () => Error
  /** The error if no place became free in time. */
  readonly tooManyInAll: () => Error
  /** Milliseconds to wait for a place. Default: 2,000. */
  readonly maxWait?: number
}

export type TenantLimiter = ReturnType<typeof createTenantLimiter>

export function createTenantLimiter (options: TenantLimiterOptions) {
  const { maxOfTenant, maxInAll, tooManyOfTenant, tooManyInAll, maxWait = defaultWait } = options
  const { maxOfAddress = maxOfTenant, maxRunningOfTenant = maxOfTenant, maxRunningOfAddress } = options
  const gate = new FairSemaphore<TenantRef>(maxInAll, maxWait, { maxOf: (ref) => isTenant(ref) ? maxRunningOfTenant : maxInAll })
  const addressGate = maxRunningOfAddress === undefined
    ? null
    : new FairSemaphore<string>(Infinity, maxWait, { keepsFree: false, maxOf: () => maxRunningOfAddress })
  const pending = new KeyCounts<TenantRef>()
  const pendingOfAddress = new KeyCounts<string>()

  async function runWithoutToken<T> (tenant: TenantRef, work: () => Promise<T>, address: string): Promise<T> {
    // They have their own turns and half of the tenant's places, so that its own callers have the rest.
    const account = withoutToken(tenant)
    if (pendingOfAddress.of(address) >= maxOfAddress || pending.of(account) >= maxOfTenant / 2) throw tooManyOfTenant()
    pendingOfAddress.add(address, 1)
    pending.add(account, 1)
    try {
      const run = () => gate.run(account, tooManyInAll, work)
      return await (addressGate === null ? run() : addressGate.run(address, tooManyInAll, run))
    } finally {
      pending.add(account, -1)
      pendingOfAddress.add(address, -1)
    }
  }

  return {
    /** Runs the work in a place of the tenant. `address`: of a caller without a token. */
    async run<T> (tenant: TenantRef, work: () => Promise<T>, address?: string): Promise<T> {
      if (isTenant(tenant) && pending.of(tenant) >= maxOfTenant) throw tooManyOfTenant()
      pending.add(tenant, 1)
      try {
        return await (address === undefined ? gate.run(tenant, tooManyInAll, work) : runWithoutToken(tenant, work, address))
      } finally {
        pending.add(tenant, -1)
      }
    },
    /** Refuses callers that wait for a place. */
    close () {
      addressGate?.close()
      gate.close()
    }
  }
}
