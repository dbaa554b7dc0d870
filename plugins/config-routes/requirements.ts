/** The plugins that compiled routes need. A missing one fails the start, and not the first request. */
import type { FastifyInstance } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { requirePlugin } from '../../lib/plugin/dependencies.js'

/** Throws an error that names the plugin to register. */
export function requirePlugins (app: FastifyInstance, routes: readonly CompiledRoute[]): void {
  const need = (plugin: string, isNeeded: (route: CompiledRoute) => boolean) => {
    if (routes.some(isNeeded)) requirePlugin(app, plugin, 'config-routes')
  }
  need('auth', (route) => route.requireAuth || route.permissions.length > 0 || route.authProvider !== 'jwt')
  need('tenancy', (route) => route.tenantScoped)
  need(
    'secrets',
    (route) => route.secrets.some((key) => !route.optionalSecrets.has(key)) || (route.webhook !== null && route.webhook.key !== null)
  )
  need('resource-limits', (route) => route.resourceLimit !== null)
  need('cache', (route) => route.cache !== null)
  need('integrations', (route) => route.integrations.length > 0 || route.workflow?.workflow.calls === true)
  need('files', (route) => route.files !== null)
  need('realtime', (route) => route.realtime !== null)
  need('workflows', (route) => route.workflow?.async === true)
}
