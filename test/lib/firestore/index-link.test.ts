/** The link to a missing index, for callers that share the load of a cached route. */
import { test } from 'tap'
import { translate } from '../../../lib/firestore/failures.js'
import { firestoreServer } from '../../helpers/firestore.js'
import { gate } from '../../helpers/gate.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'

const link = 'https://console.firebase.google.com/v1/r/project/my-app/firestore/indexes?create_composite=abc'

test('callers that share a load get the link to a missing index only as administrators of the platform', async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const app = await testServer(t, {
    databaseProvider: 'firebase',
    firebase: { projectId, emulatorHost },
    cache: { enabled: true, provider: 'memory', ttl: 60 },
    routes: [{
      path: '/notes',
      method: 'get',
      requireAuth: true,
      cache: { enabled: true },
      firebaseQueries: [{ collection: 'notes', operation: 'query' }]
    }]
  }, { tenants: ['a'] })
  const { opened, open } = gate()
  let loads = 0
  // The emulators need no indexes.
  Object.assign(app.firestore ?? {}, {
    text: async () => {
      loads++
      await opened
      throw translate(Object.assign(new Error(`The query requires an index. You can create it here: ${link}`), { code: 9 }))
    }
  })
  const reads = t.capture(app.cache, 'get', app.cache.get)
  const platform = caller(t, app, { token: signToken({ role: 'admin' }), tenant: 'a' })
  const tenant = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'a' }) })
  const pending = []
  const found: unknown[] = []
  for (const of of [platform, tenant, platform]) {
    pending.push(of('GET /notes'))
    const count = pending.length
    await until('the request has looked into the cache', () => {
      for (const read of reads()) found.push('returned' in read ? read.returned : undefined)
      return found.length >= count
    })
    await Promise.all(found)
  }
  open()
  const [first, second, third] = await Promise.all(pending)
  t.equal(loads, 1, 'the requests share one load')
  for (const response of [first, second, third]) t.match(response, { status: 400, body: { code: 'TENANTRY_INDEX_MISSING' } })
  t.strictSame([first, second, third].map((response) => response?.body['index']), [link, undefined, link])
})
