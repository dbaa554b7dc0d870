/** The plugin in its own app, with its dependencies, and tenants with connectors. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { compileConnectors, type CompiledCall, type ConnectorSet } from '../../../lib/connectors/index.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { CustomIntegrations } from '../../../lib/schema/integrations.js'
import type { IntegrationsOptions } from '../../../plugins/integrations/index.js'
import { testApp } from '../../helpers/app.js'

/** A server on the database; tenants may call loopback addresses. */
export async function open (
  t: Test,
  connectionString: string,
  options: IntegrationsOptions = {},
  onLog?: (line: string) => void
): Promise<FastifyInstance> {
  const { app } = await testApp(t, {
    ...onLog !== undefined && { onLog },
    engine: { provider: 'postgres', postgres: { connectionString } },
    plugins: { tenancy: {}, outbound: { egress: { allow: ['127.0.0.1'] } }, integrations: { env: {}, ...options }, secrets: {} }
  })
  return app
}

/** The connectors of a document. Throws if the document has faults. */
export function connectorsOf (customIntegrations: CustomIntegrations, origin: 'platform' | 'tenant' = 'tenant', env = {}): ConnectorSet {
  const faults = new FaultList()
  const set = compileConnectors({ customIntegrations }, { origin, env, faults })
  faults.throwIfAny()
  return set
}

/** A call whose params come from its scope's body. */
export function callOf (set: ConnectorSet, type: string, action: string): CompiledCall {
  const faults = new FaultList()
  const call = set.call({ type, action, params: '{{body}}' }, '', { faults, sources: new Set(['body']), env: {} })
  faults.throwIfAny()
  if (call === null) throw new Error(`there is no ${type}.${action}`)
  return call
}

/** The scope of a tenant's call with these params. */
export async function scopeOf (app: FastifyInstance, tenant: string, body: unknown = {}): Promise<Scope> {
  return {
    body,
    params: {},
    query: {},
    headers: {},
    auth: null,
    tenant: tenant === '' ? null : await app.tenants.get(tenant),
    secrets: tenant === '' ? new Map() : await app.secrets.values(tenant),
    results: {},
    fullAccess: false
  }
}
