/** A tenant chooses its token server and the number of its calls, and must not fill the log. */
import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { remote } from '../../helpers/remote.js'
import { callOf, connectorsOf, open, scopeOf } from './app.js'

const [debug, warn] = [20, 40] // levels of pino

test('a token that cannot be renewed early has one line at warn for each connector and tenant', async (t) => {
  let isDown = false
  const tokens = await remote(t, (_request, response) => {
    if (isDown) {
      response.writeHead(500).end()
      return
    }
    const token = secretText(`access-token-${randomUUID()}`, 'an access token')
    response.setHeader('content-type', 'application/json')
      .end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 3600 }))
  })
  const api = await remote(t, (_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"hello":"world"}')
  })
  const lines: { readonly level: number, readonly msg: string, readonly integration?: string }[] = []
  let now = Date.now()
  const { connectionString } = await postgresDatabase(t)
  const app = await open(t, connectionString, { now: () => now }, (line) => {
    lines.push(JSON.parse(line))
  })
  const connectors = connectorsOf(['crm', 'shop'].map((name) => ({
    name,
    baseUrl: api.origin,
    auth: { type: 'oauth2' as const, tokenUrl: `${tokens.origin}/token`, clientId: 'the client', clientSecret: '{{secret:CLIENT}}' },
    actions: { hello: { method: 'GET' as const, path: '/hello' } }
  })))
  const run = async (tenant: string, connector: string) => {
    const call = callOf(connectors, connector, 'hello')
    t.same(await app.integrations.run(call, await scopeOf(app, tenant), { tenant: tenantRef(tenant), log: app.log }), { hello: 'world' })
  }
  for (const id of ['acme', 'globex']) {
    await app.tenants.create({ id, name: id, plan: 'pro' })
    await app.secrets.put(id, { key: 'CLIENT', value: secretText('a/secret', 'the secret of the client') }, noActor)
    for (const connector of ['crm', 'shop']) await run(id, connector)
  }

  isDown = true
  now += 3_590_000
  for (const [tenant, connector] of [['acme', 'crm'], ['acme', 'crm'], ['acme', 'shop'], ['globex', 'crm'], ['acme', 'crm']] as const) {
    await run(tenant, connector)
  }
  t.same(
    lines.filter(({ msg }) => msg === 'a token that is due could not be renewed').map(({ level, integration }) => [level, integration]),
    [[warn, 'crm'], [debug, 'crm'], [warn, 'shop'], [warn, 'crm'], [debug, 'crm']]
  )
})
