/** What the compiled routes need of other plugins, said at start and not at the first request. */
import type { FastifyInstance } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { hasPlugin, requireDecorator } from '../../lib/plugin/requirement.js'

/** Throws an error that names the plugin to register. */
export function requirePlugins (app: FastifyInstance, routes: readonly CompiledRoute[]): void {
  const need = (decorator: string, plugin: string) => requireDecorator(app, decorator, plugin, 'config-routes')
  need('rateLimiter', 'rate-limit')
  if (routes.some((route) => route.requireAuth || route.permissions.length > 0 || route.authProvider !== 'jwt')) need('auth', 'auth')
  if (routes.some((route) => route.tenantScoped)) need('tenant', 'tenancy')
  if (routes.some((route) => route.secrets.some((key) => !route.optionalSecrets.has(key)) || (route.webhook !== null && route.webhook.key !== null))) need('secrets', 'secrets')
  if (routes.some((route) => route.resourceLimit !== null)) need('resourceLimits', 'resource-limits')
  if (routes.some((route) => route.cache !== null)) need('cache', 'cache')
  if (routes.some((route) => route.workflow?.workflow.calls === true)) need('integrations', 'integrations')
  if (routes.some((route) => route.workflow?.async === true)) need('workflows', 'workflows')
  if (routes.some((route) => route.integrations.length > 0)) need('integrations', 'integrations')
  // Taken where they are registered, whatever the routes say: they learn of writes, or give their own settings.
  for (const [decorator, plugin] of [['cache', 'cache'], ['webhooks', 'webhooks'], ['secrets', 'secrets'], ['workflows', 'workflows'], ['resourceLimits', 'resource-limits']] as const) {
    hasPlugin(app, decorator, plugin, 'config-routes')
  }
}
