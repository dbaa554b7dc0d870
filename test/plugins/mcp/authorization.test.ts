import { request } from 'node:http'
import { OAuth2Server } from 'oauth2-mock-server'
import { type Test, test } from 'tap'
import { secretToken } from '../../helpers/log-scan.js'
import { serve, token } from './app.js'

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }

test('a caller without a valid token gets the address of the authorization server', async (t) => {
  const { post, url } = await serve(t, {
    authProviders: { idp: { issuer: 'https://idp.example.com', jwksUri: 'https://idp.example.com/jwks', audience: 'x' } }
  })
  const metadata = `${url}/.well-known/oauth-protected-resource/mcp`
  const none = await post(list)
  t.equal(none.status, 401)
  t.equal(none.headers.get('www-authenticate'), `Bearer resource_metadata="${metadata}"`)
  const wrong = await post(list, { authorization: 'Bearer wrong' })
  t.equal(wrong.status, 401)
  t.match(wrong.headers.get('www-authenticate'), new RegExp(`^Bearer resource_metadata="${metadata}", error="invalid_token"`))
  const expired = await post(list, token('acme', { exp: 1000 }))
  t.match([expired.status, expired.headers.get('www-authenticate')], [401, /error="invalid_token"/])
  const found = await fetch(metadata)
  t.match([found.status, await found.json()], [200, {
    resource: `${url}/mcp`,
    authorization_servers: ['https://idp.example.com'],
    bearer_methods_supported: ['header'],
    resource_name: 'Notes'
  }])
})

test("a provider's tokens must be for this audience", async (t) => {
  const server = await issuer(t)
  const address = server.issuer.url ?? ''
  const { post } = await serve(t, {
    authProviders: { idp: { issuer: address, jwksUri: `${address}/jwks`, audience: 'https://api.example.com/mcp', tenantClaim: 'org' } }
  })
  const ask = async (aud: string) => {
    const text = secretToken(
      await server.issuer.buildToken({
        scopesOrTransform: (_header, payload) => {
          Object.assign(payload, { sub: 'u1', aud, org: 'acme' })
        }
      })
    )
    return (await post(list, { authorization: `Bearer ${text}` })).status
  }
  t.equal(await ask('https://api.example.com/mcp'), 200)
  t.equal(await ask('https://other.example.com/mcp'), 401)
})

test("a tenant's API keys are accepted, with their own permissions only", async (t) => {
  const { app, connect, post } = await serve(t)
  const made = await app.inject({
    method: 'POST',
    url: '/tenant/api-keys',
    headers: token('acme', { role: 'admin' }),
    payload: { name: 'assistant', scopes: ['notes:delete'] }
  })
  t.equal(made.statusCode, 201, made.body)
  const key = secretToken(made.json().key)
  const client = await connect({ 'x-api-key': key })
  t.ok((await client.listTools()).tools.some(({ name }) => name === 'remove_note'))
  await client.callTool({ name: 'add_note', arguments: { body: { title: 'of a key' } } })
  t.match(await (await connect(token('acme'))).callTool({ name: 'get_notes', arguments: {} }), {
    structuredContent: { data: [{ title: 'of a key' }] }
  })
  t.match(await (await connect(token('globex'))).callTool({ name: 'get_notes', arguments: {} }), { structuredContent: { data: { length: 0 } } })
  t.equal((await post(list, { 'x-api-key': `${key}x` })).status, 401)
})

test('a wrong Host or Origin is rejected', async (t) => {
  const { app, post, url } = await serve(t, { cors: { origins: ['https://app.example.com'] } })
  const saved = await app.inject({
    method: 'POST',
    url: '/tenant/config',
    headers: token('acme', { role: 'admin' }),
    payload: { cors: { origins: ['https://acme.example.com'] } }
  })
  t.equal(saved.statusCode, 200, saved.body)
  const from = async (origin: string, tenant = 'acme') => (await post(list, { ...token(tenant), origin })).status
  t.equal(await from('https://app.example.com'), 200)
  t.equal(await from('https://acme.example.com'), 200)
  t.equal(await from('https://acme.example.com', 'globex'), 403, "another tenant's origin")
  t.equal(await from('https://evil.example.com'), 403)
  t.equal(await from('null'), 403)
  t.equal(await from(url), 200)
  const host = (name: string) => statusOf(url, { host: name, ...token('acme') })
  t.equal(await host('evil.example.com'), 403)
  t.equal(await host(`evil.example.com:${new URL(url).port}`), 403)
  t.equal(await host(new URL(url).host), 200)
})

test('without cors no page of another origin may call', async (t) => {
  const { post } = await serve(t)
  t.equal((await post(list, { ...token('acme'), origin: 'https://app.example.com' })).status, 403)
})

/** `fetch` sets the Host header itself. */
async function statusOf (url: string, headers: Record<string, string>): Promise<number | undefined> {
  return await new Promise((resolve, reject) => {
    request(`${url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers }
    }, (response) => {
      response.resume()
      resolve(response.statusCode)
    }).once('error', reject).end(JSON.stringify(list))
  })
}

async function issuer (t: Test): Promise<OAuth2Server> {
  const server = new OAuth2Server()
  await server.issuer.keys.generate('RS256')
  await server.start(0, '127.0.0.1')
  t.teardown(() => server.stop())
  return server
}
