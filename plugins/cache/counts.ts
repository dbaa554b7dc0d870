/** Hits and misses of this process, for the tenants used last. */
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import { type CacheStats, everyTenant } from '../../lib/cache/store.js'

const maxTenants = 10_000

type Count = Pick<{ -readonly [Member in keyof CacheStats]: CacheStats[Member] }, 'hits' | 'misses'>

export function createCounts () {
  const all: Count = { hits: 0, misses: 0 }
  const tenants = new LRUCache<string, Count>(lruOptions(maxTenants))

  function countOf (tenant: string): Count {
    let count = tenants.get(tenant)
    if (count === undefined) tenants.set(tenant, count = { hits: 0, misses: 0 })
    return count
  }

  return {
    hit (tenant: string): void {
      all.hits++
      countOf(tenant).hits++
    },
    miss (tenant: string): void {
      all.misses++
      countOf(tenant).misses++
    },
    /** The counts of one tenant, or of all. */
    of: (tenant: string): Readonly<Count> => tenant === everyTenant ? all : tenants.peek(tenant) ?? { hits: 0, misses: 0 }
  }
}
