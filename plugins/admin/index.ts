/**
 * Rows of the application's tables for administrators, without a route for each table. Its writes clear the cache and send
 * webhooks, if these plugins are registered.
 */
import { definePlugin } from '../../lib/plugin/define.js'
import { adminRoutes } from './routes.js'
import { createEntities } from './service.js'

export default definePlugin<Record<never, never>>({
  name: 'admin',
  dependencies: ['database', 'tenancy'],
  routeDependencies: ['auth'],
  optional: ['cache', 'files', 'webhooks'],
  options: {},
  setup: (app) => (group) => adminRoutes(group, createEntities(app))
})
