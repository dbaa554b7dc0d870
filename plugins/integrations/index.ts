/**
 * Calls to other services that documents declare: `app.integrations` (DESIGN 9). A service plugin (fp). Needs the plugins
 * database, tenancy and outbound; secrets where credentials name some. The endpoint is `integrationRoutes`.
 */
import type {} from '../database/index.js'
import type {} from '../outbound/index.js'
import type {} from '../secrets/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import type { Env } from '../../lib/config/environment.js'
import type { ConnectorsDocument, ConnectorSet } from '../../lib/connectors/index.js'
import type { Integrations } from './integrations.js'
import fp from 'fastify-plugin'
import { platformConnectors, unknownConnectors } from '../../lib/connectors/index.js'
import { everyHour } from '../../lib/database/sweeping.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { createLeases, sweepLeases } from './leases.js'
import { createRunner } from './service.js'
import { createTokenRequest } from './token-request.js'
import { createTokens } from './tokens.js'

export { default as integrationRoutes } from './routes.js'
export type { CallOptions, Integrations } from './integrations.js'

/** The document's sections `credentials` and `customIntegrations`: the connectors that the endpoint runs for the platform. */
export interface IntegrationsOptions extends ConnectorsDocument {
  /** What `{{env.NAME}}` in them reads. Default: the process's environment. */
  readonly env?: Env | undefined
  /** Settings that a tenant's secret of the same name replaces, besides those in `credentials`. Default: none. */
  readonly overridableEnv?: readonly string[] | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

/** The same after the sections were compiled. */
interface CompiledIntegrationsOptions extends Pick<IntegrationsOptions, 'now'> {
  /** Those of the platform's document. */
  readonly connectors: ConnectorSet
}

/** Takes compiled connectors; registered with fp by whoever has them. */
export async function integrations (app: FastifyInstance, { connectors, now = Date.now }: CompiledIntegrationsOptions): Promise<void> {
  for (const [decorator, plugin] of [['engine', 'database'], ['tenants', 'tenancy'], ['outbound', 'outbound']] as const) requireDecorator(app, decorator, plugin, 'integrations')
  const { engine, db, log, outbound } = app
  const tokens = createTokens({
    request: createTokenRequest(outbound),
    // Registered after this plugin, or not at all.
    secrets: () => app.hasDecorator('secrets') ? app.secrets : null,
    leases: createLeases((tenant) => engine.kyselyFor(tenant)),
    now
  })
  let connectorsOf: Integrations['connectorsOf'] = () => unknownConnectors
  app.decorate('integrations', {
    run: createRunner({ outbound, tokens, now }),
    platform: connectors,
    connectorsOf: (tenant) => connectorsOf(tenant),
    useTenants (source) { connectorsOf = source }
  })
  app.addHook('onClose', everyHour(() => sweepLeases(db, new Date(now())), (err) => log.warn({ err }, 'renewals of tokens that nobody uses could not be swept; it is tried again')))
}

/** Rejects with a ConfigError that holds every fault of the sections. */
async function embeddedIntegrations (app: FastifyInstance, { credentials, customIntegrations, env = process.env, overridableEnv = [], now }: IntegrationsOptions): Promise<void> {
  await integrations(app, { connectors: platformConnectors({ credentials, customIntegrations }, env, overridableEnv), now })
}

export default fp(embeddedIntegrations, { name: 'tenantry-integrations', fastify: '5.x' })
