/** The plugin resource-limits in its own app, with its dependencies and plugins for other callers. */
import type { Test } from 'tap'
import Fastify, { type FastifyInstance } from 'fastify'
import apiKeys from '../../../plugins/api-keys/index.js'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import resourceLimits, { type Rule } from '../../../plugins/resource-limits/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import type { EngineOptions } from '../../../lib/database/index.js'
import { scanLog, secretText } from '../../helpers/log-scan.js'
import { signToken, testSecret, type TokenClaims } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'

/** The platform's key in tests. */
export const platformKey = secretText('the-key-of-the-platform-in-tests', 'API_KEY')

export interface OpenOptions {
  readonly tenants?: readonly string[]
  readonly now?: () => number
  readonly maxCounters?: number
}

export interface Opened {
  readonly app: FastifyInstance
  /** The caller of a token with these claims, or of a key. */
  readonly as: (who: TokenClaims | string) => Ask
  /** The administrator of a tenant, `ada`. */
  readonly admin: (tenant: string) => Ask
}

export async function open (
  t: Test,
  engine: Pick<EngineOptions, 'provider' | 'postgres' | 'embedded'>,
  { tenants = [], now, maxCounters }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret }, apiKey: platformKey })
  await app.register(tenancy)
  await app.register(apiKeys)
  await app.register(resourceLimits, { now, maxCounters })
  for (const id of tenants) await app.tenants.create({ id, name: id })
  const as = (who: TokenClaims | string) =>
    caller(t, app, typeof who === 'string' ? { headers: { 'x-api-key': who } } : { token: signToken(who) })
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
