/** The model calls in progress. */
import t from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createCalls } from '../../../plugins/models/calls.js'

t.test('a call that begins while the app closes is refused', async (t) => {
  const calls = createCalls()
  const begun = calls.begin(tenantRef('acme'), new AbortController().signal)
  const refused = t.rejects(begun, { code: 'TENANTRY_PROVIDER_TIMEOUT' })
  await calls.close(0)
  await refused
})
