/** Publishing: whether the database is ready, and rows that are written after a check of their table. */
import type {} from '../../lib/cache/store.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../webhooks/index.js'
import { createReadiness } from './readiness.js'
import { publishRoutes } from './routes.js'
import { createPublishing } from './service.js'

export default definePlugin<Record<never, never>>({
  name: 'publish',
  dependencies: ['database', 'tenancy'],
  routeDependencies: ['auth'],
  optional: ['cache', 'webhooks'],
  options: {},
  setup (app) {
    const { engine } = app
    const [cache, webhooks] = [optional(app, 'cache'), optional(app, 'webhooks')]
    const readiness = createReadiness(engine, cache, app.log)
    const publishing = createPublishing(engine, cache, webhooks)
    return (group) => publishRoutes(group, readiness, publishing)
  }
})
