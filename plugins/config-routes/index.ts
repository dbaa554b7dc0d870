/** The routes that a document declares. Startup fails with a ConfigError that holds every fault of the sections. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { compileDocument, type CompiledParts } from '../../lib/compiler/document.js'
import { documentRoute, type RouteDocumentation } from '../../lib/compiler/documentation.js'
import type { CompiledRoute, RouteContext } from '../../lib/compiler/route.js'
import { readsByPath } from '../../lib/compiler/write-headers.js'
import { checkConfig, type Config, type ConfigInput, type Env } from '../../lib/configuration/index.js'
import { type ConnectorSet, platformConnectors } from '../../lib/connectors/index.js'
import type { Engine } from '../../lib/database/engine.js'
import { toolOf } from '../../lib/document/rules/tools.js'
import { webhookRoutes } from '../../lib/document/webhook-routes.js'
import { setting } from '../../lib/expressions/environment.js'
import { definePlugin, optional, requirePlugin } from '../../lib/plugin/define.js'
import { list, record } from '../../lib/plugin/options.js'
import { RouteRequest } from '../../lib/runtime/route-request.js'
import type { Origin } from '../../lib/runtime/services.js'
import { FaultList, formatFault, pointerTo } from '../../lib/schema/faults.js'
import type { Route } from '../../lib/schema/route.js'
import { workflowsOf } from '../../lib/workflows/index.js'
import type {} from '../openapi/index.js'
import type {} from '../responses/index.js'
import type {} from '../tools/index.js'
import type { ServeCall } from '../tools/types.js'
import type {} from '../usage/requests.js'
import type {} from '../workflows/index.js'
import { keepSignedBodies } from './inbound.js'
import { acceptForms, readinessOf, type Serving, servingCalls, servingOf } from './serving.js'
import { webhookDeduplicationOf } from './webhook-deduplication.js'

/** The document's sections of the same names. */
export interface ConfigRoutesOptions extends
  Partial<
    Pick<ConfigInput, 'routes' | 'pagination' | 'cache' | 'functions' | 'tenancy' | 'workflows' | 'credentials' | 'customIntegrations'>
  > {
  /** A checked configuration, instead of the sections. */
  readonly config?: Config | undefined
  /** The configuration's compiled connectors. Default: compiled from the configuration. */
  readonly connectors?: ConnectorSet | undefined
  /** The values of `{{env.NAME}}`. Default: the process's environment. */
  readonly env?: Env | undefined
}

export default definePlugin<ConfigRoutesOptions>({
  name: 'config-routes',
  dependencies: ['database', 'rate-limit'],
  optional: ['integrations'],
  after: ['cache', 'files', 'idempotency', 'openapi', 'realtime', 'resource-limits', 'secrets', 'tools', 'webhooks', 'workflows'],
  routeDependencies: [],
  // The configuration check validates the members of the sections.
  options: {
    routes: list,
    pagination: record,
    cache: record,
    functions: record,
    tenancy: record,
    workflows: list,
    credentials: record,
    customIntegrations: list,
    config: record,
    connectors: record,
    env: record
  },
  async setup (
    app,
    {
      env = process.env, config, connectors, routes = [], pagination, cache, functions, tenancy, workflows,
      credentials, customIntegrations
    }
  ) {
    const checked = config ??
      checkConfig({ routes, pagination, cache, functions, tenancy, workflows, credentials, customIntegrations }, { env, embedded: true })
    const { overridableEnv, sharedTables, dashboardPermission } = checked.tenancy
    const readiness = await readinessOf(app.engine, app.log)
    const declared = [
      ...checked.routes.map((value, index) => ({ pointer: pointerTo('/routes', index), value })),
      ...webhookRoutes(checked.webhooks)
    ]
    const generation = createGeneration(
      { routes: declared, workflows: workflowsOf(checked.workflows) },
      {
        env,
        pagination: checked.pagination,
        cache: checked.cache,
        sharedTables: new Set(sharedTables),
        overridableEnv: new Set(overridableEnv),
        functions: checked.functions,
        origin: 'platform',
        connectors: connectors ?? platformConnectors(checked, env, overridableEnv),
        firestore: app.firestore,
        fileRules: optional(app, 'routeFiles')()?.rules,
        stepKinds: optional(app, 'workflows')()?.steps ?? {}
      },
      app.engine,
      app.log
    )
    // Must follow the generation's own listener, which recompiles the routes: the documentation reads them.
    const openapi = optional(app, 'openapi')()
    const end = app.engine.onCatalogue(() => openapi?.invalidate())
    app.addHook('onClose', async () => {
      end()
      generation.close()
    })
    requirePlugins(app, generation.routes.map(({ compiled }) => compiled))

    const deduplication = webhookDeduplicationOf(app)
    const mount = (group: FastifyInstance, serving: Serving, declared: Route, route: CompiledRoute, index: number) => {
      const tool = toolOf(declared)
      const current = (): CompiledRoute => {
        const compiled = generation.route(index)
        if (compiled === null) throw readiness.schemaChanged()
        return compiled
      }
      const calls = servingCalls(serving)
      const serve: ServeCall = (call, reply) =>
        readiness.whenMigrated(() => new RouteRequest(current(), calls, call, reply, origin).handle())
      const origin: Origin = { generation: '', placeOf: (pointer) => pointer, readOnPath: () => generation.readOnPath(index) }
      group.route({
        method: route.method,
        url: declared.path,
        config: {
          access: route.requireAuth ? 'user' : 'open',
          authProvider: route.authProvider,
          publicTenant: route.publicTenant,
          countsUnauthenticated: route.webhook === null ? true : 'signed',
          tenantInQuery: route.webhook !== null,
          ...route.files !== null && { streamsBody: 'form' as const },
          // The limit of unauthenticated callers does not apply to a signed request.
          ...(route.rateLimit !== null ? { rateLimitRule: route.rateLimit } : route.webhook !== null && { rateLimitRule: false }),
          ...tool !== undefined && { tool: { ...tool, permissions: route.permissions, ...route.files === null && { serve } } },
          openapi: () => generation.documentation(index) ?? documentRoute(declared, route)
        },
        handler: (request, reply) => readiness.whenMigrated(() => new RouteRequest(current(), serving, request, reply, origin).serve())
      })
    }
    return async (group) => {
      const serving = servingOf(app, {
        dashboardPermission,
        overridableEnv,
        appUrl: setting(env, 'APP_URL'),
        deduplication,
        prefix: group.prefix
      })
      const mountAll = (app: FastifyInstance, isOne: (route: CompiledRoute) => boolean) => {
        for (const [index, { declared, compiled }] of generation.routes.entries()) {
          if (isOne(compiled)) mount(app, serving, declared, compiled, index)
        }
      }
      mountAll(group, ({ webhook, files }) => webhook === null && files === null)
      await group.register(async (signed) => {
        keepSignedBodies(signed, () => true)
        mountAll(signed, ({ webhook }) => webhook !== null)
      })
      if (generation.routes.some(({ compiled }) => compiled.files !== null)) {
        await group.register(async (forms) => {
          await acceptForms(forms)
          mountAll(forms, ({ files }) => files !== null)
        })
      }
    }
  }
})

/** Makes a missing plugin fail the start instead of the first request. The error names the plugin. */
function requirePlugins (app: FastifyInstance, routes: readonly CompiledRoute[]): void {
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

/**
 * The compiled routes that serve now. When the database's tables change, all routes are recompiled off the request path and
 * swapped in one step. A request in progress finishes on the routes it started with.
 */
interface Generation {
  /** Each route's declaration and its first compilation, in the order of the document. */
  readonly routes: ReadonlyArray<{ readonly declared: Route, readonly compiled: CompiledRoute }>
  /** The route that serves now; null if it no longer fits the database. */
  route(index: number): CompiledRoute | null
  /** The `GET` route that serves now on the same path; null if there is none. */
  readOnPath(index: number): CompiledRoute | null
  /** The documentation of the route that serves now. If the route no longer fits the database, that of its last working version. */
  documentation(index: number): RouteDocumentation | undefined
  close(): void
}

/** Compiles every route. Throws one ConfigError with the faults of all routes. */
function createGeneration (
  document: CompiledParts,
  context: Omit<RouteContext, 'faults' | 'catalogue' | 'workflows'>,
  engine: Engine,
  log: FastifyBaseLogger
): Generation {
  const faults = new FaultList()
  let current = compileDocument(document, { ...context, catalogue: engine.catalogue, faults })
  faults.throwIfAny()
  const routes = document.routes.flatMap(({ value }, index) => {
    const compiled = current[index]
    return compiled === null || compiled === undefined ? [] : [{ declared: value, compiled }]
  })
  const latest = [...routes]

  const end = engine.onCatalogue((catalogue) => {
    const found = new FaultList()
    current = compileDocument(document, { ...context, catalogue, faults: found })
    for (const [index, compiled] of current.entries()) if (compiled !== null) latest[index] = { ...routes[index]!, compiled }
    for (const fault of found.faults) log.error(`the database no longer fits the document: ${formatFault(fault)}`)
  })

  const reads = readsByPath(routes.keys(), (index) => routes[index]!.declared)
  const readOf = (index: number) => reads.get(routes[index]!.declared.path) ?? -1

  return {
    routes,
    route: (index) => current[index] ?? null,
    readOnPath: (index) => current[readOf(index)] ?? null,
    documentation (index) {
      const route = latest[index]
      return route === undefined ? undefined : documentRoute(route.declared, route.compiled, latest[readOf(index)]?.compiled)
    },
    close: end
  }
}
