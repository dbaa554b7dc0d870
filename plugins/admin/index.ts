/**
 * Rows of the application's tables for administrators, without a route for each table. Its writes clear the cache and send
 * webhooks, if these plugins are registered.
 */
import type {} from '../../lib/cache/store.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../files/types.js'
import type {} from '../webhooks/index.js'
import { adminRoutes } from './routes.js'
import { createEntities } from './service.js'

export default definePlugin<Record<never, never>>({
  name: 'admin',
  dependencies: ['database', 'tenancy'],
  routeDependencies: ['auth'],
  optional: ['cache', 'files', 'webhooks'],
  options: {},
  setup (app) {
    const { engine, tenants } = app
    const files = optional(app, 'routeFiles')
    const entities = createEntities({
      engine,
      tenants,
      cache: optional(app, 'cache'),
      webhooks: optional(app, 'webhooks'),
      deletesFiles: () => files()?.rules.deletedWithRows === true
    })
    return (group) => adminRoutes(group, entities)
  }
})
