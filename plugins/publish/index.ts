/** Publishing: whether the database is ready, and rows that are written after a check of their table. */
import { definePlugin } from '../../lib/plugin/define.js'
import { createReadiness } from './readiness.js'
import { publishRoutes } from './routes.js'
import { createPublishing } from './service.js'

export default definePlugin<Record<never, never>>({
  name: 'publish',
  dependencies: ['database', 'tenancy'],
  routeDependencies: ['auth'],
  optional: ['cache', 'webhooks'],
  options: {},
  setup: (app) => (group) => publishRoutes(group, createReadiness(app), createPublishing(app))
})
