/** Workflows that are sent in the body of a request. */
import { test } from 'tap'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'

test('a run within the request refuses `webhookOnComplete`, which it would not call', async (t) => {
  const app = await testServer(t, {
    databaseProvider: 'embedded',
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } } },
    routes: []
  }, { tenants: ['acme'] })
  const acme = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })
  const steps = [{ id: 'read', type: 'database', operation: 'select', table: 'notes' }]
  const body = { steps, async: false, webhookOnComplete: 'https://example.com/done' }
  const response = await acme('POST /agent/workflow', { body })
  refused(t, response, 400, 'VALIDATION_FAILED', 'a callback')
  t.match(response.body.details, [{
    path: '/body/webhookOnComplete',
    message: 'requires `async: true`: otherwise the response of the route is the end of the workflow'
  }])
  t.equal((await acme('POST /agent/workflow', { body: { steps, async: false } })).status, 200)
})
