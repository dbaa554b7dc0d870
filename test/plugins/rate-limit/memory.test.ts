import t from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createMemoryCounter, createMemoryStore, type MemoryStore } from '../../../plugins/rate-limit/memory.js'
import { createLimit, type Limit } from '../../../plugins/rate-limit/rules.js'
import type { LimitResult } from '../../../plugins/rate-limit/store.js'
import { conformance } from './conformance.js'

const minute = createLimit({ max: 1_000_000, windowMs: 60_000 }, '')
const second = createLimit({ max: 1000, windowMs: 1000 }, 'GET /a')
const plan = createLimit({ max: 2, windowMs: 60_000 }, 'plan')
const own = (owner: string, bucket = 'GET /own') => createLimit({ max: 1000, windowMs: 60_000 }, bucket, { owner: tenantRef(owner) })

/** The result for a request of a tenant, or of an address if the client is one. */
function take (store: MemoryStore, client: string, limit: Limit, now: number, other: Limit | null = null): LimitResult {
  const taken = store.take(client.includes('.') ? 'address' : 'tenant', client, limit, other, now)
  if (taken instanceof Promise) throw new Error('memory has no promises')
  return { ...taken }
}

t.test('the memory store fulfills the contract', (t) => conformance(t, async () => createMemoryStore()))

t.test('a window starts with the first request and ends after its time', async (t) => {
  const store = createMemoryStore()
  t.match(take(store, 'acme', second, 5000), { admitted: true, now: 5000, count: 1, resetAt: 6000 })
  t.match(take(store, 'acme', second, 5999), { count: 2, resetAt: 6000 })
  t.match(take(store, 'acme', second, 6000), { count: 1, resetAt: 7000 })
})

t.test('a clock that is set back does not lengthen a window', async (t) => {
  const store = createMemoryStore()
  take(store, 'acme', second, 3_600_000)
  t.match(take(store, 'acme', second, 3_599_999), { count: 1, resetAt: 3_600_999 }, "before the window's start: a new one")
  t.match(take(store, 'acme', second, 0), { count: 1, resetAt: 1000 })
  t.match(take(store, 'acme', second, 999), { count: 2, resetAt: 1000 })
  t.match(take(store, 'acme', second, 1000), { count: 1, resetAt: 2000 })
})

t.test('a clock that is set back does not lengthen a window of config.rateLimit', async (t) => {
  const hour = 3_600_000
  for (const renewal of ['none', 'restart', 'double'] as const) {
    const { hit, read } = createMemoryCounter({ name: 'GET /a', cache: 10, renewal })
    for (let count = 1; count <= 4; count++) hit('acme', 1000, 2, hour)
    const span = renewal === 'double' ? 2000 : 1000
    t.same(read('acme', hour + 1), { current: 4, ttl: span - 1 }, renewal)
    t.same(read('acme', hour - 1), { current: 0, ttl: 0 }, "before the window's start")
    t.same(hit('acme', 1000, 2, hour - 1), { current: 1, ttl: 1000 }, 'a new window')
    t.same(hit('acme', 1000, 2, 0), { current: 1, ttl: 1000 })
    t.same(hit('acme', 1000, 2, 999), { current: 2, ttl: 1 })
    t.same(hit('acme', 1000, 2, 1000), { current: 1, ttl: 1000 })
  }
})

t.test('100,000 addresses and 10,000 tenants: bounded, and no address evicts a tenant', async (t) => {
  const store = createMemoryStore(1000)
  take(store, 'idle', minute, 0)
  take(store, '10.0.0.0', minute, 0)
  for (let count = 1; count <= 100_000; count++) {
    take(store, `10.${count >> 16}.${count >> 8 & 255}.${count & 255}`, minute, 0)
    if (count % 100 === 0) take(store, '10.9.9.9', minute, 0)
  }
  t.ok(store.size <= 1001, `${store.size} windows`)
  t.match(take(store, 'idle', minute, 0), { count: 2 }, 'a tenant stays')
  t.match(take(store, '10.9.9.9', minute, 0), { count: 1001 }, 'an address in use stays')
  t.match(take(store, '10.0.0.0', minute, 0), { count: 1 }, 'the oldest address was evicted')
  for (let count = 1; count <= 10_000; count++) {
    take(store, `tenant-${count}`, minute, 0, plan)
    if (count % 100 === 0) take(store, 'busy', minute, 0)
  }
  t.match(take(store, 'busy', minute, 0), { count: 101 })
  t.ok(store.size <= 2000, `${store.size} windows`)
})

t.test("counts of a tenant's own document do not evict those of others", async (t) => {
  const store = createMemoryStore(1000)
  take(store, 'acme', minute, 0, plan)
  take(store, 'globex', own('globex'), 0)
  for (let count = 0; count < 10_000; count++) {
    take(store, 'acme', own('acme', `GET /${count}`), 0)
    take(store, `10.0.${count >> 8}.${count & 255}`, own('acme'), 0)
  }
  t.ok(store.size < 50, `${store.size} windows`)
  t.match(take(store, 'globex', own('globex'), 0), { count: 2 })
  t.match(take(store, 'acme', minute, 0, plan), { count: 2, secondCount: 2 })
  for (let tenant = 0; tenant < 10_000; tenant++) take(store, `tenant-${tenant}`, own(`tenant-${tenant}`), 0)
  t.ok(store.size <= 1100, `${store.size} windows`)
})
