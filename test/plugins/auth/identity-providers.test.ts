/** The whole server with identity providers: a third-party OAuth 2 server, and `firebase` with keys of the test. */
import { OAuth2Server } from 'oauth2-mock-server'
import type { Test } from 'tap'
import { test } from 'tap'
import { secretToken } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, refused } from '../../http/caller.js'
import { endpoints } from '../../http/tenants/endpoints.js'
import { testKey, testProvider } from './provider.js'

const platformKey = 'the key of the platform in this test'.replaceAll(' ', '-')

/** A third-party OAuth 2 server, and its tokens for `api`. */
async function oauth2 (t: Test) {
  const server = new OAuth2Server()
  await server.issuer.keys.generate('RS256')
  await server.start(0, '127.0.0.1')
  t.teardown(() => server.stop())
  const issuer = server.issuer.url ?? ''
  const token = async (claims: Record<string, unknown>) =>
    secretToken(
      await server.issuer.buildToken({
        scopesOrTransform: (_header, payload) => {
          Object.assign(payload, { sub: 'u1', aud: 'api' }, claims)
        }
      })
    )
  return { issuer, jwksUri: `${issuer}/jwks`, token, rotate: () => server.issuer.keys.generate('RS256') }
}

test("a server accepts its providers' tokens where its routes and tenants' routes name them", async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const idp = await oauth2(t)
  const key = await testKey('f1')
  const google = await testProvider(t, [key])
  const who = { who: '{{auth.sub}}', role: '{{auth.role}}', tenant: '{{auth.tenant_id}}' }
  const app = await testServer(t, {
    authProviders: {
      idp: { issuer: idp.issuer, jwksUri: idp.jwksUri, audience: ['api', 'web'], roleClaim: 'app.role', tenantClaim: 'app.tenant' },
      firebase: {
        projectId: 'my-app',
        issuer: google.issuer,
        jwksUri: google.jwksUri,
        tenantClaim: 'org',
        roleClaim: 'role',
        algorithms: ['ES256']
      }
    },
    tables: {
      notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text' } } }
    },
    routes: [
      { method: 'get', path: '/own', requireAuth: true, response: who },
      { method: 'get', path: '/named', requireAuth: true, authProvider: 'jwt', response: who },
      { method: 'get', path: '/idp', requireAuth: true, authProvider: 'idp', response: who },
      { method: 'get', path: '/firebase', requireAuth: true, authProvider: 'firebase', response: who },
      { method: 'get', path: '/open', authProvider: 'idp', response: who },
      {
        method: 'post',
        path: '/notes',
        requireAuth: true,
        authProvider: 'idp',
        queries: [{ table: 'notes', operation: 'insert', data: { title: '{{body.title}}' } }]
      },
      { method: 'get', path: '/notes', requireAuth: true, authProvider: 'idp', queries: [{ table: 'notes', operation: 'select' }] }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['acme', 'other'], env: { API_KEY: platformKey } })
  const as = (token: string): Ask => caller(t, app, { token })
  const own = as(signToken({ sub: 'me', role: 'editor' }))
  const user = as(await idp.token({ app: { role: 'editor', tenant: 'acme' } }))
  const administrator = as(await idp.token({ sub: 'boss', app: { role: 'admin', tenant: 'acme' } }))
  const mobile = as(await google.sign(key, { aud: 'my-app', org: 'acme', user_id: 'x' }))

  await t.test("each route accepts its provider's tokens; API keys are accepted everywhere", async (t) => {
    const allowed: Record<string, readonly [string, Ask][]> = {
      '/own': [['me', own]],
      '/named': [['me', own]],
      '/idp': [['idp:u1', user]],
      '/firebase': [['firebase:u1', mobile]],
      '/open': [['idp:u1', user]]
    }
    for (const [path, callers] of Object.entries(allowed)) {
      for (const [sub, ask] of callers) t.match(await ask(`GET ${path}`), { status: 200, body: { who: sub } }, path)
      for (const ask of [own, user, mobile].filter((other) => !callers.some(([, ask]) => ask === other))) {
        const response = await ask(`GET ${path}`)
        refused(t, response, 401, 'TOKEN_INVALID', path)
        t.equal(response.headers['www-authenticate'], 'Bearer error="invalid_token"')
      }
      t.match(await caller(t, app, { headers: { 'x-api-key': platformKey } })(`GET ${path}`), { status: 200, body: { who: 'api-key' } })
    }
    t.match(await caller(t, app)('GET /open'), { status: 200 })
    refused(t, await caller(t, app)('GET /idp'), 401, 'TOKEN_MISSING')
    refused(t, await as(await idp.token({ aud: 'them' }))('GET /idp'), 401, 'TOKEN_INVALID')
    refused(t, await as(await idp.token({ exp: 1000 }))('GET /idp'), 401, 'TOKEN_EXPIRED')
  })

  await t.test("the caller's tenant is the token's, and a provider's token never has platform administrator rights", async (t) => {
    t.match(await user('GET /idp'), { body: { who: 'idp:u1', role: 'editor', tenant: 'acme' } })
    t.match(await user('POST /notes', { body: { title: 'of acme' } }), { status: 201 })
    t.match(await user('GET /notes'), { body: { data: [{ title: 'of acme' }] } })
    t.same((await as(await idp.token({ app: { tenant: 'other' } }))('GET /notes')).body.data, [])
    refused(t, await user('GET /notes', { tenant: 'other' }), 403, 'TENANT_MISMATCH')
    refused(t, await as(await idp.token({ app: { tenant: '../acme' } }))('GET /idp'), 401, 'TOKEN_INVALID')
    t.match(await administrator('GET /tenant/secrets'), { status: 200 })
    refused(t, await user('GET /tenant/secrets'), 403, 'FORBIDDEN')
    for (const claims of [{ app: { role: 'admin' } }, { role: 'admin', permissions: ['*'] }]) {
      const stranger = as(await idp.token(claims))
      refused(t, await stranger('GET /tenants'), 403, 'FORBIDDEN')
      refused(t, await stranger('GET /tenant/info', { tenant: 'acme' }), 403, 'TENANT_MISMATCH')
    }
    refused(t, await administrator('GET /tenants'), 403, 'FORBIDDEN')
  })

  await t.test("a tenant's route names a provider of the platform, or accepts only the server's own tokens", async (t) => {
    const routes = [
      { method: 'get', path: '/mine', requireAuth: true, response: who },
      { method: 'get', path: '/theirs', requireAuth: true, authProvider: 'idp', response: who },
      { method: 'get', path: '/mobile', authProvider: 'firebase', response: who }
    ]
    t.match(await administrator('POST /tenant/config', { body: { routes } }), { status: 200 })
    const insider = as(signToken({ sub: 'me', tenant_id: 'acme' }))
    const taking: readonly [string, Ask][] = [['/mine', insider], ['/theirs', user], ['/mobile', mobile]]
    for (const [path, ask] of taking) {
      t.match(await ask(`GET ${path}`), { status: 200, body: { tenant: 'acme' } }, path)
      for (const [, other] of taking.filter(([, other]) => other !== ask)) {
        refused(t, await other(`GET ${path}`), 401, 'TOKEN_INVALID', path)
      }
      t.match(await caller(t, app, { tenant: 'acme', headers: { 'x-api-key': platformKey } })(`GET ${path}`), { status: 200 })
    }
    t.match(await caller(t, app, { tenant: 'acme' })('GET /mobile'), { status: 200 })
    refused(t, await caller(t, app, { tenant: 'acme' })('GET /theirs'), 401, 'TOKEN_MISSING')
    const unknown = await administrator('POST /tenant/config', {
      body: { routes: [{ method: 'get', path: '/x', authProvider: 'ipd', response: {} }] }
    })
    refused(t, unknown, 400, 'CONFIG_INVALID')
    t.match(unknown.body.details, [{
      path: '/routes/0/authProvider',
      message: /expected "jwt" or one of `authProviders`, idp, firebase; did you mean "idp"/
    }])
  })

  await t.test('a partial token opens only the endpoint of the second factor', async (t) => {
    const partial = as(secretToken(app.auth.signPartial({ sub: 'me', tenant_id: 'acme' })))
    // Endpoints with signed bodies accept no token at all.
    const { public: _public, signed: _signed, partial: second, ...others } = endpoints
    let served = 0
    for (const target of [...Object.values(others).flat(), 'GET /own', 'GET /idp', 'GET /open', 'GET /mine']) {
      const { status, text } = await partial(target.replaceAll(/\{\w+\}|\*/g, 'x'))
      if (status !== 401 && status !== 404) t.fail(`${target}: ${status} ${text}`)
      if (status === 401) served++
    }
    t.ok(served > 40, `${served} endpoints reject it, and no others exist`)
    for (const target of second) refused(t, await user(target, { body: { code: '000000' } }), 401, 'TOKEN_INVALID', target)
  })

  await t.test('a key rotation of the provider takes effect', async (t) => {
    await idp.rotate()
    const responses = await Promise.all(Array.from({ length: 4 }, async () => as(await idp.token({ app: { tenant: 'acme' } }))('GET /idp')))
    t.same(responses.map(({ status }) => status), [200, 200, 200, 200])
  })
})
