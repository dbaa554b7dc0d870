/** Counts of @fastify/rate-limit in this process. */
import type { Counter, CounterOptions } from './store.js'
import { boundedKey } from './rules.js'
import { Windows } from './windows.js'

export function createMemoryCounter ({ cache, renewal }: CounterOptions): Counter {
  const windows = new Windows(cache)
  return {
    hit (key, windowMs, max, now) {
      const window = windows.open(boundedKey(key), '')
      if (now >= window.resetAt) {
        window.count = 0
        window.resetAt = now + windowMs
      }
      window.count++
      const beyond = window.count - max
      if (beyond > 0 && renewal !== 'none') {
        const factor = renewal === 'double' ? 2 ** (beyond - 1) : 1
        window.resetAt = now + Math.min(windowMs * factor, Number.MAX_SAFE_INTEGER - now)
      }
      return { current: window.count, ttl: window.resetAt - now }
    },
    read (key, now) {
      const window = windows.find(boundedKey(key), '')
      return window === undefined || now >= window.resetAt ? { current: 0, ttl: 0 } : { current: window.count, ttl: window.resetAt - now }
    }
  }
}
