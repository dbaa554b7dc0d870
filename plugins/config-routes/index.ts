/**
 * The routes that a document declares. A route group: it registers endpoints and decorates nothing.
 * Needs the plugins database, auth and rate-limit; tenancy where a route uses a tenant-scoped table, cache where one is cached.
 */
import type { FastifyInstance } from 'fastify'
import type { ConfigRoutesOptions } from './options.js'
import fp from 'fastify-plugin'
import conventions from '../conventions.js'
import { requireDecorator } from '../requirement.js'
import { requirePlugins } from './requirements.js'
import { createGeneration } from './generation.js'
import { serveRoute, type Serving } from './serve.js'

/** Compiles the routes against the database and mounts them; throws a ConfigError that holds every fault. */
export async function configRoutes (app: FastifyInstance, options: ConfigRoutesOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'config-routes')
  await app.register(conventions)
  const generation = await createGeneration(options.routes, {
    env: options.env ?? process.env,
    pagination: options.pagination ?? { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 },
    sharedTables: new Set(options.tenancy?.sharedTables),
    origin: 'platform',
    cache: options.cache ?? { enabled: true, ttl: 60 }
  }, app.engine, app.log)
  app.addHook('onClose', async () => generation.close())
  requirePlugins(app, generation.routes)

  const serving: Serving = {
    engine: app.engine,
    cache: app.hasDecorator('cache') ? app.cache : null,
    dashboardPermission: options.tenancy?.dashboardPermission
  }
  for (const [index, route] of generation.routes.entries()) {
    app.route({
      method: route.method,
      url: route.path,
      config: {
        access: route.requireAuth ? 'user' : 'open',
        publicTenant: route.publicTenant,
        ...(route.rateLimit !== null && { rateLimitRule: route.rateLimit }),
        openapi: route.documentation
      },
      handler: async (request, reply) => {
        const migrated = generation.migrated()
        if (migrated !== true) await migrated
        return serveRoute(generation.route(index), serving, request, reply)
      }
    })
  }
}

export default fp(configRoutes, {
  name: 'tenantry-config-routes',
  fastify: '5.x',
  encapsulate: true
})
