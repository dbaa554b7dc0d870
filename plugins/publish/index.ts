/**
 * Publishing (SPEC "Migration and publishing", DESIGN 11): whether the database is ready for it, and rows written with a look
 * at their table first. A route group: it registers endpoints and decorates nothing. Needs the plugins database, auth and
 * tenancy; tells the plugins cache and webhooks of what it writes where they are registered.
 */
import type {} from '../auth/index.js'
import type {} from '../cache/store.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../webhooks/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { createReadiness, type Readiness } from './readiness.js'
import { publishRoutes } from './routes.js'
import { createPublishing, type Publishing } from './service.js'

export async function publish (app: FastifyInstance): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'publish')
  // Without them nothing would stand between a stranger and the tables, and rows would be nobody's.
  requireDecorator(app, 'auth', 'auth', 'publish')
  requireDecorator(app, 'tenants', 'tenancy', 'publish')
  await app.register(conventions)
  const { engine } = app
  let readiness: Readiness
  let publishing: Publishing
  // The plugins that it asks and tells may be registered after this one.
  app.addHook('onReady', async () => {
    const cache = app.hasDecorator('cache') ? app.cache : null
    const webhooks = app.hasDecorator('webhooks') ? app.webhooks : null
    readiness = createReadiness({ engine, cache, log: app.log })
    publishing = createPublishing({ engine, cache, webhooks })
  })
  publishRoutes(app, () => readiness, () => publishing)
}

export default fp(publish, { name: 'tenantry-publish', fastify: '5.x', encapsulate: true })
