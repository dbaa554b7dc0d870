/** The endpoints of tenants: `/tenants` and `/tenant/info`. The plugin tenancy has the service. */
import { definePlugin } from '../../lib/plugin/define.js'
import { plansOf } from '../plans/plans-of.js'
import { tenantRoutes } from './routes.js'

export default definePlugin<Record<never, never>>({
  name: 'tenants',
  dependencies: ['tenancy'],
  routeDependencies: ['auth'],
  after: ['plans'],
  options: {},
  setup: (app) => (group) => tenantRoutes(group, plansOf(app))
})
