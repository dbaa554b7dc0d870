/** Long work that may arrive in floods: a limited number at once, the rest in turns, one for each tenant. */
import type { TenantRef } from '../identity/tenant-ref.js'
import { type Account, FairSemaphore } from './fair-semaphore.js'

export interface TurnsOptions {
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

export interface Turns {
  run<T>(tenant: TenantRef, work: () => Promise<T>): Promise<T>
  /** Refuses all waiting work. */
  close(): void
}

export function createTurns ({ max, maxWaiting, maxWaitingOfTenant, timeoutMs, busy }: TurnsOptions): Turns {
  const gate = new FairSemaphore(max, timeoutMs, false)
  const waiting = new Map<TenantRef, number>()

  function enter (tenant: TenantRef): Promise<Account> {
    const ahead = waiting.get(tenant) ?? 0
    if (ahead >= maxWaitingOfTenant || (ahead > 0 && gate.waiting >= maxWaiting)) throw busy()
    waiting.set(tenant, ahead + 1)
    return new Promise((resolve, reject) => {
      gate.acquire(tenant, (account) => {
        stopWaiting(tenant)
        resolve(account)
      }, () => {
        stopWaiting(tenant)
        reject(busy())
      })
    })
  }

  function stopWaiting (tenant: TenantRef): void {
    const left = (waiting.get(tenant) ?? 0) - 1
    if (left > 0) waiting.set(tenant, left)
    else waiting.delete(tenant)
  }

  return {
    async run (tenant, work) {
      const account = await enter(tenant)
      try {
        return await work()
      } finally {
        gate.release(account)
      }
    },
    close: () => gate.close()
  }
}
