/** Error messages say what is wrong, what was expected, and what to do, to the caller who can do it. */
import t from 'tap'
import { testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'

t.test('messages', async (t) => {
  const app = await testServer(t, {
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true } } } },
    routes: [{ path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }]
  }, { tenants: ['acme'] })
  const administrator = bearer({ sub: 'ada', tenant_id: 'acme', role: 'admin' })
  const read = async (headers: Record<string, string>) => (await app.inject({ url: '/notes', headers })).json()

  t.test('the error for a user token without a tenant does not suggest a header that would be rejected', async (t) => {
    const expected = /the caller's token must have the tenant in its claim tenant_id/i
    t.match(await read(bearer({ sub: 'ada' })), { code: 'TENANTRY_TENANT_REQUIRED', message: expected })
    t.match(await read({ ...bearer({ sub: 'ada' }), 'x-tenant-id': 'acme' }), { code: 'TENANTRY_TENANT_MISMATCH', message: expected })
    for (const headers of [{}, bearer({ sub: 'ops', role: 'admin' })]) {
      t.match(await read(headers), { code: 'TENANTRY_TENANT_REQUIRED', message: /send the X-Tenant-ID header/ }, 'callers who may send it')
    }
  })

  t.test('an invalid API key is not reported as a token', async (t) => {
    t.match(await read({ 'x-api-key': 'wrong' }), { code: 'TENANTRY_TOKEN_INVALID', message: 'API key not recognized' })
    t.match(await read({ 'x-api-key': `tnt_${'x'.repeat(40)}` }), { code: 'TENANTRY_TOKEN_INVALID', message: 'API key not recognized' })
    t.match(await read({ authorization: 'Basic YTpi' }), { code: 'TENANTRY_TOKEN_MISSING', message: /expected Bearer/ })
  })

  t.test('an invalid value for a time or null gets one detail', async (t) => {
    const create = async (expiresAt: unknown) =>
      (await app.inject({
        method: 'POST',
        url: '/tenant/api-keys',
        headers: administrator,
        payload: { name: 'x', scopes: ['notes:read'], expiresAt }
      })).json().details
    t.strictSame(await create('2030-01-01'), [{
      path: '/body/expiresAt',
      message: 'must be a date and time such as 2026-01-31T12:00:00Z',
      keyword: 'format'
    }])
    t.strictSame(await create(5), [{ path: '/body/expiresAt', message: 'must be a string', keyword: 'type' }])
  })

  t.test('an unknown action or integration is named', async (t) => {
    const call = async (path: string) =>
      (await app.inject({ method: 'POST', url: `/integrations/${path}`, headers: administrator, payload: {} })).json()
    t.match(await call('stripe/creatCustomer'), { message: /^There is no action "creatCustomer": expected one of / })
    t.match(await call('strpe/createCustomer'), { message: /^There is no integration "strpe": expected one of / })
    t.ok((await call(`stripe/${'x'.repeat(500)}`)).message.length < 400, 'a long name is truncated')
  })
})
