/** Tenants' roles: resolves the permissions of a token's role, and adds the endpoints under `/tenant/rbac`. */
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { definePlugin, requireSameContext } from '../../lib/plugin/define.js'
import { listen } from '../../lib/plugin/lifecycle.js'
import { noPermissions } from '../auth/permissions.js'
import { resolveRoles, type RolePermissions, weightOf } from './roles.js'
import { tenantRbacRoutes } from './routes.js'
import { createTenantRbac } from './service.js'
import { createRbacStore } from './store.js'

const maxWeight = 67_108_864 // bytes, approximately, of all cached roles

interface ResolvedRoles {
  readonly enabled: boolean
  readonly names: ReadonlySet<string>
  readonly of: RolePermissions
  /** Bytes, approximately. */
  readonly weight: number
}

export default definePlugin<Record<never, never>>({
  name: 'tenant-rbac',
  dependencies: ['database', 'auth', 'tenancy'],
  routeDependencies: [],
  options: {},
  setup (app) {
    const { auth, db, engine, events, tenancy } = app
    const store = createRbacStore(db)
    const resolved = createAsyncCache<ResolvedRoles, Owner>({
      max: tenancy.maxRemembered,
      weight: { max: maxWeight, of: ({ weight }) => weight },
      async load (tenant) {
        const config = await store.read(tenant)
        return { enabled: config.enabled, names: new Set(config.roles.keys()), of: resolveRoles(config), weight: weightOf(config) }
      }
    })

    requireSameContext(app, 'auth', 'tenant-rbac')
    app.decorate('tenantRoles', {
      permissionsOf ({ role, api_key: apiKey }, tenant) {
        // A key has its scopes and no role, not even the default role.
        if (tenant === undefined || apiKey !== undefined) return noPermissions
        return whenKnown(resolved.get(tenant), ({ enabled, of }) => enabled ? of(role) : noPermissions)
      },
      declaredBy: (role, tenant) => whenKnown(resolved.get(tenant), ({ of }) => of(role)),
      isDeclared: (role, tenant) => whenKnown(resolved.get(tenant), ({ names }) => names.has(role))
    })

    listen(app, events, {
      // The deletion of a tenant changes its roles too.
      roles (tenant) {
        resolved.invalidate(tenant)
        auth.forgetPermissions()
      },
      gap () {
        resolved.clear()
        auth.forgetPermissions()
      }
    })
    return (group) => tenantRbacRoutes(group, createTenantRbac(store, events, (tenant) => engine.kyselyFor(tenant), auth.providers))
  }
})
