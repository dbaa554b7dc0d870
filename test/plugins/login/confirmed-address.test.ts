/** Routes that require a confirmed address. */
import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { caller } from '../../http/caller.js'
import { password } from './app.js'

test('a route that requires email_verified shows nothing for an address that is not confirmed', async (t) => {
  const app = await testServer(t, {
    auth: { registration: 'open' },
    tables: {
      guest_orders: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, email: { type: 'text', notNull: true } } }
    },
    routes: [{
      path: '/my-orders',
      method: 'get',
      requireAuth: true,
      workflow: {
        steps: [{
          id: 'orders',
          type: 'database',
          operation: 'select',
          table: 'guest_orders',
          condition: 'auth.email_verified == true',
          filters: [{ column: 'email', value: '{{auth.email}}' }]
        }]
      }
    }, { path: '/orders', method: 'post', queries: [{ table: 'guest_orders', operation: 'insert' }] }]
  }, { engine: await postgresSection(t), tenants: ['acme'] })
  const ask = caller(t, app, { tenant: 'acme' })
  const email = 'victim@example.com'
  t.equal((await ask('POST /orders', { body: { id: 1, email } })).status, 201)

  const { body: { token, refreshToken } } = await ask('POST /auth/register', { body: { email, password } })
  t.match(await ask('GET /my-orders', { token: String(token) }), { status: 200, body: { result: null } })

  await app.db.updateTable('tenantry.users').set({ email_verified_at: new Date() }).where('tenant_id', '=', 'acme').execute()
  const { body: refreshed } = await ask('POST /auth/refresh', { body: { refreshToken } })
  const shown = await ask('GET /my-orders', { token: String(refreshed['token']) })
  t.match(shown, { status: 200, body: { result: { data: [{ id: 1, email }] } } })
})
