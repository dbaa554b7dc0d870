/** The memory of images in calls of models. */
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createImageMemory } from '../../../lib/models/images.js'
import type { ModelMessage } from '../../../lib/models/types.js'

const { signal } = new AbortController()
const megabyte = 1_048_576

function messageWith (megabytes: number): ModelMessage[] {
  const data = { length: megabytes * megabyte, read: async () => Buffer.from('x') }
  return [{ role: 'user', content: [{ type: 'image', mediaType: 'image/png', data }] }]
}

test('the images of a tenant are bounded, apart from those of its only call', async (t) => {
  const memory = createImageMemory()
  const [large, small, other] = [memory.hold(tenantRef('acme')), memory.hold(tenantRef('acme')), memory.hold(tenantRef('globex'))]
  await large.read(messageWith(20), signal)
  await t.rejects(small.read(messageWith(1), signal), { code: 'TENANTRY_PROVIDER_BUSY' })
  small.release()
  await other.read(messageWith(10), signal)
  large.release()
  for (let count = 0; count < 10; count++) await memory.hold(tenantRef('acme')).read(messageWith(1), signal)
  await t.rejects(memory.hold(tenantRef('acme')).read(messageWith(1), signal), { code: 'TENANTRY_PROVIDER_BUSY' })
})

test('beyond the memory of all tenants, only those with more than an equal share are refused', async (t) => {
  const memory = createImageMemory()
  for (const tenant of ['a', 'b']) await memory.hold(tenantRef(tenant)).read(messageWith(20), signal)
  const third = memory.hold(tenantRef('c'))
  await t.rejects(third.read(messageWith(20), signal), { code: 'TENANTRY_PROVIDER_BUSY' })
  third.release()
  await third.read(messageWith(10), signal)
})
