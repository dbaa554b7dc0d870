/**
 * A memory of the platform's roles: all roles, which are few, and those of each user. Only platform administrators change them,
 * so each change clears the memory of this process.
 */
import { tenantRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { RoleStore } from './store.js'
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import { isUserId } from '../../lib/identity/user-id.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'
import { noPermissions, unionOf, type PermissionSet } from '../auth/permissions.js'

const maxUsers = 100_000
const maxWeight = 67_108_864 // bytes, about, of all users that are remembered

interface Roles {
  readonly byId: ReadonlyMap<string, PermissionSet>
  /** What the default role holds; null where there is no such role. */
  readonly byDefault: PermissionSet | null
}

interface Holder {
  readonly held: PermissionSet
  readonly weight: number
}

export interface RoleMemory {
  /** What the roles of a user give it, at once where that is remembered. */
  permissionsOf(tenant: Owner, sub: string): PermissionSet | Promise<PermissionSet>
  /** There is a role of the name that the configuration gives; true where it gives none. */
  hasDefaultRole(): Promise<boolean>
  /** Something has changed. */
  clear(): void
}

export interface RoleMemoryParts {
  readonly store: Pick<RoleStore, 'everything' | 'roleIdsOf'>
  readonly db: Kysely<SystemTables>
  /** For what is read of a tenant's user; empty for those of none. */
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  /** The name of the role of users who have none. */
  readonly defaultRole: string | undefined
}

export function createRoleMemory ({ store, db, dbFor, defaultRole }: RoleMemoryParts): RoleMemory {
  const roles = createAsyncCache<Roles>({
    max: 1,
    async load () {
      const byId = new Map<string, PermissionSet>()
      // One text for each permission, however many roles hold it.
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
  const users = createAsyncCache<Holder>({
    max: maxUsers,
    weight: { max: maxWeight, of: ({ weight }) => weight },
    async load (key) {
      // No tenant's id has a slash.
      const slash = key.indexOf('/')
      const [tenant, userId] = [tenantRef(key.slice(0, slash)), key.slice(slash + 1)]
      // Another one was never given a role, and is looked for nowhere.
      const ids = isUserId(userId) ? await store.roleIdsOf(dbFor(tenant), { tenant, userId }) : []
      const { byId, byDefault } = await roles.get('')
      const sets = ids.flatMap((id) => byId.get(id) ?? [])
      const [only = byDefault ?? noPermissions] = sets
      return { held: sets.length > 1 ? unionOf(sets) : only, weight: 600 + 2 * key.length + 16 * sets.length }
    }
  })

  return {
    permissionsOf (tenant, sub) {
      const holder = users.get(`${tenant}/${sub}`)
      return whenKnown(holder, ({ held }) => held)
    },
    async hasDefaultRole () {
      return defaultRole === undefined || (await roles.get('')).byDefault !== null
    },
    clear () {
      // In this order: what is read of a user from now on is of roles that are read from now on.
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
