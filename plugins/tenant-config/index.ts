/**
 * Documents of tenants: the endpoints that manage them, and the routes that they declare, which serve at once. A tenant's route
 * cannot take the path of a route of the app.
 */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { checkConfig, type Config, type ConfigInput, type Env } from '../../lib/configuration/index.js'
import { unknownConnectors } from '../../lib/connectors/index.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import { setting } from '../../lib/expressions/environment.js'
import { routesOf } from '../../lib/http/guards.js'
import { prefixOf } from '../../lib/http/prefix.js'
import { definePlugin, optional, requireSameContext } from '../../lib/plugin/define.js'
import { checkedConfig, record, text } from '../../lib/plugin/options.js'
import { sectionsOf } from '../../lib/plugin/sections.js'
import { routeContextOf, type TakenRoute } from '../../lib/tenant-document/index.js'
import { documentedRoutes } from './documentation.js'
import { createLoad } from './load.js'
import { createLoadedDocuments } from './loaded-documents.js'
import { tenantConfigRoutes } from './routes.js'
import { type ServeTenantCall, serveTenantRoutes } from './serve.js'
import { createConfigService } from './service.js'
import { createConfigStore } from './store.js'
import { toolsOf } from './tools.js'
import { webhooksOf } from './webhooks.js'

/** The document's sections of the same names. Omitted sections have the document's defaults. */
export interface TenantConfigOptions extends Partial<Pick<ConfigInput, 'pagination' | 'functions'>> {
  /** A checked configuration, instead of the sections. */
  readonly config?: Config | undefined
  /** The values of `{{env.NAME}}`. Tenants can read only those that `tenancy.env` names. Default: the process's environment. */
  readonly env?: Env | undefined
  /** Fastify's prefix, for the endpoints and for the tenants' routes. Default: none. */
  readonly prefix?: string
}

/** The decorators of plugins that use `app.tenantDocuments`. */
const readers = ['integrations', 'openapi', 'tools', 'webhooks', 'workflows'] as const

export default definePlugin<TenantConfigOptions>({
  name: 'tenant-config',
  dependencies: ['database', 'auth', 'tenancy', 'rate-limit'],
  optional: ['resource-limits', 'secrets'],
  // Routes, steps and webhooks of tenants are compiled against these.
  after: ['cache', 'files', 'idempotency', 'integrations', 'openapi', 'realtime', 'tools', 'webhooks', 'workflows'],
  routeDependencies: [],
  options: { pagination: record, functions: record, config: checkedConfig, env: record, prefix: text },
  setup (app, { env = process.env, prefix: ownPrefix, config, ...options }) {
    const sections = { pagination: options.pagination, functions: options.functions, ...sectionsOf(app) }
    const { tenancy, pagination, cache, functions } = config ?? checkConfig({ ...sections, routes: [] }, { env, embedded: true })
    const { engine, db, events, log } = app
    const prefix = prefixOf(app, ownPrefix)
    const taken = collectTaken(app, prefix)
    const store = createConfigStore((tenant) => engine.kyselyFor(tenant), events, app.auth.providers)
    const secrets = optional(app, 'secrets')
    const [workflows, tools] = [optional(app, 'workflows'), optional(app, 'tools')]
    const [openapi, realtime, webhooks] = [optional(app, 'openapi'), optional(app, 'realtime'), optional(app, 'webhooks')]
    const fileRules = optional(app, 'routeFiles')()?.rules ?? null
    const context = (catalogue: Catalogue) => ({
      env,
      tenancy,
      pagination,
      cache,
      functions,
      catalogue,
      fileRules,
      firestore: app.firestore,
      messages: realtime() !== null,
      stepKinds: workflows()?.steps
    })
    const loaded = createLoadedDocuments({
      max: tenancy.maxLoadedTenants,
      events,
      log,
      // Reads on the server's own connections, since a request waits for the document.
      load: createLoad({
        store: createConfigStore(() => db, events, app.auth.providers),
        log,
        catalogue: () => engine.catalogue,
        context: (document, tables) => routeContextOf(document, context(tables), true)
      })
    })
    for (const reader of readers) requireSameContext(app, reader, 'tenant-config')
    const { env: visibleEnv, envNames } = routeContextOf({}, context(engine.catalogue), true)
    let limitStatuses: readonly number[] = []
    let serveCall: ServeTenantCall | undefined
    const secretSettings = new Set<string | null>()
    app.decorate('tenantDocuments', {
      protectSettings (names) {
        for (const name of names) secretSettings.add(name)
      },
      connectors: async (tenant) => (await loaded.get(tenant)).workflows.context(engine.catalogue).connectors ?? unknownConnectors,
      workflows: async (tenant) => (await loaded.get(tenant)).workflows,
      tools: (tenant) => whenKnown(loaded.get(tenant), (routes) => toolsOf(tenant, routes, prefix, serveCall)),
      webhooks: (tenant, through) => webhooksOf(tenant, through, { env: visibleEnv, envNames, log }),
      documentation: (request) => documentedRoutes(request, loaded, prefix, limitStatuses)
    })
    const endCatalogue = engine.onCatalogue(() => {
      openapi()?.invalidate()
    })
    app.addHook('onClose', async () => {
      endCatalogue()
      loaded.close()
    })

    const service = createConfigService(
      store,
      () => ({
        ...context(engine.catalogue),
        taken,
        authProviders: app.auth.providers,
        sendsWebhooks: webhooks() !== null,
        secretSettings,
        hasCors: app.hasPlugin('tenantry-cors'),
        tools: tools()?.names
      }),
      (tenant) => loaded.settled(tenant),
      async (tenant) => await secrets()?.values(tenant) ?? new Map()
    )
    return async (group) => {
      group.addHook('onRoute', ({ routePath, config }) => {
        if (routePath === '/*') limitStatuses = config?.limitStatuses ?? []
      })
      tenantConfigRoutes(group, service)
      serveCall = await serveTenantRoutes(group, { loaded, dashboardPermission: tenancy.dashboardPermission, appUrl: setting(env, 'APP_URL') })
    }
  }
})

/** The routes of the app below the prefix, without the prefix: registered ones, and later ones as they are added. */
function collectTaken (app: FastifyInstance, prefix: string): TakenRoute[] {
  const taken: TakenRoute[] = []
  const take = ({ method, url }: Pick<RouteOptions, 'method' | 'url'>) => {
    if (!url.startsWith(prefix) || url === `${prefix}/*`) return
    taken.push(...[method].flat().map((name) => ({ method: name, path: url.slice(prefix.length) || '/' })))
  }
  for (const route of routesOf(app)) take(route)
  app.addHook('onRoute', take)
  return taken
}
