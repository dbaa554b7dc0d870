/**
 * Calls to other services that documents declare: `app.integrations`, and `POST /integrations/{type}/{action}` (DESIGN 9). A
 * service plugin (fp); its endpoint stays in a context of its own. Needs the plugins database, auth, tenancy and outbound; secrets where
 * credentials name some.
 */
import type {} from '../auth/index.js'
import type {} from '../database.js'
import type {} from '../outbound/index.js'
import type {} from '../secrets/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import type { ConnectorsDocument } from '../../lib/connectors/index.js'
import type { Env } from '../../lib/config/environment.js'
import type { Integrations } from './integrations.js'
import fp from 'fastify-plugin'
import { FaultList } from '../../lib/config/faults.js'
import { compileConnectors } from '../../lib/connectors/index.js'
import { everyHour } from '../../lib/database/sweeping.js'
import conventions from '../conventions.js'
import { requireDecorator } from '../requirement.js'
import { createLeases, sweepLeases } from './leases.js'
import { integrationRoutes } from './routes.js'
import { createRunner } from './service.js'
import { createTokenRequest } from './token-request.js'
import { createTokens } from './tokens.js'

export type { CallOptions, Integrations } from './integrations.js'

declare module 'fastify' {
  interface FastifyInstance {
    integrations: Integrations
  }
}

/** The document's sections `credentials` and `customIntegrations`, whose connectors the endpoint runs for the platform. */
export interface IntegrationsOptions extends ConnectorsDocument {
  /** What `{{env.NAME}}` in them reads. Default: the process's environment. */
  readonly env?: Env | undefined
  /** Settings that a tenant's secret of the same name replaces. Default: those in `credentials`. */
  readonly overridableEnv?: readonly string[] | undefined
  /** false: there is no endpoint. Default: true. */
  readonly endpoint?: boolean | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

/** Rejects with a ConfigError that holds every fault of the sections. */
export async function integrations (app: FastifyInstance, { credentials, customIntegrations, env = process.env, overridableEnv = [], endpoint = true, now = Date.now }: IntegrationsOptions): Promise<void> {
  for (const [decorator, plugin] of [['engine', 'database'], ['auth', 'auth'], ['tenants', 'tenancy'], ['outbound', 'outbound']] as const) requireDecorator(app, decorator, plugin, 'integrations')
  const { engine, db, log, outbound } = app
  const faults = new FaultList()
  const platform = compileConnectors({ credentials, customIntegrations }, { origin: 'platform', env, overridableEnv: new Set(overridableEnv), faults })
  faults.throwIfAny()
  const tokens = createTokens({
    request: createTokenRequest(outbound),
    // Registered after this plugin, or not at all.
    secrets: () => app.hasDecorator('secrets') ? app.secrets : null,
    leases: createLeases((tenant) => engine.kyselyFor(tenant)),
    now
  })
  const service: Integrations = { run: createRunner({ outbound, tokens, now }), connectorsOf: null }
  const stopSweeping = everyHour(() => sweepLeases(db, new Date(now())), (err) => log.warn({ err }, 'renewals of tokens that nobody uses could not be swept; it is tried again'))
  app.decorate('integrations', service)
  app.addHook('onClose', stopSweeping)
  if (!endpoint) return

  await app.register(async (group) => {
    await group.register(conventions)
    integrationRoutes(group, service, platform, now)
  })
}

export default fp(integrations, { name: 'tenantry-integrations', fastify: '5.x' })
