/**
 * Roles of tenants: what the role of a token gives, and the endpoints under `/tenant/rbac` (SPEC "Tenant RBAC"). A route
 * group: it registers endpoints, and itself with the plugin auth. Needs the plugins database, auth and tenancy.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createLoadCache } from '../../lib/load-cache.js'
import { noPermissions } from '../auth/permissions.js'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { resolveRoles, weightOf, type RolePermissions } from './roles.js'
import { tenantRbacRoutes } from './routes.js'
import { createTenantRbac } from './service.js'
import { createRbacStore } from './store.js'

const maxWeight = 67_108_864 // bytes, about, of all roles that are remembered

export async function tenantRbac (app: FastifyInstance): Promise<void> {
  requireDecorator(app, 'events', 'database', 'tenant-rbac')
  requireDecorator(app, 'auth', 'auth', 'tenant-rbac')
  requireDecorator(app, 'tenancy', 'tenancy', 'tenant-rbac')
  const { auth, db, engine, events, tenancy } = app
  const store = createRbacStore(db)
  const resolved = createLoadCache<{ readonly of: RolePermissions, readonly weight: number }>({
    max: tenancy.maxRemembered,
    weight: { max: maxWeight, of: ({ weight }) => weight },
    async load (tenant) {
      const config = await store.read(tenant)
      return { of: resolveRoles(config), weight: weightOf(config) }
    }
  })

  const changed = auth.useRoles(({ role, api_key: apiKey }, tenant) => {
    // A key has its scopes and no role, not even the default one.
    if (tenant === undefined || apiKey !== undefined) return noPermissions
    const roles = resolved.get(tenant)
    return roles instanceof Promise ? roles.then(({ of }) => of(role)) : roles.of(role)
  })

  const ends = [
    // Also told when a tenant is deleted, of whose roles another one of the same id has none.
    events.on('roles', (tenant) => {
      resolved.forget(tenant)
      changed()
    }),
    events.onGap(() => {
      resolved.clear()
      changed()
    })
  ]
  app.addHook('onClose', async () => { for (const end of ends) end() })

  await app.register(conventions)
  tenantRbacRoutes(app, createTenantRbac(store, events, (tenant) => engine.kyselyFor(tenant)))
}

export default fp(tenantRbac, { name: 'tenantry-tenant-rbac', fastify: '5.x', encapsulate: true })
