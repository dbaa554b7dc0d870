/** The handlers of the endpoints of the platform's roles. */
import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import { type Actor, type AuditAction, type AuditEntry, writeAudit } from '../../lib/database/audit.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Page } from '../../lib/http/page.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import type { PermissionRow, RoleRow, RoleStore, UserKey } from './store.js'

export const maxRoles = 1000
export const maxPermissions = 5000
export const maxPermissionsOfRole = 200
export const maxRolesOfUser = 100
const maxDetails = 50 // in a refusal

/** Its permissions exist. */
type NewRole = Pick<RoleRow, 'name' | 'description' | 'permissions'>

/** Concurrent changes run one after another. Each change and its audit entry are written in one transaction. */
export type PlatformRoles = ReturnType<typeof createPlatformRoles>

/** @param defaultRole the name of the role of users without an assigned role */
export function createPlatformRoles (app: FastifyInstance, store: RoleStore, defaultRole: string | undefined, now: () => number) {
  const { db, events } = app

  /**
   * Changes run one after another. Then every instance clears its cache of permissions. A change does not wait for a tenant's
   * turn, so a busy tenant cannot delay the removal of a role.
   */
  function change<T> (work: (transaction: SystemTransaction) => Promise<T>, user?: UserKey): Promise<T> {
    return events.change({ topic: 'rbac', tenant: platformRef }, async (transaction) => {
      if (user !== undefined && !await lockTenant(transaction, user.tenant, 'shared')) throw failure('tenantUnknown')
      await store.lock(transaction)
      return work(transaction)
    })
  }

  function entry (
    action: AuditAction,
    actor: Actor,
    target: string,
    details: Readonly<Record<string, unknown>>,
    tenant: Owner = platformRef
  ): AuditEntry {
    return { tenant, action, actor, target, details, at: new Date(now()) }
  }

  async function requireKnown (transaction: SystemTransaction, permissions: readonly string[]): Promise<void> {
    const unknown = await store.unknownPermissions(transaction, permissions)
    if (unknown.size === 0) return
    const details = [...permissions.entries()].filter(([, permission]) => unknown.has(permission)).map(([index, permission]) => ({
      path: `/body/permissions/${index}`,
      message: `there is no permission "${permission}": create it with POST /rbac/permissions`,
      keyword: 'enum'
    }))
    throw failure('validationFailed', { extras: { details: details.slice(0, maxDetails) } })
  }

  async function found (reader: Kysely<SystemTables>, id: string): Promise<RoleRow> {
    const role = await store.role(reader, id)
    if (role === undefined) throw failure('notFound')
    return role
  }

  /** Without it no server of the document would start. */
  function refuseDefault ({ name }: RoleRow): void {
    if (name === defaultRole) {
      throw failure('roleInUse', {
        message: `"${name}" is the default role: first set another default role in the document (rbac.defaultRole)`
      })
    }
  }

  return {
    /** By name. */
    roles: (page: Page) => store.roles(db, page),
    /** Throws `notFound`. */
    role: (id: string): Promise<RoleRow> => found(db, id),

    /** Throws `validationFailed` for permissions that do not exist, and `conflict` for a taken name or past 1,000 roles. */
    createRole: ({ name, description, permissions }: NewRole, by: Actor): Promise<RoleRow> =>
      change(async (transaction) => {
        await requireKnown(transaction, permissions)
        if (await store.isTaken(transaction, name)) throw nameTaken(name)
        if (await store.countRoles(transaction) >= maxRoles) {
          throw failure('conflict', { message: `There can be at most ${maxRoles} roles: delete an unused role first` })
        }
        const id = await store.insertRole(transaction, { name, description }, new Date(now()))
        await store.setPermissions(transaction, id, permissions)
        await writeAudit(transaction, entry('rbac.role.create', by, name, { id, permissions }))
        return found(transaction, id)
      }),

    /**
     * Omitted members keep their values. Throws `notFound`, `validationFailed` and `conflict` as above, and `roleInUse` for a new
     * name of the default role.
     */
    updateRole: (id: string, changes: Partial<NewRole>, by: Actor): Promise<RoleRow> =>
      change(async (transaction) => {
        const before = await found(transaction, id)
        const { name = before.name, description = before.description, permissions } = changes
        if (permissions !== undefined) await requireKnown(transaction, permissions)
        if (name !== before.name) {
          refuseDefault(before)
          if (await store.isTaken(transaction, name, id)) throw nameTaken(name)
        }
        await store.updateRole(transaction, id, { name, description })
        if (permissions !== undefined) await store.setPermissions(transaction, id, permissions)
        await writeAudit(transaction, entry('rbac.role.update', by, before.name, { id, ...changes }))
        return found(transaction, id)
      }),

    /** Removes the role, also from its users. Throws `notFound`, and `roleInUse` for the default role. */
    deleteRole: (id: string, by: Actor): Promise<void> =>
      change(async (transaction) => {
        const role = await found(transaction, id)
        refuseDefault(role)
        const users = await store.deleteRole(transaction, id)
        await writeAudit(transaction, entry('rbac.role.delete', by, role.name, { id, users }))
      }),

    /** By name. */
    permissions: (page: Page) => store.permissions(db, page),

    /** Throws `conflict` for a taken name or past 5,000 permissions. */
    createPermission: ({ name, description }: Omit<NewRole, 'permissions'>, by: Actor): Promise<PermissionRow> =>
      change(async (transaction) => {
        const made = await store.insertPermission(transaction, { name, description }, new Date(now()))
        if (made === undefined) throw failure('conflict', { message: `There is already a permission "${name}"` })
        if (await store.countPermissions(transaction) > maxPermissions) {
          throw failure('conflict', { message: `There can be at most ${maxPermissions} permissions: delete an unused permission first` })
        }
        await writeAudit(transaction, entry('rbac.permission.create', by, name, { id: made.id }))
        return made
      }),

    /** Also removes it from all roles. Throws `notFound`. */
    deletePermission: (id: string, by: Actor): Promise<void> =>
      change(async (transaction) => {
        const gone = await store.deletePermission(transaction, id)
        if (gone === undefined) throw failure('notFound')
        await writeAudit(transaction, entry('rbac.permission.delete', by, gone.name, { id, roles: gone.roles }))
      }),

    /**
     * false if the user has the role already. Throws `notFound` for an unknown role, `tenantUnknown`, `tenantRequired` for a
     * tenant's user without the tenant, and `conflict` past 100 roles.
     */
    async assign (user: UserKey, roleId: string, by: Actor): Promise<boolean> {
      const tenant = user.tenant === platformRef ? await store.tenantOfUser(db, user.userId) : undefined
      if (tenant !== undefined) {
        throw failure('tenantRequired', {
          message: `The user belongs to the tenant "${tenant}", not to the platform: send the header X-Tenant-ID: ${tenant}`
        })
      }
      return await change(async (transaction) => {
        const { id, name } = await found(transaction, roleId)
        if (!await store.assign(transaction, user, id)) return false
        if (await store.countRolesOf(transaction, user) > maxRolesOfUser) {
          throw failure('conflict', { message: `A user has at most ${maxRolesOfUser} roles` })
        }
        await writeAudit(transaction, entry('rbac.assign', by, user.userId, { roleId: id, role: name }, user.tenant))
        return true
      }, user)
    },

    /** Throws `notFound` if the user does not have the role. */
    unassign: (user: UserKey, roleId: string, by: Actor): Promise<void> =>
      change(async (transaction) => {
        if (!await store.unassign(transaction, user, roleId)) throw failure('notFound', { message: 'The user does not have this role' })
        const role = await store.role(transaction, roleId)
        await writeAudit(transaction, entry('rbac.unassign', by, user.userId, { roleId, role: role?.name }, user.tenant))
      }, user),

    userOf: async (tenant: Owner, userId: string): Promise<UserKey> => ({ tenant, userId: await store.spelled(db, { tenant, userId }) }),

    /** The user's assigned roles, by name. */
    rolesOf: (user: UserKey) => store.rolesOf(db, user),

    /** The user's permissions, sorted; those of the default role if no role is assigned. */
    async permissionsOf (user: UserKey): Promise<string[]> {
      const assigned = await store.rolesOf(db, user)
      const roles = assigned.length > 0 || defaultRole === undefined ? assigned : await store.rolesNamed(db, defaultRole)
      return [...new Set(roles.flatMap(({ permissions }) => permissions))].sort()
    }
  }
}

function nameTaken (name: string): Error {
  return failure('conflict', { message: `There is already a role "${name}"` })
}
