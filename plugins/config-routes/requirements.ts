/** What the compiled routes need of other plugins, said at start and not at the first request. */
import type { FastifyInstance } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'

/** Throws an error that names the plugin to register, and why. */
export function requirePlugins (app: FastifyInstance, routes: readonly CompiledRoute[]): void {
  const need = (decorator: string, plugin: string, because: string) => {
    if (!app.hasDecorator(decorator) && !app.hasRequestDecorator(decorator)) {
      throw new Error(`${because}: register the plugin "tenantry/plugins/${plugin}" before "tenantry/plugins/config-routes"`)
    }
  }
  need('rateLimit', 'rate-limit', 'configured routes count requests')
  const guarded = routes.find((route) => route.requireAuth || route.permissions.length > 0)
  if (guarded !== undefined) need('auth', 'auth', `the route ${guarded.id} needs a token`)
  const scoped = routes.find((route) => route.tenantScoped)
  if (scoped !== undefined) need('tenant', 'tenancy', `the route ${scoped.id} uses a tenant-scoped table`)
  const cached = routes.find((route) => route.cache !== null)
  if (cached !== undefined) need('cache', 'cache', `the route ${cached.id} is cached`)
}
