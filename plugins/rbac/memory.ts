/**
 * A cache of the platform's roles: all roles, which are few, and those of each user. Only platform administrators change
 * them, so each change clears the cache.
 */
import type { FastifyInstance } from 'fastify'
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isUserId } from '../../lib/identity/user-id.js'
import { noPermissions, type PermissionSet, unionOf } from '../auth/permissions.js'
import type { RoleStore } from './store.js'

const maxUsers = 100_000
const maxWeight = 67_108_864 // bytes, approximately, of all cached users

interface Roles {
  readonly byId: ReadonlyMap<string, PermissionSet>
  /** The permissions of the default role; null without one. */
  readonly byDefault: PermissionSet | null
}

/** @param defaultRole the name of the role of users without an assigned role */
export function createRoleMemory ({ db, engine }: FastifyInstance, store: RoleStore, defaultRole: string | undefined) {
  const roles = createAsyncCache<Roles>({
    max: 1,
    async load () {
      const byId = new Map<string, PermissionSet>()
      // One string for each permission, for any number of roles that hold it.
      const texts = new Map<string, string>()
      let byDefault: PermissionSet | null = null
      for (const { id, name, permissions } of await store.everything(db)) {
        const held = new Set(permissions.map((permission) => textOf(texts, permission)))
        byId.set(id, held)
        if (name === defaultRole) byDefault = held
      }
      return { byId, byDefault }
    }
  })
  const users = createAsyncCache<{ readonly held: PermissionSet, readonly weight: number }>({
    max: maxUsers,
    weight: { max: maxWeight, of: ({ weight }) => weight },
    async load (key) {
      // Ids of tenants contain no slash.
      const slash = key.indexOf('/')
      const [tenant, userId] = [tenantRef(key.slice(0, slash)), key.slice(slash + 1)]
      // Another id was never given a role: no query is needed.
      const ids = isUserId(userId) ? await store.roleIdsOf(engine.kyselyFor(tenant), { tenant, userId }) : []
      const { byId, byDefault } = await roles.get('')
      const sets = ids.flatMap((id) => byId.get(id) ?? [])
      const [only = byDefault ?? noPermissions] = sets
      return { held: sets.length > 1 ? unionOf(sets) : only, weight: 600 + 2 * key.length + 16 * sets.length }
    }
  })

  return {
    /** The permissions of a user's roles; synchronous if they are cached. */
    permissionsOf (tenant: Owner, sub: string): PermissionSet | Promise<PermissionSet> {
      return whenKnown(users.get(`${tenant}/${sub}`), ({ held }) => held)
    },
    /** The configured default role exists, or none is configured. */
    async hasDefaultRole (): Promise<boolean> {
      return defaultRole === undefined || (await roles.get('')).byDefault !== null
    },
    /** A role or an assignment has changed. */
    clear (): void {
      // In this order: a user that is read from now on gets roles that are read from now on.
      roles.clear()
      users.clear()
    }
  }
}

function textOf (texts: Map<string, string>, text: string): string {
  const known = texts.get(text)
  if (known === undefined) texts.set(text, text)
  return known ?? text
}
