/** The endpoints of tenants: `/tenants` and `/tenant/info`. The plugin tenancy has the service. */
import { definePlugin } from '../../lib/plugin/define.js'
import { whole } from '../../lib/plugin/options.js'
import { plansOf } from '../plans/plans-of.js'
import { tenantRoutes } from './routes.js'

export interface TenantsOptions {
  /**
   * Milliseconds, 0 to 600,000, for which `DELETE /tenants/:id` waits for the end of the deletion. Then its response is 202, and the
   * deletion continues. Default: 10,000.
   */
  readonly deletionWaitMs?: number | undefined
}

export default definePlugin<TenantsOptions>({
  name: 'tenants',
  dependencies: ['tenancy'],
  routeDependencies: ['auth'],
  after: ['plans'],
  options: { deletionWaitMs: whole(0, 600_000) },
  setup: (app, { deletionWaitMs = 10_000 }) => (group) => tenantRoutes(group, plansOf(app), deletionWaitMs)
})
