/**
 * Rows of the application's tables for administrators, without a route for each (SPEC "Admin entity routes"). A route
 * group: it registers endpoints and decorates nothing. Needs the plugins database, auth and tenancy; tells the plugins cache
 * and webhooks of what it writes where they are registered.
 */
import type {} from '../auth/index.js'
import type {} from '../cache/store.js'
import type {} from '../database/index.js'
import type {} from '../webhooks/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { adminRoutes } from './routes.js'
import { createEntities, type Entities } from './service.js'

export async function admin (app: FastifyInstance): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'admin')
  // Without them nothing would stand between a stranger, or another tenant, and these rows.
  requireDecorator(app, 'auth', 'auth', 'admin')
  requireDecorator(app, 'tenants', 'tenancy', 'admin')
  await app.register(conventions)
  const { engine, tenants } = app
  // The plugins that it tells may be registered after this one.
  let entities: Entities
  app.addHook('onReady', async () => {
    entities = createEntities({
      engine,
      tenants,
      cache: app.hasDecorator('cache') ? app.cache : null,
      webhooks: app.hasDecorator('webhooks') ? app.webhooks : null
    })
  })
  adminRoutes(app, () => entities)
}

export default fp(admin, { name: 'tenantry-admin', fastify: '5.x', encapsulate: true })
