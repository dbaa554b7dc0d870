/** Request targets in absolute form, as proxies send them. */
import { once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { listen, testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'
import { ownApp } from '../plugins/tenant-config/app.js'

async function asker (app: FastifyInstance) {
  const { hostname, port } = new URL(await listen(app))
  return async (method: string, path: string, headers: Record<string, string> = {}) => {
    const [response] = await once(request({ hostname, port, method, path, headers }).end(), 'response')
    return { status: response.statusCode, location: response.headers.location, body: await text(response) }
  }
}

test('the home page and resumable uploads are found by absolute targets', async (t) => {
  const app = await testServer(t, { routes: [], files: { path: t.testdir() } }, { tenants: ['acme'] })
  const ask = await asker(app)
  t.match(await ask('GET', 'http://ada:secret@host/?from=a-proxy'), { status: 302, location: '/ui' })
  const headers = { ...bearer({ sub: 'ada', tenant_id: 'acme' }), 'tus-resumable': '1.0.0' }
  const metadata = { 'upload-length': '1', 'upload-metadata': `filename ${Buffer.from('a.txt').toString('base64')}` }
  const created = await ask('POST', 'http://ada:secret@host/files/resumable', { ...headers, ...metadata })
  t.match(created, { status: 201, location: /^\/files\/resumable\/[0-9a-f-]{36}$/ })
  t.equal((await ask('HEAD', `http://ada:secret@host${created.location}`, headers)).status, 200)
})

test("tenants' routes below a prefix are found by absolute targets", async (t) => {
  const app = await ownApp(t, { 'tenant-config': { prefix: '/api' } })
  const routes = [{ path: '/mine', method: 'get', response: { by: 'the tenant' } }]
  const admin = bearer({ sub: 'ada', tenant_id: 'acme', role: 'admin' })
  t.equal((await app.inject({ method: 'POST', url: '/api/tenant/config', headers: admin, payload: { routes } })).statusCode, 200)
  const ask = await asker(app)
  t.same(await ask('GET', 'http://host/api/mine?a=b', admin), { status: 200, location: undefined, body: '{"by":"the tenant"}' })
})
