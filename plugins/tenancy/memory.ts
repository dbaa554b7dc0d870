/**
 * Tenants that this process remembers. Unknown ids are kept apart, few and for a short time: many of them push out only
 * each other.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Found } from './tenant.js'
import { failure, isFailure } from '../../lib/errors.js'
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'

const maxLookups = 1000
const lookupWeight = 16_777_216 // bytes
const lookupAge = 1000 // ms for which a missing tenant is remembered
// Of settings in memory for each character of their JSON, measured with objects of many short members; and of the rest.
const [bytesPerCharacter, bytesPerTenant] = [8, 1000]
const minWeight = 67_108_864 // bytes, however few tenants are remembered: room for a hundred with the largest settings
const shareOfTenant = 10_000 // bytes
const retryAfter = { 'retry-after': '1' } // s

export interface TenantMemory {
  /** At once where the id is remembered. */
  get(id: Owner): Found | Promise<Found>
  /** What the id names has changed. */
  forget(id: Owner): void
  clear(): void
}

/** @param max tenants remembered at most; fewer, where their settings together take more than 10 KB for each of them */
export function createTenantMemory (find: (id: Owner) => Promise<Found>, max: number, now?: () => number): TenantMemory {
  // Every load goes through here, so that several that ask for one id share it.
  const lookups = createAsyncCache<Found, Owner>({
    max: maxLookups,
    maxAgeMs: lookupAge,
    weight: { max: lookupWeight, of: weigh },
    load: (id) => find(id).catch(unmigrated),
    ...now !== undefined && { now }
  })
  const known = createAsyncCache<Found, Owner>({
    max,
    weight: { max: Math.max(minWeight, max * shareOfTenant), of: weigh },
    async load (id) {
      const found = await lookups.get(id)
      // It was there a moment ago.
      if (found.tenant === null) throw failure('tenantUnknown')
      return found
    }
  })

  function look (id: Owner): Found | Promise<Found> {
    const found = lookups.get(id)
    return whenKnown(found, (looked) => looked.tenant === null ? looked : known.get(id))
  }

  return {
    get: (id) => known.touch(id) ?? look(id),
    forget (id) {
      lookups.invalidate(id)
      known.invalidate(id)
    },
    clear () {
      lookups.clear()
      known.clear()
    }
  }
}

function weigh ({ characters }: Found): number {
  return bytesPerTenant + characters * bytesPerCharacter
}

/** The table of tenants is made by a migration. */
function unmigrated (error: unknown): never {
  if (isFailure(error, 'schemaChanged')) throw failure('migrationPending', { headers: retryAfter, cause: error })
  throw error
}
