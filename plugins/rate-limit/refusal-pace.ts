/**
 * Delays the refusals of clients that ignore them. Each refusal takes CPU that other tenants need, and a client that waits for its
 * response sends no further request on the connection.
 */
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import type { ClientKind } from './store.js'

const intervalMs = 5 // between two refusals of a client
const burst = 100 // refusals without delay
const maxDelay = 1000 // ms
const maxClients = 10_000

/** @param now a clock in milliseconds. Default: a monotonic one */
export function createRefusalPace (now = () => performance.now()) {
  /** By client: when it may have a full burst again. */
  const freeAt = new LRUCache<string, number>(lruOptions(maxClients))
  return {
    /** Milliseconds by which to delay the next refusal of the client, which must follow. */
    next (kind: ClientKind, client: string): number {
      const key = `${kind} ${client}`
      const at = now()
      const free = Math.max(freeAt.get(key) ?? 0, at) + intervalMs
      const delay = Math.min(maxDelay, Math.max(0, free - at - burst * intervalMs))
      freeAt.set(key, Math.min(free, at + burst * intervalMs + maxDelay))
      return delay
    }
  }
}
