/**
 * Routes that were registered before this plugin was loaded (`app.register(auth); app.get(...)` without `await`) have
 * escaped its hook. One of them that declares `access` must not be served as if it had declared nothing.
 */
import type { FastifyInstance, RouteOptions } from 'fastify'

/** Marks the configuration of routes that the plugin has seen. */
const seen = Symbol('tenantry.auth.seen')

export function markSeen (route: RouteOptions): void {
  route.config = Object.assign({}, route.config, { [seen]: true })
}

/** Costs nothing where no route was registered yet; else every request looks at its route. */
export function refuseEarlierRoutes (app: FastifyInstance): void {
  if (!app.printRoutes().includes('/')) return
  app.addHook('onRequest', (request, _reply, done) => {
    const { config, url } = request.routeOptions
    if (config.access !== undefined && !(seen in config)) {
      throw new Error(`the route ${url} declares access and was registered before the plugin auth was loaded: await the plugin, or register the route in app.after() or in a plugin`)
    }
    done()
  })
}
