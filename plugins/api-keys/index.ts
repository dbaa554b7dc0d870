/**
 * API keys of tenants: the header `x-api-key`, and the endpoints under `/tenant/api-keys` (DESIGN 5). A route group: it
 * registers endpoints, and itself with the plugin auth. Needs the plugins database, auth and tenancy.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { createKeyMemory } from './memory.js'
import { apiKeyRoutes } from './routes.js'
import { createApiKeys } from './service.js'
import { createApiKeyStore } from './store.js'
import { createKeyUses } from './uses.js'

export interface ApiKeysOptions {
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function apiKeys (app: FastifyInstance, { now = Date.now }: ApiKeysOptions): Promise<void> {
  requireDecorator(app, 'events', 'database', 'api-keys')
  requireDecorator(app, 'auth', 'auth', 'api-keys')
  requireDecorator(app, 'tenancy', 'tenancy', 'api-keys')
  const { auth, db, engine, events, log, tenancy } = app
  const store = createApiKeyStore(db)
  const uses = createKeyUses((noted) => store.writeUses(noted), log)
  const memory = createKeyMemory({ maxTenants: tenancy.maxRemembered, store, uses, now })
  auth.useApiKeys((key, admit) => memory.find(key, admit))

  const ends = [
    // Also told when a tenant is deleted, whose keys open none of the same id.
    events.on('api-keys', (tenant) => memory.forget(tenant)),
    events.onGap(() => memory.clear())
  ]
  app.addHook('onClose', async () => {
    for (const end of ends) end()
    await uses.close()
  })

  await app.register(conventions)
  apiKeyRoutes(app, createApiKeys({ store, events, dbFor: (tenant) => engine.kyselyFor(tenant), uses, now }), now)
}

export default fp(apiKeys, { name: 'tenantry-api-keys', fastify: '5.x', encapsulate: true })
