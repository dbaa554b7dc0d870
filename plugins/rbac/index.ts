/**
 * Roles that the platform assigns to its own users and to those of tenants, and the endpoints under `/rbac`. The plugin
 * database needs its option `roleTables`.
 */
import { ifUnmigrated } from '../../lib/database/failures.js'
import { tenantOfToken } from '../../lib/identity/tenant-ref.js'
import { definePlugin, requireSameContext } from '../../lib/plugin/define.js'
import { listen } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, text } from '../../lib/plugin/options.js'
import { noPermissions } from '../auth/permissions.js'
import { createRoleMemory } from './memory.js'
import { rbacRoutes } from './routes.js'
import { createPlatformRoles } from './service.js'
import { createRoleStore } from './store.js'

export interface RbacOptions extends ClockOption {
  /** The name of the role of users without an assigned role; the registration fails if the role does not exist. Default: none. */
  readonly defaultRole?: string | undefined
}

export default definePlugin<RbacOptions>({
  name: 'rbac',
  dependencies: ['database', 'auth', 'tenancy'],
  routeDependencies: [],
  options: { defaultRole: text, now: callback },
  async setup (app, { defaultRole, now = Date.now }) {
    const { auth, engine, events } = app
    if (engine.roleTables === null) {
      throw new Error('rbac needs the tables of its roles: register the plugin "tenantry/plugins/database" with the option `roleTables`')
    }
    const store = createRoleStore(engine.roleTables)
    const memory = createRoleMemory(app, store, defaultRole)

    // The tenant of the token; if the token names none, the tenant that a gateway names.
    requireSameContext(app, 'auth', 'rbac')
    app.decorate('platformRoles', {
      permissionsOf (auth, tenant = tenantOfToken(auth)) {
        // A key has its scopes and no role, not even the default role.
        return auth.api_key === undefined ? memory.permissionsOf(tenant, auth.sub) : noPermissions
      }
    })

    const forget = () => {
      memory.clear()
      auth.forgetPermissions()
    }
    // The deletion of a tenant changes its users' roles too.
    listen(app, events, { rbac: forget, gap: forget })
    // A database that is not migrated yet has no roles; the start continues.
    if (!await memory.hasDefaultRole().catch(ifUnmigrated(true))) {
      throw new Error(
        `there is no role "${defaultRole}", which is set in rbac.defaultRole: start without rbac.defaultRole, create the role with POST /rbac/roles, and then set it; or insert it into tenantry.${engine.roleTables.roles}`
      )
    }
    return (group) => rbacRoutes(group, createPlatformRoles(app, store, defaultRole, now))
  }
})
