/** An outage of Firestore. It is a fault test because Google's client keeps retrying for half a minute after the response. */
import { test } from 'tap'
import { openFirestore } from '../../lib/firestore/open.js'
import { placeOf } from '../../lib/firestore/paths.js'
import type { DocumentOperation } from '../../lib/firestore/types.js'
import { tenantRef } from '../../lib/identity/tenant-ref.js'
import { firestoreServer } from '../helpers/firestore.js'

test('an outage is a 503 with Retry-After, and closing during it works', async (t) => {
  const { emulatorHost, projectId, stop, isComplete } = await firestoreServer(t)
  stop()
  const host = isComplete ? '127.0.0.1:1' : emulatorHost
  const store = await openFirestore({ emulatorHost: host, projectId, maxResultBytes: 1000, timeoutMs: 200 })
  const operation: DocumentOperation = {
    kind: 'get',
    id: 'n1',
    place: placeOf(tenantRef('a'), 'notes', false),
    shape: { only: null, without: new Set() }
  }
  const outage = { code: 'TENANTRY_DATABASE_UNAVAILABLE', statusCode: 503, headers: { 'retry-after': '1' } }
  await t.rejects(store.text(operation), outage)
  await store.close()
})
