/** The cache in this process: least recently used out first, bounded by items and by bytes. */
import type { CacheStats, CacheStore } from './store.js'
import { LRUCache } from 'lru-cache'
import { everyTenant } from './store.js'

const bytesPerCharacter = 2 // V8 keeps text outside Latin-1 in two bytes a character; the bound must hold for it
const bytesPerItem = 200 // the entry itself, in the LRU list and in its tenant's set

export interface MemoryCacheOptions {
  /** Items at most, over all tenants. Default: 10,000. */
  readonly maxSize?: number | undefined
  /** Megabytes (1,048,576 bytes) at most, keys and values together. Default: 64. */
  readonly maxMemoryMB?: number | undefined
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

/** What one tenant holds. The set is in the order of use, the least recent first. */
interface Share {
  readonly ids: Set<string>
  bytes: number
  hits: number
  misses: number
}

interface Item {
  readonly value: string
  readonly share: Share
}

/**
 * When the cache is full, a tenant that holds more than its even share makes room among its own items, and any other
 * among all, in both cases where use is longest ago: a tenant that fills the cache cannot push out the items of the rest.
 */
export function createMemoryCache ({ maxSize = 10_000, maxMemoryMB = 64, now }: MemoryCacheOptions = {}): CacheStore {
  const maxBytes = Math.max(1, Math.floor(maxMemoryMB * 1_048_576))
  const shares = new Map<string, Share>()
  const items = new LRUCache<string, Item>({
    // The list is laid out for `max` items at once: no longer than memory for them could last.
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
  let owners = 0 // tenants that hold an item
  let hits = 0
  let misses = 0

  function shareOf (tenant: string): Share {
    let share = shares.get(tenant)
    if (share === undefined) {
      forgetEmptyShares()
      share = { ids: new Set(), bytes: 0, hits: 0, misses: 0 }
      shares.set(tenant, share)
    }
    return share
  }

  /** Tenants come and go: those that hold nothing are dropped when there are more of them than items could be. */
  function forgetEmptyShares (): void {
    if (shares.size < maxSize) return
    for (const [tenant, share] of shares) {
      if (share.ids.size === 0) shares.delete(tenant)
    }
  }

  function makeRoom (share: Share, bytes: number): void {
    for (const oldest of share.ids) {
      const full = items.size >= maxSize || items.calculatedSize + bytes > maxBytes
      const greedy = owners > 1 && (share.ids.size >= maxSize / owners || share.bytes + bytes > maxBytes / owners)
      if (!full || !greedy) return
      items.delete(oldest)
    }
  }

  return {
    get (tenant, key) {
      const id = idOf(tenant, key)
      const item = items.get(id)
      const share = item?.share ?? shares.get(tenant)
      if (item === undefined) {
        misses++
        if (share !== undefined) share.misses++
        return undefined
      }
      hits++
      item.share.hits++
      item.share.ids.delete(id)
      item.share.ids.add(id)
      return item.value
    },
    set (tenant, key, value, ttlMs) {
      const share = shareOf(tenant)
      const id = idOf(tenant, key)
      const bytes = bytesOf(id, value)
      if (bytes > maxBytes) {
        items.delete(id)
        return
      }
      if (!items.has(id)) makeRoom(share, bytes)
      items.set(id, { value, share }, { ttl: ttlMs })
      share.ids.add(id)
      share.bytes += bytes
      if (share.ids.size === 1) owners++
    },
    delete: (tenant, key) => items.delete(idOf(tenant, key)),
    clear (tenant) {
      const ids = tenant === everyTenant ? [...items.keys()] : [...shares.get(tenant)?.ids ?? []]
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
      if (tenant === everyTenant) return { items: items.size, bytes: items.calculatedSize, hits, misses }
      const share = shares.get(tenant)
      return { items: share?.ids.size ?? 0, bytes: share?.bytes ?? 0, hits: share?.hits ?? 0, misses: share?.misses ?? 0 }
    },
    close () {
      items.clear()
      shares.clear()
    }
  }
}

/** No tenant id holds a colon, so that no two pairs of tenant and key have the same id. */
function idOf (tenant: string, key: string): string {
  return `${tenant}:${key}`
}

function bytesOf (id: string, value: string): number {
  return bytesPerItem + (2 * id.length + value.length) * bytesPerCharacter
}
