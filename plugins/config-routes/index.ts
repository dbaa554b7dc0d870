/** The routes that a document declares. Startup fails with a ConfigError that holds every fault of the sections. */
import type { FastifyInstance } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { checkConfig, type Config, type ConfigInput, type Env } from '../../lib/configuration/index.js'
import { type ConnectorSet, platformConnectors } from '../../lib/connectors/index.js'
import { webhookRoutes } from '../../lib/document/webhook-routes.js'
import { setting } from '../../lib/expressions/environment.js'
import { prefixOf } from '../../lib/http/prefix.js'
import { definePlugin, optional, requirePlugin } from '../../lib/plugin/define.js'
import { checkedConfig, list, record } from '../../lib/plugin/options.js'
import { sectionsOf } from '../../lib/plugin/sections.js'
import { pointerTo } from '../../lib/schema/faults.js'
import { workflowsOf } from '../../lib/workflows/index.js'
import { exposedTables } from './exposed-tables.js'
import { createGeneration, mountRoutes, readinessOf } from './routes.js'
import { servingOf } from './serving.js'
import { webhookDeduplicationOf } from './webhook-deduplication.js'

/** The document's sections of the same names. */
export interface ConfigRoutesOptions extends
  Partial<
    Pick<ConfigInput, 'routes' | 'pagination' | 'functions' | 'workflows' | 'credentials' | 'customIntegrations'>
  > {
  /** A checked configuration, instead of the sections. */
  readonly config?: Config | undefined
  /** The configuration's compiled connectors. Default: compiled from the configuration. */
  readonly connectors?: ConnectorSet | undefined
  /** The values of `{{env.NAME}}`. Default: the process's environment. */
  readonly env?: Env | undefined
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    /** Only callers with `secrets:write` can change these settings; null stands for all. */
    protectSettings(names: Iterable<string | null>): void
  }
}

export default definePlugin<ConfigRoutesOptions>({
  name: 'config-routes',
  dependencies: ['database', 'rate-limit'],
  optional: ['integrations', 'tenant-config'],
  after: [
    'cache', 'files', 'idempotency', 'openapi', 'realtime', 'resource-limits', 'secrets', 'tenancy', 'tools', 'webhooks', 'workflows'
  ],
  routeDependencies: [],
  // The configuration check validates the members of the sections.
  options: {
    routes: list,
    pagination: record,
    functions: record,
    workflows: list,
    credentials: record,
    customIntegrations: list,
    config: checkedConfig,
    connectors: record,
    env: record
  },
  async setup (app, { env = process.env, config, connectors, ...options }) {
    const { routes = [], pagination, functions, workflows, credentials, customIntegrations } = options
    const sections = { routes, pagination, functions, workflows, credentials, customIntegrations, ...sectionsOf(app) }
    const checked = config ?? checkConfig(sections, { env, embedded: true })
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
        checked: true,
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
    const documents = optional(app, 'tenantDocuments')
    app.addHook('onReady', async () => {
      documents()?.protectSettings(generation.secretSettings)
    })
    const compiled = generation.routes.map(({ compiled }) => compiled)
    requirePlugins(app, compiled)
    for (const warning of exposedTables(compiled, app.engine.catalogue)) app.log.warn(warning)

    const deduplication = webhookDeduplicationOf(app)
    return async (group) => {
      const serving = servingOf(app, {
        dashboardPermission,
        overridableEnv,
        appUrl: setting(env, 'APP_URL'),
        deduplication,
        prefix: prefixOf(group)
      })
      await mountRoutes(group, generation, readiness, serving)
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
