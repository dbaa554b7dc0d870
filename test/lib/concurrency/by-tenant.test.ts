import { test } from 'tap'
import { forEachTenant } from '../../../lib/concurrency/by-tenant.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { gate } from '../../helpers/gate.js'

test('the items of a tenant are worked on together, and those of few tenants at a time', async (t) => {
  const items = ['a', 'b', 'a', 'c'].map((tenant, number) => ({ tenant: tenantRef(tenant), number }))
  const begun: number[][] = []
  const first = gate()
  const done = forEachTenant(items, 2, async (own) => {
    begun.push(own.map(({ number }) => number))
    await first.opened
  })
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(begun, [[0, 2], [1]])
  first.open()
  await done
  t.strictSame(begun, [[0, 2], [1], [3]])
})
