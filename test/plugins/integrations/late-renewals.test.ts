/** A token that is due, while its renewal takes longer than a call can wait. */
import { randomUUID } from 'node:crypto'
import { type Test, test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { gate } from '../../helpers/gate.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { remote } from '../../helpers/remote.js'
import { until } from '../../helpers/until.js'
import { callOf, connectorsOf, open, scopeOf } from './app.js'

const key = 'crm_access_token'

/** A tenant with a token that ends an hour after the start, and the clock of its server. */
async function opened (t: Test) {
  let time = Date.now()
  const granted: string[] = []
  const state = {
    /** The token server responds after this. */
    silence: Promise.resolve(),
    pass (seconds: number) {
      time += seconds * 1000
    }
  }
  const tokens = await remote(t, async (_request, response) => {
    await state.silence
    const token = secretText(`access-token-${randomUUID()}`, 'an access token')
    granted.push(token)
    response.setHeader('content-type', 'application/json')
      .end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 3600 }))
  })
  const api = await remote(t, (_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"hello":"world"}')
  })
  const { connectionString } = await postgresDatabase(t)
  const app = await open(t, connectionString, { now: () => time })
  await app.tenants.create({ id: 'acme', name: 'Acme', plan: 'pro' })
  await app.secrets.put('acme', { key: 'CLIENT', value: secretText('a/secret', 'the secret of the client') }, noActor)
  const call = callOf(
    connectorsOf([{
      name: 'crm',
      baseUrl: api.origin,
      auth: { type: 'oauth2', tokenUrl: `${tokens.origin}/token`, clientId: 'the client', clientSecret: '{{secret:CLIENT}}' },
      actions: { hello: { method: 'GET', path: '/hello' } }
    }]),
    'crm',
    'hello'
  )
  const run = async (timeoutMs?: number) =>
    await app.integrations.run(call, await scopeOf(app, 'acme'), { tenant: tenantRef('acme'), log: app.log, timeoutMs })
  await run()
  return { app, api, tokens, granted, state, run }
}

test('a token that is due is used while the token server does not respond, and renewed when it does', async (t) => {
  const { app, api, tokens, granted, state, run } = await opened(t)
  const [first] = granted
  const answer = gate()
  state.silence = answer.opened
  state.pass(3545)
  t.same(await run(4000), { hello: 'world' })
  t.equal(api.requests.at(-1)?.headers.authorization, `Bearer ${first}`)
  t.equal(tokens.requests.length, 2)
  answer.open()
  await until('the renewed token is stored', async () => await app.secrets.get('acme', key) !== first)
  t.same(await run(), { hello: 'world' })
  t.equal(api.requests.at(-1)?.headers.authorization, `Bearer ${granted[1]}`)
  t.equal(tokens.requests.length, 2)
})

test('a token that has ended is not used while the token server does not respond', async (t) => {
  const { api, granted, state, run } = await opened(t)
  const answer = gate()
  state.silence = answer.opened
  state.pass(3601)
  await t.rejects(run(1000), { code: 'TENANTRY_PROVIDER_TIMEOUT', statusCode: 504 })
  t.equal(api.requests.length, 1)
  const waiting = run()
  answer.open()
  t.same(await waiting, { hello: 'world' })
  t.equal(api.requests.at(-1)?.headers.authorization, `Bearer ${granted[1]}`)
})

test('a token that is due is used while a dead process holds the lease of its renewal', async (t) => {
  const { app, api, granted, state, run } = await opened(t)
  const [first] = granted
  const lease = (holder: string | null, end: Date | null) =>
    app.db.updateTable('tenantry.oauth_tokens').set({ holder, leased_until: end }).where('tenant_id', '=', 'acme').execute()
  await lease(randomUUID(), new Date(Date.now() + 3_600_000))
  state.pass(3545)
  t.same(await run(), { hello: 'world' })
  t.equal(api.requests.at(-1)?.headers.authorization, `Bearer ${first}`)
  await lease(null, null)
  await until('the renewed token is stored', async () => await app.secrets.get('acme', key) !== first)
  t.equal(granted.length, 2)
})
