/** Credentials that work beyond a request stores: they are valid as long as a request with the token or key would be. */
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import type { Credential } from '../../../plugins/auth/credentials.js'
import type { AuthOptions } from '../../../plugins/auth/index.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { bearer, testSecret } from '../../helpers/tokens.js'
import { platformKey } from './app.js'
import { testKey, testProvider } from './provider.js'

const other = secretText('another secret of the tests, as long as the first', 'jwt.secret')

async function start (t: Test, options: AuthOptions, prepare = (_app: FastifyInstance) => {}): Promise<FastifyInstance> {
  const { app } = await testApp(t, {
    plugins: { conventions: {}, auth: options },
    routes (app) {
      prepare(app)
      app.get('/', { config: { access: 'open' } }, async (request) => ({ credential: await app.auth.credentialOf(request) }))
    }
  })
  return app
}

/** As a run stores it. */
async function credentialOf (app: FastifyInstance, headers: Record<string, string>): Promise<Credential> {
  const { credential } = (await app.inject({ url: '/', headers })).json()
  return credential
}

const invalid = { code: 'TENANTRY_TOKEN_INVALID' }

test('a token of a replaced secret is valid while the secret is a previous one', async (t) => {
  const before = await start(t, { jwt: { secret: other } })
  const headers = bearer({ sub: 'ada' }, { key: other })
  const credential = await credentialOf(before, headers)
  t.match(await before.auth.recall(credential), { sub: 'ada' })
  const rotated = await start(t, { jwt: { secret: testSecret, previousSecrets: [other] } })
  t.match(await rotated.auth.recall(credential), { sub: 'ada' })
  t.strictSame(await credentialOf(rotated, headers), credential)
  await t.rejects((await start(t, { jwt: { secret: testSecret } })).auth.recall(credential), invalid)
})

test('a token is valid until it expires or a plugin revokes it', async (t) => {
  let time = Date.now()
  const revoked = new Set<string>()
  const app = await start(t, { jwt: { secret: testSecret }, now: () => time }, (app) => {
    app.decorate('revocations', { version: 1, refuses: (_claims, id) => revoked.has(id()) })
  })
  const headers = bearer({ sub: 'ada', tenant_id: 'acme' })
  const credential = await credentialOf(app, headers)
  t.notOk(JSON.stringify(credential).includes(headers.authorization.slice(-20)))
  t.match(await app.auth.recall(credential), { sub: 'ada', tenant_id: 'acme' })
  revoked.add(app.auth.tokenId(headers.authorization.slice(7)))
  await t.rejects(app.auth.recall(credential), invalid)
  revoked.clear()
  time += 3_700_000
  await t.rejects(app.auth.recall(credential), { code: 'TENANTRY_TOKEN_EXPIRED' })
})

test("the platform's key is valid until the server has another one", async (t) => {
  const jwt = { secret: testSecret }
  const app = await start(t, { jwt, apiKey: platformKey })
  const credential = await credentialOf(app, { 'x-api-key': platformKey })
  t.notOk(JSON.stringify(credential).includes(platformKey))
  t.equal(await app.auth.recall(credential), await app.auth.identify(platformKey))
  for (const apiKey of [undefined, `${platformKey}2`]) await t.rejects((await start(t, { jwt, apiKey })).auth.recall(credential), invalid)
})

test("a provider's token is valid while the provider is configured, and keeps its provider", async (t) => {
  const key = await testKey('k1')
  const { issuer, jwksUri, sign } = await testProvider(t, [key])
  const authProviders = { idp: { issuer, jwksUri, audience: 'api', algorithms: ['ES256' as const] } }
  const app = await start(t, { jwt: { secret: testSecret }, authProviders })
  const credential = await credentialOf(app, { authorization: `Bearer ${await sign(key, { sub: 'u1' })}` })
  const claims = await app.auth.recall(credential)
  t.match(claims, { sub: 'idp:u1', provider: 'idp' })
  t.strictSame(await app.auth.credentialOf({ auth: claims, headers: {} }), credential, 'a run that such a run starts has the same')
  await t.rejects((await start(t, { jwt: { secret: testSecret } })).auth.recall(credential), invalid)
})

test('claims that this server did not verify are not a credential', async (t) => {
  const app = await start(t, { jwt: { secret: testSecret } })
  t.equal(await app.auth.credentialOf({ auth: null, headers: {} }), null)
  t.equal(await app.auth.credentialOf({ auth: { sub: 'ada', role: 'admin' }, headers: {} }), null)
  t.equal(await app.auth.credentialOf({ auth: { sub: 'boss', role: 'admin' }, headers: bearer({ sub: 'ada' }) }), null)
})
