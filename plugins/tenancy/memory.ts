/** The tenants that this process has in memory. */
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import { failure, isFailure } from '../../lib/errors.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import type { TenantLookup } from './tenant.js'

const maxLookups = 1000
const lookupWeight = 16_777_216 // bytes
const lookupAge = 1000 // ms for which a missing tenant is cached
// Bytes in memory: for each character of the settings' JSON, measured with objects of many short members; and for the rest.
const [bytesPerCharacter, bytesPerTenant] = [8, 1000]
const minWeight = 67_108_864 // bytes, for any number of tenants: room for a hundred with the largest settings
const shareOfTenant = 10_000 // bytes

export type TenantMemory = ReturnType<typeof createTenantMemory>

/**
 * The cache of tenants. Unknown ids have a separate, small cache with a short lifetime, so that many of them evict only each other.
 *
 * @param max tenants at most; fewer if their settings take more than 10 KB each on average
 */
export function createTenantMemory (find: (id: Owner) => Promise<TenantLookup>, max: number, now?: () => number) {
  // All loads start here, so that concurrent loads of an id share one.
  const lookups = createAsyncCache<TenantLookup>({
    max: maxLookups,
    maxAgeMs: lookupAge,
    weight: { max: lookupWeight, of: weigh },
    load: (id) => find(tenantRef(id)).catch(unmigrated),
    ...now !== undefined && { now }
  })
  const known = createAsyncCache<TenantLookup>({
    max,
    weight: { max: Math.max(minWeight, max * shareOfTenant), of: weigh },
    async load (id) {
      const found = await lookups.get(id)
      // The tenant was deleted in this moment.
      if (found.tenant === null) throw failure('tenantUnknown')
      return found
    }
  })

  return {
    /** The tenant of any id that a caller names. Synchronous if the id is cached. */
    get: (id: string): TenantLookup | Promise<TenantLookup> =>
      known.touch(id) ?? whenKnown(lookups.get(id), (lookup) => lookup.tenant === null ? lookup : known.get(id)),
    /** Call it when the tenant of the id has changed. */
    forget (id: Owner): void {
      lookups.invalidate(id)
      known.invalidate(id)
    },
    clear (): void {
      lookups.clear()
      known.clear()
    }
  }
}

function weigh ({ characters }: TenantLookup): number {
  return bytesPerTenant + characters * bytesPerCharacter
}

/** Before its migration, the table of tenants does not exist. */
function unmigrated (error: unknown): never {
  if (isFailure(error, 'schemaChanged')) throw failure('migrationPending', { headers: { 'retry-after': '1' }, cause: error })
  throw error
}
