/** Serves cached routes. */
import type { CacheStore, TableUse } from '../cache/store.js'
import type { RouteReply } from '../http/route-reply.js'
import type { Owner } from '../identity/tenant-ref.js'

/** Running executions of cached routes, by tenant, state of the tables, and key. Requests for the same item share one. */
export type Loads = Map<string, Promise<string>>

export interface CachedItem {
  /** Empty for the platform. */
  readonly tenant: Owner
  readonly key: string
  readonly reads: readonly TableUse[]
  readonly ttlMs: number
}

/** Resolves with the cached response, or that of `load`, which requests share. After a write, no request joins an earlier load. */
export async function throughCache (
  cache: CacheStore,
  loads: Loads,
  { tenant, key, reads, ttlMs }: CachedItem,
  reply: Pick<RouteReply, 'header'>,
  load: () => Promise<string>
): Promise<string> {
  const found = await cache.get(tenant, key, reads)
  if (typeof found === 'string') {
    reply.header('x-cache', 'HIT')
    return found
  }
  reply.header('x-cache', 'MISS')
  const { stamp } = found
  const id = `${tenant}:${stamp} ${key}`
  const known = loads.get(id)
  if (known !== undefined) return known
  const body = load()
  loads.set(id, body)
  // The response does not wait for the cache to store it. Until then, requests share the load.
  const end = () => {
    loads.delete(id)
  }
  body.then((text) => cache.set(tenant, key, text, ttlMs, stamp)).then(end, end)
  return body
}
