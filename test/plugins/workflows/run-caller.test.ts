import { test } from 'tap'
import { addressKey } from '../../../lib/http/account.js'
import { platformRef, tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { noCaller } from '../../../plugins/workflows/run-caller.js'

test('limits of addresses count scheduled runs of each tenant apart, whatever the length of its id', async (t) => {
  const start = 'a'.repeat(60)
  const owners = [platformRef, ...['a', start, `${start}-one`, `${start}-two`].map(tenantIdOf)]
  t.equal(new Set(owners.map((owner) => addressKey(noCaller(owner).ip))).size, owners.length)
  for (const owner of owners) t.equal(addressKey(noCaller(owner).ip), noCaller(owner).ip, 'no part is cut off')
})
