/** The cache in this process: least recently used first out, bounded by items and by bytes. */
import { LRUCache } from 'lru-cache'
import type { CacheBounds, CacheStats, CacheStore, TableUse, Warn } from '../../lib/cache/store.js'
import { capacityOf, everyTenant } from '../../lib/cache/store.js'
import { createCounts } from './counts.js'

const bytesPerCharacter = 2 // V8 stores text outside Latin-1 in two bytes a character; the bound must cover it
const bytesPerItem = 200 // the entry itself, in the LRU list and in its tenant's set
const maxTables = 100 // of a tenant with their own stamp; tenants choose the names of their collections
const maxSharedTables = 10_000

export interface MemoryCacheOptions extends CacheBounds {
  readonly warn?: Warn | undefined
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/** The share of one tenant. The set is in the order of use, the least recent first. */
interface Share {
  readonly ids: Set<string>
  /** By table, the write counter at its last write. */
  readonly written: Map<string, number>
  /** Values of the tenant from before this count are not found. */
  floor: number
  bytes: number
}

const nothing: readonly TableUse[] = []

/**
 * In a full cache, a tenant with more than its even share makes room among its own items, and any other among all, in both cases beginning
 * with the least recently used: a tenant that fills the cache cannot displace the items of others.
 */
export function createMemoryCache ({ warn, now, ...bounds }: MemoryCacheOptions = {}): CacheStore {
  const { maxSize, maxBytes } = capacityOf(bounds)
  const counts = createCounts()
  const shares = new Map<string, Share>()
  const items = new LRUCache<string, { readonly value: string, readonly stamp: number, readonly share: Share }>({
    // The list allocates `max` items at once: it is no longer than the memory allows.
    max: Math.min(maxSize, Math.ceil(maxBytes / bytesPerItem)),
    maxSize: maxBytes,
    sizeCalculation: ({ value }, id) => bytesOf(id, value),
    ttlResolution: 0,
    ...(now !== undefined && { perf: { now } }),
    dispose: ({ value, share }, id) => {
      share.ids.delete(id)
      share.bytes -= bytesOf(id, value)
      if (share.ids.size === 0) owners--
    }
  })
  let owners = 0 // tenants with an item
  let writes = 0 // a logical clock
  let floor = 0 // like that of a share, for all of them
  const shared = new Map<string, number>() // like `written` of a share, for tables without tenants

  function shareOf (tenant: string): Share {
    let share = shares.get(tenant)
    if (share === undefined) {
      forgetEmptyShares()
      // The share may have existed before: writes since then are unknown.
      share = { ids: new Set(), written: new Map(), floor: writes, bytes: 0 }
      shares.set(tenant, share)
    }
    return share
  }

  /** Empty shares of tenants are dropped when there are more of them than possible items, and not at each new one. */
  function forgetEmptyShares (): void {
    if (shares.size < 2 * maxSize) return
    for (const [tenant, share] of shares) {
      if (share.ids.size === 0) shares.delete(tenant)
    }
  }

  /** The write counter at the last write to one of the tables. */
  function stampOf (share: Share, reads: readonly TableUse[]): number {
    let stamp = share.floor > floor ? share.floor : floor
    for (const { table, scoped } of reads) {
      const written = (scoped ? share.written : shared).get(table)
      if (written !== undefined && written > stamp) stamp = written
    }
    return stamp
  }

  function evict (share: Share, bytes: number): void {
    for (const oldest of share.ids) {
      const full = items.size >= maxSize || items.calculatedSize + bytes > maxBytes
      const greedy = owners > 1 && (share.ids.size >= maxSize / owners || share.bytes + bytes > maxBytes / owners)
      if (!full || !greedy) return
      items.delete(oldest)
    }
  }

  return {
    provider: 'memory',
    shared: false,
    get (tenant, key, reads = nothing) {
      const id = idOf(tenant, key)
      const item = items.get(id)
      const share = item?.share ?? shareOf(tenant)
      const stamp = stampOf(share, reads)
      if (item === undefined || item.stamp !== stamp) {
        if (item !== undefined) items.delete(id)
        counts.miss(tenant)
        return { stamp }
      }
      counts.hit(tenant)
      share.ids.delete(id)
      share.ids.add(id)
      return item.value
    },
    set (tenant, key, value, ttlMs, stamp) {
      const share = shareOf(tenant)
      const id = idOf(tenant, key)
      const bytes = bytesOf(id, value)
      if (bytes > maxBytes) {
        items.delete(id)
        warn?.('it is larger than the cache')
        return
      }
      const under = typeof stamp === 'number' ? stamp : stampOf(share, nothing)
      const held = items.peek(id)
      // An earlier computation may end later.
      if (held !== undefined && held.stamp > under) return
      // A replacement may be larger: the list would make room for it among the items of all tenants.
      if (held !== undefined) items.delete(id)
      evict(share, bytes)
      items.set(id, { value, stamp: under, share }, { ttl: ttlMs })
      share.ids.add(id)
      share.bytes += bytes
      if (share.ids.size === 1) owners++
    },
    invalidate (tenant, tables) {
      writes++
      for (const { table, scoped } of tables) {
        if (!scoped) {
          shared.set(table, writes)
          continue
        }
        // A tenant without a share has no values.
        const share = shares.get(tenant)
        share?.written.set(table, writes)
        if (share === undefined || share.written.size <= maxTables) continue
        share.written.clear()
        share.floor = writes
      }
      if (shared.size <= maxSharedTables) return
      shared.clear()
      floor = writes
    },
    delete (tenant, key) {
      const id = idOf(tenant, key)
      const isThere = items.has(id)
      items.delete(id)
      return isThere
    },
    clear (tenant) {
      writes++
      const share = shares.get(tenant)
      if (tenant === everyTenant) floor = writes
      else if (share !== undefined) share.floor = writes
      const ids = tenant === everyTenant ? [...items.keys()] : [...share?.ids ?? []]
      for (const id of ids) items.delete(id)
      return ids.length
    },
    keys (tenant, limit = 1000) {
      items.purgeStale()
      const found: string[] = []
      for (const id of shares.get(tenant)?.ids ?? []) {
        if (found.length >= limit) break
        found.push(id.slice(tenant.length + 1))
      }
      return found
    },
    stats (tenant): CacheStats {
      items.purgeStale()
      if (tenant === everyTenant) return { items: items.size, bytes: items.calculatedSize, ...counts.of(tenant) }
      const share = shares.get(tenant)
      return { items: share?.ids.size ?? 0, bytes: share?.bytes ?? 0, ...counts.of(tenant) }
    },
    ping () {},
    close () {
      items.clear()
      shares.clear()
    }
  }
}

/** No tenant id contains a colon, so pairs of tenant and key have distinct ids. */
function idOf (tenant: string, key: string): string {
  return `${tenant}:${key}`
}

function bytesOf (id: string, value: string): number {
  return bytesPerItem + (2 * id.length + value.length) * bytesPerCharacter
}
