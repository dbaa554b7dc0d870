/** Queues long-running work that arrives in bursts. At most `max` run at once, and waiting tenants take turns. */
import type { TenantRef } from '../identity/tenant-ref.js'
import { type Account, FairSemaphore } from './fair-semaphore.js'
import { KeyCounts } from './key-counts.js'

export interface WorkQueueOptions {
  /** Pieces of work at once. */
  readonly max: number
  /** Waiting pieces of all tenants. The first of a tenant may always wait, so that other tenants cannot block it. */
  readonly maxWaiting: number
  readonly maxWaitingOfTenant: number
  /** The longest wait. */
  readonly timeoutMs: number
  /** The error if too many wait, or a wait takes too long. */
  readonly busy: () => Error
}

export function createWorkQueue ({ max, maxWaiting, maxWaitingOfTenant, timeoutMs, busy }: WorkQueueOptions) {
  const gate = new FairSemaphore(max, timeoutMs, { keepsFree: false })
  const waiting = new KeyCounts<TenantRef>()

  function enter (tenant: TenantRef): Promise<Account> {
    const ahead = waiting.of(tenant)
    if (ahead >= maxWaitingOfTenant || (ahead > 0 && gate.waiting >= maxWaiting)) throw busy()
    waiting.add(tenant, 1)
    return new Promise((resolve, reject) => {
      gate.acquire(tenant, (account) => {
        waiting.add(tenant, -1)
        resolve(account)
      }, () => {
        waiting.add(tenant, -1)
        reject(busy())
      })
    })
  }

  return {
    async run<T> (tenant: TenantRef, work: () => Promise<T>): Promise<T> {
      const account = await enter(tenant)
      try {
        return await work()
      } finally {
        gate.release(account)
      }
    },
    /** Refuses all waiting work. */
    close: () => gate.close()
  }
}
