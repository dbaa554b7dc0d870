/** The identity plugins in their own app, with their dependencies and routes that return the caller and its permissions. */
import type { Test } from 'tap'
import conventions from '../../../plugins/conventions/index.js'
import { type TestApp, testApp, type TestEngine } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import type { Ask } from '../../http/caller.js'

export { postgresSection } from '../../helpers/postgres.js'

/** The platform's key in tests. */
export const platformKey = secretText('the-key-of-the-platform-in-tests', 'API_KEY')

export interface OpenOptions {
  readonly tenants?: readonly string[]
  readonly plugins?: readonly ('api-keys' | 'tenant-rbac')[]
  readonly now?: () => number
}

export async function open (
  t: Test,
  engine: TestEngine,
  { tenants = [], plugins = ['api-keys', 'tenant-rbac'], now }: OpenOptions = {}
): Promise<TestApp> {
  return await testApp(t, {
    engine,
    plugins: {
      auth: { apiKey: platformKey },
      tenancy: {},
      ...plugins.includes('api-keys') && { 'api-keys': { now } },
      ...plugins.includes('tenant-rbac') && { 'tenant-rbac': {} }
    },
    tenants,
    routes: (app) =>
      app.register(async (group) => {
        await group.register(conventions)
        group.get('/who', { config: { access: 'open' } }, async ({ auth, tenant }) => ({ auth, tenant: tenant?.id ?? null }))
        group.get('/read', { config: { access: 'user', permissions: ['articles:read'] } }, async () => ({}))
        group.get('/write', { config: { access: 'user', permissions: ['articles:write'] } }, async () => ({}))
        group.get('/platform', { config: { access: 'platform-admin' } }, async () => ({}))
        group.get('/administrators', { config: { access: 'tenant-admin' } }, async () => ({}))
        group.get('/public', { config: { access: 'public' } }, async ({ auth }) => ({ auth }))
      })
  })
}

/** The statuses of several requests, by target. */
export async function statuses (ask: Ask, ...targets: string[]): Promise<Record<string, number>> {
  return Object.fromEntries(await Promise.all(targets.map(async (target) => [target, (await ask(`GET ${target}`)).status] as const)))
}
