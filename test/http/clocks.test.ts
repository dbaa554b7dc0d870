import { createHmac } from 'node:crypto'
import { test } from 'tap'
import { gate } from '../helpers/gate.js'
import { clockAhead, startInstance } from '../helpers/instances.js'
import { secretText } from '../helpers/log-scan.js'
import { postgresSection } from '../helpers/postgres.js'
import { remote } from '../helpers/remote.js'
import { type TestDocument, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { caller, refused, remoteCaller } from './caller.js'

const secret = secretText('the secret of a webhook', 'a signing secret')

const documentOf = (baseUrl: string): TestDocument => ({
  customIntegrations: [{ name: 'service', baseUrl, actions: { call: { method: 'POST', path: '/' } } }],
  routes: [
    { path: '/calls', method: 'post', integrations: [{ type: 'service', action: 'call', params: {} }] },
    {
      path: '/hook',
      method: 'post',
      webhook: { provider: 'custom', header: 'x-signature', secret: '{{env.HOOK}}' },
      integrations: [{ type: 'service', action: 'call', params: {} }]
    }
  ]
})

test('a server whose clock is five minutes ahead repeats nothing that another server is doing', async (t) => {
  const { opened, open } = gate()
  const service = await remote(t, async (_request, response) => {
    if (service.requests.length <= 2) await opened
    response.setHeader('content-type', 'application/json').end('{"done":true}')
  })
  const document = documentOf(service.origin)
  const engine = await postgresSection(t)
  const env = { HOOK: secret }
  const app = await testServer(t, document, { engine, env, tenants: ['acme'] })
  const ahead = await startInstance(t, document, engine, { ...env, ...clockAhead })
  const token = signToken({ tenant_id: 'acme' })
  const signature = createHmac('sha256', secret).update('{}').digest('hex')
  const [callHere, callAhead] = [caller(t, app, { token }), remoteCaller(t, ahead.address, { token })]
  const [sendHere, sendAhead] = [caller(t, app, { tenant: 'acme' }), remoteCaller(t, ahead.address, { tenant: 'acme' })]
  const keyed = { body: {}, headers: { 'idempotency-key': 'one' } }
  const signed = { body: {}, headers: { 'x-signature': signature } }

  const running = [callHere('POST /calls', keyed), sendHere('POST /hook', signed)]
  await until('both requests are running', () => service.requests.length === 2)
  const [repeated, delivered] = await Promise.all([callAhead('POST /calls', keyed), sendAhead('POST /hook', signed)])
  open()
  refused(t, repeated, 409, 'IDEMPOTENCY_RUNNING')
  refused(t, delivered, 409, 'STATE_CONFLICT')
  for (const response of await Promise.all(running)) t.equal(response.status, 200)
  t.equal(service.requests.length, 2)
})
