/**
 * The routes that a document declares. A route group: it registers endpoints and decorates nothing.
 * Needs the plugins database, auth and rate-limit; tenancy where a route uses a tenant-scoped table, cache where one is cached.
 */
import type {} from '../openapi/index.js'
import type {} from '../usage/requests.js'
import type { FastifyInstance } from 'fastify'
import type { CheckedRoutesOptions, ConfigRoutesOptions } from './options.js'
import fp from 'fastify-plugin'
import { checkConfig } from '../../lib/config/index.js'
import conventions from '../conventions.js'
import { requireDecorator } from '../requirement.js'
import { requirePlugins } from './requirements.js'
import { createGeneration } from './generation.js'
import { readinessOf } from './readiness.js'
import { serveRoute, servingOf } from './serve.js'

/** Compiles checked routes against the database and mounts them; throws a ConfigError that holds every fault. */
export async function configRoutes (app: FastifyInstance, { routes, pagination, cache, tenancy, env }: CheckedRoutesOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'config-routes')
  await app.register(conventions)
  const readiness = await readinessOf(app.engine, app.log)
  const generation = createGeneration(routes, {
    env, pagination, cache, sharedTables: new Set(tenancy.sharedTables), overridableEnv: new Set(tenancy.overridableEnv), origin: 'platform'
  }, app.engine, app.log)
  // Told after the generation, which compiles its routes anew.
  const end = app.hasDecorator('openapi') ? app.engine.onCatalogue(() => app.openapi.invalidate()) : null
  app.addHook('onClose', async () => {
    end?.()
    generation.close()
  })
  requirePlugins(app, generation.routes)

  const serving = servingOf(app, tenancy.dashboardPermission, tenancy.overridableEnv)
  for (const [index, route] of generation.routes.entries()) {
    app.route({
      method: route.method,
      url: route.path,
      config: {
        access: route.requireAuth ? 'user' : 'open',
        authProvider: route.authProvider,
        publicTenant: route.publicTenant,
        countsStrangers: true,
        ...(route.rateLimit !== null && { rateLimitRule: route.rateLimit }),
        openapi: () => generation.documentation(index) ?? route.documentation
      },
      handler: async (request, reply) => {
        const migrated = readiness.migrated()
        if (migrated !== true) await migrated
        const compiled = generation.route(index)
        if (compiled === null) throw readiness.schemaChanged()
        return serveRoute(compiled, serving, request, reply)
      }
    })
  }
}

/** Checks the sections that an app gives, then mounts their routes. */
async function embeddedRoutes (app: FastifyInstance, { env = process.env, ...sections }: ConfigRoutesOptions): Promise<void> {
  await configRoutes(app, { ...checkConfig(sections, { env, embedded: true }), env })
}

export default fp(embeddedRoutes, {
  name: 'tenantry-config-routes',
  fastify: '5.x',
  encapsulate: true
})
