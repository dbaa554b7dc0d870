/**
 * How many requests wait for tenants' payment providers at a time. A provider that is slow for one tenant holds that
 * tenant's places and no others: neither connections nor memory run out for the rest.
 */
import { failure, type TenantryError } from '../../lib/errors.js'
import { FairGate } from '../../lib/fair-gate.js'

const maxOfTenant = 10
const maxInAll = 100
const maxWait = 2000 // ms for a place while all are taken
const retryAfter = 1 // s

export interface Places {
  /**
   * Runs the work in a place of the tenant. Throws `rateLimited` where the tenant has ten requests under way, and
   * `providerBusy` where no place became free in two seconds.
   */
  run<T> (tenant: string, work: () => Promise<T>): Promise<T>
  /** Whoever waits for a place is refused. */
  close (): void
}

export function createPlaces (): Places {
  const gate = new FairGate(maxInAll, maxWait)
  const under = new Map<string, number>()

  function leave (tenant: string): void {
    const left = (under.get(tenant) ?? 0) - 1
    if (left > 0) under.set(tenant, left)
    else under.delete(tenant)
  }

  return {
    async run (tenant, work) {
      const before = under.get(tenant) ?? 0
      if (before >= maxOfTenant) throw tooManyOfTenant()
      under.set(tenant, before + 1)
      try {
        return await gate.run(tenant, tooManyInAll, work)
      } finally {
        leave(tenant)
      }
    },
    close: () => gate.close()
  }
}

function tooManyOfTenant (): TenantryError {
  return failure('rateLimited', { message: `At most ${maxOfTenant} requests of a tenant wait for its payment provider at a time: try again when one of them is answered`, ...later })
}

function tooManyInAll (): TenantryError {
  return failure('providerBusy', { message: 'Too many requests wait for payment providers; try again', ...later })
}

const later = { extras: { retryAfter }, headers: { 'retry-after': String(retryAfter) } }
