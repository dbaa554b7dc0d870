/** The plugin resource-limits in its own app, with its dependencies and plugins for other callers. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { Rule } from '../../../plugins/resource-limits/index.js'
import { testApp, type TestEngine, type Who } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import type { Ask } from '../../http/caller.js'

/** The platform's key in tests. */
export const platformKey = secretText('the-key-of-the-platform-in-tests', 'API_KEY')

export interface OpenOptions {
  readonly tenants?: readonly string[]
  readonly now?: () => number
  readonly maxCounters?: number
}

export interface Opened {
  readonly app: FastifyInstance
  readonly as: (who: Who) => Ask
  /** The administrator of a tenant, `ada`. */
  readonly admin: (tenant: string) => Ask
}

export async function open (t: Test, engine: TestEngine, { tenants = [], now, maxCounters }: OpenOptions = {}): Promise<Opened> {
  const { app, as } = await testApp(t, {
    engine,
    plugins: { auth: { apiKey: platformKey }, tenancy: {}, 'api-keys': {}, 'resource-limits': { now, maxCounters } },
    tenants
  })
  return { app, as, admin: (tenant) => as({ role: 'admin', tenant_id: tenant, sub: 'ada' }) }
}

/** A rule for a resource with any name. */
export function rule (changes: Partial<Rule> = {}): Rule {
  return { resource: 'llm', metric: 'tokens', period: 'day', limit: 7, gateAction: 'block', ...changes }
}

export const user = (changes: { tenant?: string, id?: string, role?: string, tier?: string } = {}) => ({
  tenant: 'acme',
  id: 'uma',
  ...changes
})
export const use = (amount = 1) => ({ resource: 'llm', metric: 'tokens', amount })
