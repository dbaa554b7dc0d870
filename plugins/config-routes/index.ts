/**
 * The routes that a document declares. A route group: it registers endpoints and decorates nothing.
 * Needs the plugins database, auth and rate-limit; tenancy where a route uses a tenant-scoped table, cache where one is cached.
 */
import type {} from '../openapi/index.js'
import type {} from '../usage/requests.js'
import type {} from '../workflows/index.js'
import type { FastifyInstance } from 'fastify'
import type { CheckedRoutesOptions, ConfigRoutesOptions } from './options.js'
import fp from 'fastify-plugin'
import type { Route } from '../../lib/config/schema/route.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { documentRoute } from '../../lib/compiler/documentation.js'
import { pointerTo } from '../../lib/config/faults.js'
import { checkConfig } from '../../lib/config/index.js'
import { webhookRoutes } from '../../lib/config/webhook-routes.js'
import { platformConnectors } from '../../lib/connectors/index.js'
import { setting } from '../../lib/config/environment.js'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { requirePlugins } from './requirements.js'
import { createGeneration } from './generation.js'
import { readinessOf } from './readiness.js'
import { receiptsOf } from './receipts.js'
import { serveRoute, servingOf } from './serve.js'
import { keepSignedBodies } from './signed-body.js'

/** Compiles checked routes against the database and mounts them; throws a ConfigError that holds every fault. */
export async function configRoutes (app: FastifyInstance, { routes, webhooks, workflows, connectors, pagination, cache, tenancy, env }: CheckedRoutesOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'config-routes')
  await app.register(conventions)
  const readiness = await readinessOf(app.engine, app.log)
  const declared = [...routes.map((value, index) => ({ pointer: pointerTo('/routes', index), value })), ...webhookRoutes(webhooks)]
  const generation = createGeneration(declared, {
    env,
    pagination,
    cache,
    sharedTables: new Set(tenancy.sharedTables),
    overridableEnv: new Set(tenancy.overridableEnv),
    origin: 'platform',
    connectors,
    declaredWorkflows: workflows,
    stepKinds: app.hasDecorator('workflows') ? app.workflows.steps : {}
  }, app.engine, app.log)
  // Told after the generation, which compiles its routes anew.
  const end = app.hasDecorator('openapi') ? app.engine.onCatalogue(() => app.openapi.invalidate()) : null
  app.addHook('onClose', async () => {
    end?.()
    generation.close()
  })
  requirePlugins(app, generation.routes.map(({ compiled }) => compiled))

  const serving = servingOf(app, { dashboardPermission: tenancy.dashboardPermission, overridableEnv: tenancy.overridableEnv, appUrl: setting(env, 'APP_URL'), receipts: receiptsOf(app) })
  const mount = (to: FastifyInstance, declared: Route, route: CompiledRoute, index: number) => {
    to.route({
      method: route.method,
      url: declared.path,
      config: {
        access: route.requireAuth ? 'user' : 'open',
        authProvider: route.authProvider,
        publicTenant: route.publicTenant,
        countsStrangers: route.webhook === null ? true : 'signed',
        tenantInQuery: route.webhook !== null,
        // Whoever signs is not held to the limit of strangers.
        ...(route.rateLimit !== null ? { rateLimitRule: route.rateLimit } : route.webhook !== null && { rateLimitRule: false }),
        openapi: () => generation.documentation(index) ?? documentRoute(declared, route)
      },
      handler: (request, reply) => readiness.whenMigrated(() => {
        const compiled = generation.route(index)
        if (compiled === null) throw readiness.schemaChanged()
        return serveRoute(compiled, serving, request, reply)
      })
    })
  }
  for (const [index, { declared, compiled }] of generation.routes.entries()) if (compiled.webhook === null) mount(app, declared, compiled, index)
  await app.register(async (signed) => {
    keepSignedBodies(signed, () => true)
    for (const [index, { declared, compiled }] of generation.routes.entries()) if (compiled.webhook !== null) mount(signed, declared, compiled, index)
  })
}

/** Checks the sections that an app gives, then mounts their routes. */
async function embeddedRoutes (app: FastifyInstance, { env = process.env, ...sections }: ConfigRoutesOptions): Promise<void> {
  const config = checkConfig(sections, { env, embedded: true })
  await configRoutes(app, { ...config, connectors: platformConnectors(config, env, config.tenancy.overridableEnv), env })
}

export default fp(embeddedRoutes, {
  name: 'tenantry-config-routes',
  fastify: '5.x',
  encapsulate: true
})
