/** Limits the results that requests of a tenant keep in memory while they wait, and the bodies of its calls to other services. */
import { failure, retryIn } from '../errors.js'
import type { TenantRef } from '../identity/tenant-ref.js'
import { KeyCounts } from './key-counts.js'

const maxOfTenant = 67_108_864 // bytes
const maxInAll = 4 * maxOfTenant
const parsed = 4 // bytes for each character of JSON: records take two to four, lists of empty objects eight
const retryAfter = 1 // s

export type ResultMemory = ReturnType<typeof createResultMemory>
/** The results of one request. */
export type HeldResults = ReturnType<ResultMemory['hold']>

export function createResultMemory () {
  const byTenant = new KeyCounts<TenantRef>()

  return {
    /** The bytes of all requests. */
    get bytes () {
      return byTenant.total
    },
    hold (tenant: TenantRef) {
      let own = 0
      const add = (bytes: number): void => {
        byTenant.add(tenant, bytes)
        own += bytes
      }
      return {
        /** Counts a JSON text of this length. */
        text: add,
        /** Counts the parsed value of such a text. */
        value: (length: number) => add(length * parsed),
        /** The text is no longer in memory. */
        drop: (length: number) => add(-length),
        /** Throws `responsesBusy` if the tenant's requests keep too much. Its only request with results always has room. */
        requireRoom (): void {
          if (byTenant.of(tenant) !== own && byTenant.exceedsShare(tenant, maxOfTenant, maxInAll)) throw busy()
        },
        /** The request has ended. */
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
