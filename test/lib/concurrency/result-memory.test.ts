/** The share of a tenant in the memory for results. */
import { test } from 'tap'
import { createResultMemory } from '../../../lib/concurrency/result-memory.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'

test('tenants that together fill the memory do not shut out another', async (t) => {
  const memory = createResultMemory()
  const megabyte = 1_048_576
  const busy = Array.from({ length: 5 }, (_none, index) => memory.hold(tenantRef(`busy-${index}`)))
  for (const held of busy) held.text(60 * megabyte)
  const [first, second] = [memory.hold(tenantRef('quiet')), memory.hold(tenantRef('quiet'))]
  first.text(megabyte)
  second.text(megabyte)
  t.doesNotThrow(() => second.requireRoom(), 'less than an equal share')
  t.throws(() => memory.hold(tenantRef('busy-0')).requireRoom(), { code: 'TENANTRY_RESPONSES_BUSY' })
  first.text(50 * megabyte)
  t.throws(() => second.requireRoom(), { code: 'TENANTRY_RESPONSES_BUSY' }, 'more than an equal share')
})
