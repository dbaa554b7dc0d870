/**
 * Limits the results that the requests of a tenant keep in memory, or the bodies of its calls to other services. Requests keep them while
 * they wait for a statement, for another service, or for the next attempt.
 */
import { failure, retryIn } from '../errors.js'
import type { TenantRef } from '../identity/tenant-ref.js'
import { KeyCounts } from './key-counts.js'

const maxOfTenant = 67_108_864 // bytes
const maxInAll = 4 * maxOfTenant
const parsed = 4 // bytes for each character of JSON: records take two to four, lists of empty objects eight
const retryAfter = 1 // s

/** The results of one request. */
export interface HeldResults {
  /** Counts a JSON text of this length. */
  text(length: number): void
  /** Counts the parsed value of such a text. */
  value(length: number): void
  /** The text is no longer in memory. */
  drop(length: number): void
  /**
   * Throws `responsesBusy` if the requests of the tenant keep too much. The results of one request have a bound, so a tenant's only request
   * with results always has room.
   */
  requireRoom(): void
  /** The request has ended. */
  release(): void
}

export interface ResultMemory {
  /** The bytes of all requests. */
  readonly bytes: number
  hold(tenant: TenantRef): HeldResults
}

export function createResultMemory (): ResultMemory {
  const byTenant = new KeyCounts<TenantRef>()
  let total = 0

  return {
    get bytes () {
      return total
    },
    hold (tenant) {
      let own = 0
      const add = (bytes: number): void => {
        byTenant.add(tenant, bytes)
        own += bytes
        total += bytes
      }
      return {
        text: add,
        value: (length) => add(length * parsed),
        drop: (length) => add(-length),
        requireRoom () {
          const ofTenant = byTenant.of(tenant)
          // Beyond the total only tenants with more than an equal share are refused: many tenants together cannot shut out another.
          if (ofTenant !== own && (ofTenant > maxOfTenant || (total > maxInAll && ofTenant * byTenant.size > maxInAll))) throw busy()
        },
        release: () => add(-own)
      }
    }
  }
}

function busy (): Error {
  return failure('responsesBusy', {
    message: 'Other requests of this tenant keep too much data in memory: try again when they have ended',
    ...retryIn(retryAfter)
  })
}
