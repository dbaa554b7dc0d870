/**
 * Declared calls to other services: `app.integrations` and its endpoint. It rejects with a ConfigError that lists every fault of the
 * sections.
 */
import { Type } from 'typebox'
import { type ConnectorsDocument, type ConnectorSet, platformConnectors, unknownConnectors } from '../../lib/connectors/index.js'
import type { Env } from '../../lib/expressions/environment.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, record, section } from '../../lib/plugin/options.js'
import { Credentials, CustomIntegrations } from '../../lib/schema/integrations.js'
import { sweepLeases } from './leases.js'
import { integrationRoutes } from './routes.js'
import { createRunner } from './service.js'
import { createTokens } from './tokens.js'

export type { CallOptions, Integrations } from './integrations.js'

/** The document's sections `credentials` and `customIntegrations`: the connectors that the endpoint runs for the platform. */
export interface IntegrationsOptions extends ConnectorsDocument, ClockOption {
  /** The environment of `{{env.NAME}}` in them. Default: the process's environment. */
  readonly env?: Env | undefined
  /** Settings that a tenant's secret of the same name replaces, besides those in `credentials`. Default: none. */
  readonly overridableEnv?: readonly string[] | undefined
  /** The compiled connectors, in place of the sections. */
  readonly connectors?: ConnectorSet | undefined
}

export default definePlugin<IntegrationsOptions>({
  name: 'integrations',
  dependencies: ['database', 'tenancy', 'outbound'],
  optional: ['secrets', 'tenant-config'],
  routeDependencies: ['auth'],
  options: {
    credentials: section(Credentials),
    customIntegrations: section(CustomIntegrations),
    env: record,
    overridableEnv: section(Type.Array(Type.String())),
    connectors: record,
    now: callback
  },
  setup (
    app,
    {
      credentials,
      customIntegrations,
      env = process.env,
      overridableEnv = [],
      connectors = platformConnectors({ credentials, customIntegrations }, env, overridableEnv),
      now = Date.now
    }
  ) {
    const tokens = createTokens(app, now)
    const documents = optional(app, 'tenantDocuments')
    app.decorate('integrations', {
      run: createRunner(app.outbound, tokens, now),
      platform: connectors,
      connectorsOf: (tenant) => documents()?.connectors(tenant) ?? unknownConnectors
    })
    sweepHourly(app, 'unused renewals of tokens', () => sweepLeases(app.db, new Date(now())))
    return integrationRoutes
  }
})
