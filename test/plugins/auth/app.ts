/** The identity plugins in their own app, with their dependencies and routes that return the caller and its permissions. */
import type { Test } from 'tap'
import Fastify, { type FastifyInstance } from 'fastify'
import apiKeys from '../../../plugins/api-keys/index.js'
import auth from '../../../plugins/auth/index.js'
import conventions from '../../../plugins/conventions/index.js'
import database from '../../../plugins/database/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import tenantRbac from '../../../plugins/tenant-rbac/index.js'
import type { DatabaseSection } from '../../helpers/postgres.js'
import { scanLog, secretText } from '../../helpers/log-scan.js'
import { signToken, testSecret, type TokenClaims } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'

export { postgresSection } from '../../helpers/postgres.js'

/** The platform's key in tests. */
export const platformKey = secretText('the-key-of-the-platform-in-tests', 'API_KEY')

export interface OpenOptions {
  readonly tenants?: readonly string[]
  readonly plugins?: readonly ('api-keys' | 'tenant-rbac')[]
  readonly now?: () => number
}

export interface Opened {
  readonly app: FastifyInstance
  /** The caller with a token of these claims, or with a key, or anonymous. */
  readonly as: (who: TokenClaims | string | null) => Ask
}

export async function open (
  t: Test,
  engine: DatabaseSection,
  { tenants = [], plugins = ['api-keys', 'tenant-rbac'], now }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret }, apiKey: platformKey })
  await app.register(tenancy)
  if (plugins.includes('api-keys')) await app.register(apiKeys, { now })
  if (plugins.includes('tenant-rbac')) await app.register(tenantRbac)
  await app.register(async (group) => {
    await group.register(conventions)
    group.get('/who', { config: { access: 'open' } }, async ({ auth, tenant }) => ({ auth, tenant: tenant?.id ?? null }))
    group.get('/read', { config: { access: 'user', permissions: ['articles:read'] } }, async () => ({}))
    group.get('/write', { config: { access: 'user', permissions: ['articles:write'] } }, async () => ({}))
    group.get('/platform', { config: { access: 'platform-admin' } }, async () => ({}))
    group.get('/administrators', { config: { access: 'tenant-admin' } }, async () => ({}))
    group.get('/public', { config: { access: 'public' } }, async ({ auth }) => ({ auth }))
  })
  for (const id of tenants) await app.tenants.create({ id, name: id, plan: 'free' })
  const defaults = (who: TokenClaims | string | null) =>
    who === null ? {} : typeof who === 'string' ? { headers: { 'x-api-key': who } } : { token: signToken(who) }
  return { app, as: (who) => caller(t, app, defaults(who)) }
}

/** The statuses of several requests, by target. */
export async function statuses (ask: Ask, ...targets: string[]): Promise<Record<string, number>> {
  return Object.fromEntries(await Promise.all(targets.map(async (target) => [target, (await ask(`GET ${target}`)).status] as const)))
}
