/** `GET /`: the response on a path that most documents do not declare. */
import t from 'tap'
import { version } from '../../lib/version.js'
import { postgresSection } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'

const links = { documentation: '/ui', openapi: '/doc', health: '/health' }

t.test('GET /', async (t) => {
  const engine = await postgresSection(t)
  t.test('the home page links to the documentation in development', async (t) => {
    const app = await testServer(t, { routes: [] }, { engine })
    for (const url of ['/', '/?from=a-browser']) {
      const response = await app.inject(url)
      t.equal(response.statusCode, 302)
      t.equal(response.headers.location, '/ui')
    }
    t.equal((await app.inject({ method: 'HEAD', url: '/' })).statusCode, 302)
    t.match((await app.inject({ method: 'POST', url: '/' })).json(), { code: 'TENANTRY_NOT_FOUND' })
    t.equal((await app.inject('/no-such-path')).statusCode, 404)
  })

  t.test('in production, the home page names the API and links to the enabled groups', async (t) => {
    const app = await testServer(t, { name: 'Notes', routes: [], plugins: { openapi: { version: '2.1.0' } } }, {
      engine,
      env: { NODE_ENV: 'production' }
    })
    const response = await app.inject('/')
    t.equal(response.statusCode, 200)
    t.strictSame(response.json(), { name: 'Notes', version: '2.1.0', links })
    t.equal(response.headers['cache-control'], 'no-store')
    t.equal(response.headers['x-content-type-options'], 'nosniff')

    const bare = await testServer(t, { routes: [], plugins: { openapi: false, health: false } }, { engine })
    t.strictSame((await bare.inject('/')).json(), { name: 'API', version, links: {} }, 'without pages, the home page has no links')
  })

  t.test('a route of the document replaces the home page', async (t) => {
    const declared = await testServer(t, { routes: [{ path: '/', method: 'get', response: { own: true } }] }, { engine })
    t.strictSame((await declared.inject('/')).json(), { own: true })
    const other = await testServer(t, { routes: [{ path: '/', method: 'post', response: { own: true } }] }, { engine })
    t.equal((await other.inject('/')).statusCode, 405, 'the path is in use')
  })

  t.test("a tenant's own route replaces the home page for its callers", async (t) => {
    const app = await testServer(t, { routes: [] }, { engine, tenants: ['acme', 'globex'] })
    const as = (tenant: string) => bearer({ sub: 'ada', tenant_id: tenant, role: 'admin' })
    const routes = [{ path: '/', method: 'get', response: { tenant: 'acme' } }]
    const saved = await app.inject({ method: 'POST', url: '/tenant/config', headers: as('acme'), payload: { routes } })
    t.equal(saved.statusCode, 200, saved.body)
    t.strictSame((await app.inject({ url: '/', headers: as('acme') })).json(), { tenant: 'acme' })
    t.strictSame((await app.inject({ url: '/', headers: { 'x-tenant-id': 'acme' } })).json(), { tenant: 'acme' })
    t.equal((await app.inject({ url: '/', headers: as('globex') })).statusCode, 302, 'not for another tenant')
    t.equal((await app.inject('/')).statusCode, 302)
  })
})
