import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createKeyQuota, type KeptKeys, type KeyUse, maxKeys } from '../../../plugins/idempotency/quota.js'

const noKeys = (): KeptKeys => ({ keys: 0, bytes: 0, ofCallers: new Map() })
const useOf = (caller: number): KeyUse => ({ tenant: tenantRef('acme'), id: Buffer.alloc(32, caller), isAnonymous: false, isAdmin: false })

test('concurrent keys of a tenant are counted together, after one look at the stored ones', async (t) => {
  let [time, looks, stored] = [1000, 0, maxKeys - 2]
  const quota = createKeyQuota({
    async kept () {
      looks++
      return { callers: { ...noKeys(), keys: stored }, anonymous: noKeys() }
    }
  }, () => time)
  const take = async () => await Promise.allSettled([1, 2, 3].map((caller) => quota.take(useOf(caller))))
  t.same((await take()).map(({ status }) => status), ['fulfilled', 'fulfilled', 'rejected'])
  t.equal(looks, 1)
  stored = 0
  time += 10_001
  t.same((await take()).map(({ status }) => status), ['fulfilled', 'fulfilled', 'fulfilled'], 'the figures are read again')
  t.equal(looks, 2)
})

test('a caller has a quarter of the bounds, and freed keys do not count', async (t) => {
  const quota = createKeyQuota({ kept: async () => ({ callers: noKeys(), anonymous: noKeys() }) })
  for (let count = 0; count < maxKeys / 4; count++) await quota.take(useOf(1))
  await t.rejects(quota.take(useOf(1)), { code: 'TENANTRY_IDEMPOTENCY_FULL' })
  await quota.take(useOf(2))
  quota.give(useOf(1))
  await quota.take(useOf(1))
  quota.keep(useOf(2), 33_554_432 / 4)
  await t.rejects(quota.take(useOf(2)), { code: 'TENANTRY_IDEMPOTENCY_FULL' }, 'bytes count too')
  await quota.take({ ...useOf(3), isAdmin: true })
})
