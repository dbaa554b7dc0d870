/**
 * The OpenAPI document of the app: `app.swagger()`, `GET /doc` and the pages under `/ui`. It has the routes of the app and, in `/doc` for
 * callers of a tenant, the tenant's own routes. @fastify/swagger collects the routes: in the app's own registration if there is one, else
 * in one that this plugin makes.
 */
import type { RouteOptions } from 'fastify'
import { routesWithin } from '../../lib/http/guards.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { flag, text } from '../../lib/plugin/options.js'
import { version } from '../../lib/version.js'
import { openApiRoutes } from './routes.js'
import { createOpenApi, type OpenApi } from './service.js'
import { appSwagger, ownSwagger } from './swagger.js'

export type {} from '@fastify/swagger'
export type { FurtherRoutes, OpenApi } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    openapi: OpenApi
  }
}

/** `title`, `version` and `description` have no effect if the app registers @fastify/swagger itself. */
export interface OpenApiOptions {
  /** Default: `API`. */
  readonly title?: string | undefined
  /** The version of the API. Default: the version of tenantry. */
  readonly version?: string | undefined
  readonly description?: string | undefined
  /** Serve the pages under `/ui`. Default: true. */
  readonly ui?: boolean | undefined
}

export default definePlugin<OpenApiOptions>({
  name: 'openapi',
  routeDependencies: [],
  optional: ['idempotency', 'tenancy', 'tenant-config'],
  options: { title: text, version: text, description: text, ui: flag },
  async setup (app, { title = 'API', version: apiVersion = version, description, ui = true }) {
    const earlier = routesWithin(app)
    const contexts = new Set([app])
    const service = createOpenApi(app, () => swagger.shell(), contexts)
    const info = { title, version: apiVersion, ...(description !== undefined && { description }) }
    const swagger = app.hasDecorator('swagger') ? appSwagger(app, service) : await ownSwagger(app, info, service)
    app.decorate('openapi', service)

    const add = (route: RouteOptions) => {
      const methods = [route.method].flat().filter((name) => name !== 'HEAD' && name !== 'OPTIONS')
      if (methods.length === 0 || !swagger.isOurs(route)) return
      swagger.prepare(route)
      const { url, config, schema } = route
      service.add({ methods, url, config, schema })
    }
    for (const { route, context } of earlier) {
      contexts.add(context)
      add(route)
    }
    app.addHook('onRegister', (context) => {
      contexts.add(context)
    })
    app.addHook('onRoute', add)
    return (group) => openApiRoutes(group, service, ui)
  }
})
