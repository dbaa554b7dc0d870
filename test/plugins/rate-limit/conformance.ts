/** The contract of every store, whatever its clock. */
import type { Test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createLimit, type Limit } from '../../../plugins/rate-limit/rules.js'
import type { ClientKind, LimitResult, RateLimitStore } from '../../../plugins/rate-limit/store.js'
import { until } from '../../helpers/until.js'

const general = createLimit({ max: 1000, windowMs: 60_000 }, '')
const endpoint = createLimit({ max: 1000, windowMs: 60_000 }, 'GET /a')
const plan = createLimit({ max: 2, windowMs: 60_000 }, 'plan')
const own = (owner: string) => createLimit({ max: 1000, windowMs: 60_000 }, 'GET /own', { owner: tenantRef(owner) })

/** Takes, and records the store's responses. */
export async function take (
  store: RateLimitStore,
  kind: ClientKind,
  client: string,
  limit: Limit,
  second: Limit | null = null
): Promise<LimitResult> {
  return { ...await store.take(kind, client, limit, second, Date.now()) }
}

/** @param open creates a store that has counted nothing */
export async function conformance (t: Test, open: (t: Test) => Promise<RateLimitStore>): Promise<void> {
  await t.test('clients, buckets, tenants and addresses are counted separately', async (t) => {
    const store = await open(t)
    for (let count = 1; count <= 3; count++) {
      t.match(await take(store, 'tenant', 'acme', general), { admitted: true, count })
      t.match(await take(store, 'tenant', 'globex', general), { count })
      t.match(await take(store, 'tenant', 'acme', endpoint), { count })
      t.match(await take(store, 'address', 'acme', general), { count })
      t.match(await take(store, 'address', '2001:db8:0:1::/64', general), { count })
      t.match(await take(store, 'tenant', 'acme', own('acme')), { count })
      t.match(await take(store, 'address', '10.0.0.1', own('acme')), { count })
      t.match(await take(store, 'address', '10.0.0.1', own('globex')), { count })
    }
  })

  await t.test('a request with two limits is counted in both or, if one is used up, in neither', async (t) => {
    const store = await open(t)
    t.match(await take(store, 'tenant', 'acme', general, plan), { admitted: true, count: 1, secondCount: 1 })
    t.match(await take(store, 'tenant', 'acme', endpoint, plan), { admitted: true, count: 1, secondCount: 2 })
    const refused = await take(store, 'tenant', 'acme', general, plan)
    t.match(refused, { admitted: false, count: 1, secondCount: 2 })
    t.ok(refused.secondResetAt > refused.now && refused.secondResetAt <= refused.now + 60_000)
    t.match(await take(store, 'tenant', 'acme', general), { admitted: true, count: 2, secondCount: 0 })
  })

  await t.test('a request that one limit refuses begins no window of the other', async (t) => {
    const store = await open(t)
    for (let count = 1; count <= 2; count++) await take(store, 'tenant', 'acme', plan)
    const refused = await take(store, 'tenant', 'acme', endpoint, plan)
    t.match(refused, { admitted: false, count: 0, resetAt: refused.now + 60_000 })
    await until('the next millisecond', () => Date.now() > refused.now)
    const admitted = await take(store, 'tenant', 'acme', endpoint)
    t.match(admitted, { admitted: true, count: 1, resetAt: admitted.now + 60_000 })
  })

  await t.test('a limit of 0 admits nothing', async (t) => {
    const store = await open(t)
    const refused = await take(store, 'tenant', 'acme', createLimit({ max: 0, windowMs: 60_000 }, 'plan'))
    t.match(refused, { admitted: false, count: 0, resetAt: refused.now + 60_000 })
  })

  await t.test('a request is refunded to its own window only', async (t) => {
    const store = await open(t)
    const { resetAt } = await take(store, 'tenant', 'acme', endpoint)
    await take(store, 'tenant', 'acme', endpoint)
    await store.refund('tenant', 'acme', endpoint, resetAt)
    t.match(await take(store, 'tenant', 'acme', endpoint), { count: 2, resetAt })
    await store.refund('tenant', 'acme', endpoint, resetAt - 60_000)
    await store.refund('tenant', 'globex', endpoint, resetAt)
    await store.refund('address', 'acme', endpoint, resetAt)
    t.match(await take(store, 'tenant', 'acme', endpoint), { count: 3 })
    const ofOwn = await take(store, 'address', '10.0.0.1', own('acme'))
    await store.refund('address', '10.0.0.1', own('acme'), ofOwn.resetAt)
    t.match(await take(store, 'address', '10.0.0.1', own('acme')), { count: 1 })
    for (let times = 0; times < 3; times++) await store.refund('address', '10.0.0.1', own('acme'), ofOwn.resetAt)
    t.match(await take(store, 'address', '10.0.0.1', own('acme')), { count: 1 }, 'never below zero')
  })
}
