/**
 * Tools: `app.tools` lists and calls the routes that language models may call, those with `config: { tool }`. A tool has exactly
 * the rights of its caller.
 */
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { ToolDeclaration } from '../../lib/document/rules/tools.js'
import { routesWithin } from '../../lib/http/guards.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { createCounter } from '../metrics/counter.js'
import { documentationOf } from '../openapi/documentation.js'
import { refuseWrongTool } from './declaration.js'
import { trackNesting } from './nesting.js'
import { createRun } from './run.js'
import { createTools } from './service.js'
import type { ServeCall, ToolRoute } from './types.js'

export type { FindTenantTools, FoundTool, ServeCall, TenantTools, Tool, ToolCall, ToolCaller, ToolRoute, Tools } from './types.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Makes the route a tool. Its input has the parameters, the query string and the body of the route's schema. */
    tool?: ToolDeclaration & {
      /** The requirements that the handler itself has. Default: only the route's `permissions`. */
      readonly permissions?: readonly string[]
      /** Runs the route for calls within this process. Default: the router runs it, with all hooks of the app. */
      readonly serve?: ServeCall | undefined
    }
  }
}

/** The plugin has no options. */
export type ToolsOptions = Record<never, never>

export default definePlugin<ToolsOptions>({
  name: 'tools',
  dependencies: ['auth'],
  optional: ['database', 'metrics', 'rate-limit', 'responses', 'tenancy', 'tenant-config'],
  observesRoutes: true,
  options: {},
  setup (app) {
    const service = createTools({
      run: createRun(app, trackNesting(app)),
      count: createCounter(app, { name: 'tenantry_tool_calls_total', help: 'Calls of tools, by outcome.', labelNames: ['outcome'] }),
      documents: optional(app, 'tenantDocuments')
    })
    app.decorate('tools', service)
    const add = (route: RouteOptions, context: FastifyInstance) => {
      const tool = toolRouteOf(route, context)
      if (tool !== undefined) service.add(tool)
    }
    for (const { route, context } of routesWithin(app)) add(route, context)
    app.addHook('onRoute', function (route) {
      add(route, this)
    })
    let end: (() => void) | undefined
    app.addHook('onReady', async () => {
      end = optional(app, 'engine')()?.onCatalogue(() => service.invalidate())
    })
    app.addHook('onClose', async () => end?.())
  }
})

function toolRouteOf (route: RouteOptions, context: FastifyInstance): ToolRoute | undefined {
  const { method, url, config = {}, schema } = route
  const { tool, access = 'public', authProvider, permission, permissions = [], publicTenant } = config
  if (tool === undefined) return undefined
  const methods = [method].flat().filter((each) => each !== 'HEAD')
  const [name] = methods
  if (name === undefined) return undefined
  refuseWrongTool(route, methods)
  const { permissions: further = [], serve, ...declared } = tool
  const documented = { methods: [name], url, config, schema }
  return {
    declared,
    method: name,
    path: url,
    access,
    authProvider,
    permission,
    permissions: [...permissions, ...further],
    publicTenant,
    documentation: () => documentationOf(documented) ?? {},
    sharedSchemas: () => context.getSchemas(),
    serve,
    // The plugin rate-limit may change the route after this plugin.
    limit: () => route.config?.ownLimit ?? null
  }
}
