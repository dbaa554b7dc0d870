/** Calls of connectors whose tenant is deleted meanwhile, and whose id a later tenant has. */
import { test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { allowLongCalls } from '../../helpers/long-calls.js'
import { remote } from '../../helpers/remote.js'
import { testServer } from '../../helpers/server.js'
import { replaceTenant } from '../../helpers/succession.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'

test('a call has no entry in the audit log of a later tenant with the id', async (t) => {
  const [called, door] = [gate(), gate()]
  const service = await remote(t, async (_request, response) => {
    called.open()
    await door.opened
    response.setHeader('content-type', 'application/json').end('{}')
  })
  const app = await testServer(t, { egress: { allow: ['127.0.0.1'] } }, { engine: { provider: 'embedded' }, tenants: ['acme'] })
  allowLongCalls(t, app)
  const ask = caller(t, app, { token: signToken({ role: 'admin', sub: 'ada', tenant_id: 'acme' }) })
  const response = ask('POST /integrations/http/request', { body: { url: service.origin, method: 'GET' } })
  await called.opened
  await replaceTenant(app, 'acme')
  door.open()
  t.match(await response, { status: 200 })
  const entries = await app.db.selectFrom('tenantry.audit_log').select('tenant_id').where('action', '=', 'integration.run').execute()
  t.strictSame(entries, [])
})
