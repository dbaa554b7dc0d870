/** Two processes with one Redis, as behind a load balancer: together they admit exactly the limit. */
import t from 'tap'
import { startInstance } from '../../helpers/instances.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { startRedis } from '../../helpers/redis.js'
import type { TestDocument } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'

const redis = await startRedis(t)
const { connectionString } = await postgresDatabase(t)
const document: TestDocument = {
  rateLimit: { enabled: true },
  plans: { free: { limits: { api: { requestsPerMinute: 70 } } } },
  routes: [
    { method: 'get', path: '/any', response: { here: true } },
    { method: 'get', path: '/few', rateLimit: { max: 7, windowMs: 60_000 }, response: { here: true } }
  ]
}
const engine = { provider: 'postgres', postgres: { connectionString } } as const
const server = { url: redis.url }
const instances = [
  await startInstance(
    t,
    { ...document, rateLimit: { enabled: true, redis: server }, cache: { enabled: true, provider: 'memory' } },
    engine
  ),
  // A document without a Redis for its limits uses the cache's.
  await startInstance(t, { ...document, cache: { enabled: true, provider: 'redis', redis: server } }, engine)
]

/** Sends this many concurrent requests, alternating between the instances. Returns the count of each status. */
async function flood (path: string, count: number, headers: Record<string, string> = {}): Promise<Record<number, number>> {
  const responses = await Promise.all(
    Array.from({ length: count }, (_, index) => fetch(`${instances[index % 2]!.address}${path}`, { headers }))
  )
  await Promise.all(responses.map((response) => response.arrayBuffer()))
  const counts: Record<number, number> = {}
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

t.test("a tenant's plan limits both processes together", async (t) => {
  t.strictSame(await flood('/any', 200, bearer({ tenant_id: 'acme' })), { 200: 70, 429: 130 })
  t.strictSame(await flood('/few', 20, bearer({ tenant_id: 'acme' })), { 429: 20 }, 'over all routes')
})

t.test("a route's rule limits in addition to the plan", async (t) => {
  const token = bearer({ tenant_id: 'globex' })
  t.strictSame(await flood('/few', 100, token), { 200: 7, 429: 93 })
  t.strictSame(await flood('/any', 100, token), { 200: 63, 429: 37 }, 'requests that the rule rejected did not count for the plan')
})

t.test("a tenant's own rule limits both processes together", async (t) => {
  const admin = { ...bearer({ tenant_id: 'initech', role: 'admin' }), 'content-type': 'application/json' }
  const document = {
    rateLimit: { enabled: true, default: { max: 5, windowMs: 60_000 } },
    routes: [{ method: 'get', path: '/theirs', response: { here: true } }]
  }
  const saved = await fetch(`${instances[0]!.address}/tenant/config`, { method: 'POST', headers: admin, body: JSON.stringify(document) })
  t.equal(saved.status, 200)
  t.equal((await fetch(`${instances[1]!.address}/tenant/config`, { headers: admin })).status, 200)
  t.strictSame(await flood('/theirs', 40, admin), { 200: 5, 429: 35 })
})

t.test('both processes count an address together', async (t) => {
  t.strictSame(await flood('/any', 200), { 200: 100, 429: 100 })
  t.strictSame(await flood('/few', 20), { 200: 7, 429: 13 })
})
