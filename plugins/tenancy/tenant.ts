/**
 * A tenant, and the cache of tenants. Unknown ids have a separate, small cache with a short lifetime, so that many of them evict only
 * each other.
 */
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { ScopeTenant } from '../../lib/expressions/types.js'
import type { Owner, TenantId } from '../../lib/identity/tenant-ref.js'

/** `deleting`: its data is being removed, or was until the server stopped. */
export type TenantStatus = 'active' | 'suspended' | 'deleting'

/** A tenant in the management API. */
export interface TenantRecord {
  readonly id: TenantId
  readonly name: string
  /** The stored tier, which this server may lack: see `app.plans.of`. */
  readonly plan: string
  readonly status: TenantStatus
  readonly createdAt: Date
}

/** A tenant for requests. Deeply frozen, since requests share it. */
export interface Tenant extends TenantRecord, ScopeTenant {
  /** The `settings` of its current document; empty without one. */
  readonly config: Readonly<Record<string, unknown>>
}

/** The database's data for an id. */
export interface TenantLookup {
  readonly tenant: Tenant | null
  /** The time of the last deletion of a tenant with this id; null without one. */
  readonly deletedAt: Date | null
  /** The size of the JSON of its settings, which determines its size in the cache. */
  readonly characters: number
}

/** Throws `tenantSuspended` for a tenant that is suspended or being deleted. The platform's administrators can use suspended ones. */
export function requireActive ({ status }: TenantRecord, byPlatform = false): void {
  if (status === 'suspended' && !byPlatform) throw failure('tenantSuspended')
  if (status === 'deleting') throw failure('tenantSuspended', { message: 'The tenant is being deleted' })
}

const maxLookups = 1000
const lookupWeight = 16_777_216 // bytes
const lookupAge = 1000 // ms for which a missing tenant is cached
// Bytes in memory: for each character of the settings' JSON, measured with objects of many short members; and for the rest.
const [bytesPerCharacter, bytesPerTenant] = [8, 1000]
const minWeight = 67_108_864 // bytes, for any number of tenants: room for a hundred with the largest settings
const shareOfTenant = 10_000 // bytes
const retryAfter = { 'retry-after': '1' } // s

export type TenantMemory = ReturnType<typeof createTenantMemory>

/** @param max tenants at most; fewer if their settings take more than 10 KB each on average */
export function createTenantMemory (find: (id: Owner) => Promise<TenantLookup>, max: number, now?: () => number) {
  // All loads start here, so that concurrent loads of an id share one.
  const lookups = createAsyncCache<TenantLookup, Owner>({
    max: maxLookups,
    maxAgeMs: lookupAge,
    weight: { max: lookupWeight, of: weigh },
    load: (id) => find(id).catch(unmigrated),
    ...now !== undefined && { now }
  })
  const known = createAsyncCache<TenantLookup, Owner>({
    max,
    weight: { max: Math.max(minWeight, max * shareOfTenant), of: weigh },
    async load (id) {
      const found = await lookups.get(id)
      // The tenant was deleted in this moment.
      if (found.tenant === null) throw failure('tenantUnknown')
      return found
    }
  })

  function lookUp (id: Owner): TenantLookup | Promise<TenantLookup> {
    const found = lookups.get(id)
    return whenKnown(found, (lookup) => lookup.tenant === null ? lookup : known.get(id))
  }

  return {
    /** Synchronous if the id is cached. */
    get: (id: Owner): TenantLookup | Promise<TenantLookup> => known.touch(id) ?? lookUp(id),
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
  if (isFailure(error, 'schemaChanged')) throw failure('migrationPending', { headers: retryAfter, cause: error })
  throw error
}
