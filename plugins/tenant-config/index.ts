/**
 * Documents that tenants save: their endpoints, and the routes that they declare, which serve at once. A service plugin
 * (fp): it looks at the routes that are registered after it, since no tenant's route may stand in the place of one of
 * them. Needs the plugins database, auth, tenancy and rate-limit; secrets where documents name some, cache where answers are kept.
 */
import type {} from '../integrations/index.js'
import type {} from '../secrets/index.js'
import type {} from '../workflows/index.js'
import type {} from '../webhooks/index.js'
import type { FastifyInstance } from 'fastify'
import type { Config, ConfigInput, Env } from '../../lib/config/index.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import type { TakenRoute } from '../../lib/tenant-document/index.js'
import fp from 'fastify-plugin'
import { checkConfig } from '../../lib/config/index.js'
import { setting } from '../../lib/config/environment.js'
import { unknownConnectors } from '../../lib/connectors/index.js'
import { routeContextOf } from '../../lib/tenant-document/index.js'
import conventions from '../conventions/index.js'
import { hasPlugin, requireDecorator } from '../../lib/plugin/requirement.js'
import { documentedRoutes } from './documentation.js'
import { createLoad } from './load.js'
import { createLoaded } from './loaded.js'
import { tenantConfigRoutes } from './routes.js'
import { serveTenantRoutes } from './serve.js'
import { createConfigService } from './service.js'
import { createConfigStore } from './store.js'
import { webhooksOf } from './webhooks.js'

/** The document's sections of the same names; what they leave out has the document's defaults. */
export interface TenantConfigOptions extends Partial<Pick<ConfigInput, 'tenancy' | 'pagination' | 'cache'>> {
  /** What `{{env.NAME}}` reads, of which tenants see what `tenancy.env` names. Default: the process's environment. */
  readonly env?: Env | undefined
}

/** The same after the check. */
export interface CheckedTenantConfigOptions extends Pick<Config, 'tenancy' | 'pagination' | 'cache'> {
  readonly env: Env
}

/** Takes checked sections; registered with fp by whoever has them. */
export async function tenantConfig (app: FastifyInstance, { tenancy, pagination, cache, env }: CheckedTenantConfigOptions): Promise<void> {
  for (const [decorator, plugin] of [['engine', 'database'], ['auth', 'auth'], ['tenants', 'tenancy'], ['rateLimiter', 'rate-limit']] as const) {
    requireDecorator(app, decorator, plugin, 'tenant-config')
  }
  // What tenants save is compiled for these: routes, steps and webhooks of theirs have no effect in one that comes later.
  for (const plugin of ['integrations', 'workflows', 'webhooks', 'openapi']) hasPlugin(app, plugin, plugin, 'tenant-config')
  const { engine, db, events, log } = app
  const taken = collectTaken(app)
  const store = createConfigStore((tenant) => engine.kyselyFor(tenant), events)
  const context = (catalogue: Catalogue) => ({ env, tenancy, pagination, cache, catalogue, ...app.hasDecorator('workflows') && { stepKinds: app.workflows.steps } })
  const loaded = createLoaded({
    max: tenancy.maxLoadedTenants,
    events,
    log,
    // What a request needs that has just come is read in the server's own turn.
    load: createLoad({ store: createConfigStore(() => db, events), log, catalogue: () => engine.catalogue, context: (document, tables) => routeContextOf(document, context(tables), true) })
  })
  if (app.hasDecorator('integrations')) app.integrations.useTenants(async (tenant) => (await loaded.get(tenant)).workflows.context(engine.catalogue).connectors ?? unknownConnectors)
  if (app.hasDecorator('workflows')) app.workflows.useTenants(async (tenant) => (await loaded.get(tenant)).workflows)
  const { env: visibleEnv, envNames } = routeContextOf({}, context(engine.catalogue), true)
  if (app.hasDecorator('webhooks')) app.webhooks.useTenants((tenant, through) => webhooksOf(tenant, through, { env: visibleEnv, envNames, log }))
  const endCatalogue = engine.onCatalogue(() => { if (app.hasDecorator('openapi')) app.openapi.invalidate() })
  app.addHook('onClose', async () => {
    endCatalogue()
    loaded.close()
  })
  let limitStatuses: readonly number[] = []
  if (app.hasDecorator('openapi')) app.openapi.further = (request) => documentedRoutes(request, loaded, app.prefix, limitStatuses)

  await app.register(async (own) => {
    own.addHook('onRoute', ({ routePath, config }) => { if (routePath === '/*') limitStatuses = config?.limitStatuses ?? [] })
    await own.register(conventions)
    tenantConfigRoutes(own, createConfigService(store, () => ({ ...context(engine.catalogue), taken, authProviders: app.auth.providers, sendsWebhooks: app.hasDecorator('webhooks') }), (tenant) => loaded.settled(tenant), async (tenant) => app.hasDecorator('secrets') ? await app.secrets.values(tenant) : new Map()))
    await serveTenantRoutes(own, { loaded, dashboardPermission: tenancy.dashboardPermission, appUrl: setting(env, 'APP_URL') })
  })
}

/** The routes of the server, as they are registered. Their paths are those below the prefix that the tenants' stand under too. */
function collectTaken (app: FastifyInstance): TakenRoute[] {
  const taken: TakenRoute[] = []
  app.addHook('onRoute', ({ method, url }) => {
    if (!url.startsWith(app.prefix) || url === `${app.prefix}/*`) return
    taken.push(...[method].flat().map((name) => ({ method: name, path: url.slice(app.prefix.length) || '/' })))
  })
  return taken
}

/** Checks the sections that an app gives. */
async function embeddedTenantConfig (app: FastifyInstance, { env = process.env, ...sections }: TenantConfigOptions): Promise<void> {
  await tenantConfig(app, { ...checkConfig({ ...sections, routes: [] }, { env, embedded: true }), env })
}

export default fp(embeddedTenantConfig, { name: 'tenantry-tenant-config', fastify: '5.x' })
