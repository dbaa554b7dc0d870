import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createKeyQuota, maxKeys } from '../../../plugins/idempotency/store.js'

test('concurrent keys of a tenant are counted together, after one look at the stored ones', async (t) => {
  let [time, looks, stored] = [1000, 0, maxKeys - 2]
  const quota = createKeyQuota({
    async kept () {
      looks++
      return { callers: { keys: stored, bytes: 0 }, anonymous: { keys: 0, bytes: 0 } }
    }
  }, () => time)
  const take = async () => await Promise.allSettled([1, 2, 3].map(() => quota.take(tenantRef('acme'), false)))
  t.same((await take()).map(({ status }) => status), ['fulfilled', 'fulfilled', 'rejected'])
  t.equal(looks, 1)
  stored = 0
  time += 10_001
  t.same((await take()).map(({ status }) => status), ['fulfilled', 'fulfilled', 'fulfilled'], 'the figures are read again')
  t.equal(looks, 2)
})
