/** API keys of tenants: the header `x-api-key`, and the endpoints under `/tenant/api-keys`. */
import { createUseCounter } from '../../lib/concurrency/use-counter.js'
import { definePlugin, requireSameContext } from '../../lib/plugin/define.js'
import { listen } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption } from '../../lib/plugin/options.js'
import { createKeyMemory } from './memory.js'
import { apiKeyRoutes } from './routes.js'
import { createApiKeys } from './service.js'
import { createApiKeyStore } from './store.js'

export type ApiKeysOptions = ClockOption

export default definePlugin<ApiKeysOptions>({
  name: 'api-keys',
  dependencies: ['database', 'auth', 'tenancy'],
  routeDependencies: [],
  options: { now: callback },
  setup (app, { now = Date.now }) {
    const { db, events, log, tenancy } = app
    const store = createApiKeyStore(db)
    const uses = createUseCounter({ noun: 'API keys', flushAfter: 60_000, maxKeys: 10_000, write: (added) => store.writeUses(added), log })
    const memory = createKeyMemory(tenancy.maxRemembered, store, uses, now)
    requireSameContext(app, 'auth', 'api-keys')
    app.decorate('apiKeys', { find: memory.find, recall: memory.recall })

    // The deletion of a tenant changes its keys too.
    listen(app, events, { 'api-keys': memory.forget, users: memory.forget, gap: memory.clear })
    app.addHook('onClose', () => uses.close())
    return (group) => apiKeyRoutes(group, createApiKeys(app, store, uses, now), now)
  }
})
