import type { TenancyOptions } from '../../plugins/tenancy.js'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import auth from '../../plugins/auth/index.js'
import conventions from '../../plugins/conventions.js'
import tenancy from '../../plugins/tenancy.js'
import { bearer, testSecret, type TokenClaims } from '../helpers/tokens.js'

function createApp (options: TenancyOptions = {}): FastifyInstance {
  const app = Fastify()
  app.register(conventions)
  app.register(auth, { jwt: { secret: testSecret } })
  app.register(tenancy, options)
  app.after(() => {
    app.get('/open', { config: { access: 'open' } }, async ({ tenant }) => ({ tenant }))
    app.get('/closed', { config: { access: 'open', publicTenant: false } }, async ({ tenant }) => ({ tenant }))
    app.get('/user', { config: { access: 'user' } }, async ({ tenant }) => ({ tenant }))
    app.get('/public', { config: { access: 'public' } }, async ({ tenant }) => ({ tenant }))
  })
  return app
}

/** The tenant's id, or the code of the error. */
async function tenantOf (app: FastifyInstance, url: string, claims: TokenClaims | null, header?: string): Promise<unknown> {
  const response = await app.inject({ url, headers: { ...(claims !== null && bearer(claims)), ...(header !== undefined && { 'x-tenant-id': header }) } })
  const body = response.json()
  return response.statusCode === 200 ? body.tenant?.id ?? null : `${response.statusCode} ${body.code}`
}

t.test('the claim names the tenant, and the header must be equal to it', async (t) => {
  const app = createApp()
  const claims = { tenant_id: 'acme' }
  t.equal(await tenantOf(app, '/user', claims), 'acme')
  t.equal(await tenantOf(app, '/user', claims, 'acme'), 'acme')
  t.equal(await tenantOf(app, '/user', claims, 'globex'), '403 TENANTRY_TENANT_MISMATCH')
  t.equal(await tenantOf(app, '/open', claims, 'globex'), '403 TENANTRY_TENANT_MISMATCH')
  t.equal(await tenantOf(app, '/user', { ...claims, role: 'admin' }, 'globex'), '403 TENANTRY_TENANT_MISMATCH', "a tenant's administrator")
})

t.test('only a platform administrator may name any tenant', async (t) => {
  const app = createApp()
  t.equal(await tenantOf(app, '/user', { role: 'admin' }, 'globex'), 'globex')
  t.equal(await tenantOf(app, '/user', { role: 'admin' }), null)
  t.equal(await tenantOf(app, '/user', { role: 'editor' }, 'globex'), '403 TENANTRY_TENANT_MISMATCH')
  t.equal(await tenantOf(app, '/open', { permissions: ['*'] }, 'globex'), '403 TENANTRY_TENANT_MISMATCH')
  t.equal(await tenantOf(app, '/user', {}), null)
})

t.test('a caller without a token names the tenant on open routes that allow it', async (t) => {
  const app = createApp()
  t.equal(await tenantOf(app, '/open', null, 'acme'), 'acme')
  t.equal(await tenantOf(app, '/open', null), null)
  t.equal(await tenantOf(app, '/closed', null, 'acme'), '401 TENANTRY_TOKEN_MISSING')
  t.equal(await tenantOf(app, '/closed', null), null)
  t.equal(await tenantOf(app, '/closed', { tenant_id: 'acme' }, 'acme'), 'acme')
  t.equal(await tenantOf(app, '/public', null, 'acme'), null)
})

t.test('a malformed id and several headers are 400, whoever sends them', async (t) => {
  const app = createApp()
  for (const header of ['', 'a b', 'a.b', '../x', 'acme,globex', 'acme, acme', 'x'.repeat(65), 'é', "a'--"]) {
    for (const claims of [null, { tenant_id: 'acme' }, { role: 'admin' }]) {
      t.equal(await tenantOf(app, '/open', claims, header), '400 TENANTRY_TENANT_INVALID', header)
    }
  }
  t.equal(await tenantOf(app, '/open', null, 'x'.repeat(64)), 'x'.repeat(64))
})

t.test('a header that a gateway sets decides where the token names no tenant', async (t) => {
  const app = createApp({ trustHeader: true })
  t.equal(await tenantOf(app, '/user', { role: 'editor' }, 'globex'), 'globex')
  t.equal(await tenantOf(app, '/closed', null, 'globex'), 'globex')
  t.equal(await tenantOf(app, '/user', { tenant_id: 'acme' }, 'globex'), '403 TENANTRY_TENANT_MISMATCH')
})

t.test('no request sees the tenant of another', async (t) => {
  const app = createApp()
  t.equal(await tenantOf(app, '/open', null, 'acme'), 'acme')
  t.equal(await tenantOf(app, '/open', null), null)
})

t.test('without the plugin auth the start fails and names it', async (t) => {
  await t.rejects(async () => Fastify().register(tenancy).ready(), /register the plugin "tenantry\/plugins\/auth" before "tenantry\/plugins\/tenancy"/)
})
