/** The handlers of the endpoints of tenants' roles. */
import { isDeepStrictEqual } from 'node:util'
import type { Kysely } from 'kysely'
import { type AuditEntry, writeAudit } from '../../lib/database/audit.js'
import type { Events } from '../../lib/database/events.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { type Precondition, requireMatch, tagOf } from '../../lib/http/caching.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Author } from '../auth/actor.js'
import { requirePresent } from '../sessions/present.js'
import { requireRbacGrant } from './grants.js'
import { checkRbac, type RbacConfig, type Role } from './roles.js'
import type { RbacStore } from './store.js'

type Entry = Pick<AuditEntry, 'action' | 'target' | 'details'>

export type RoleChanges = Partial<Omit<Role, 'name'>>

/**
 * Every change throws `roleInvalid` for invalid roles, `grantExceeds` if it gives a permission that its author does not hold,
 * `tenantUnknown`, and `tokenInvalid` if the author has ended meanwhile. Of two concurrent changes the second is checked against the
 * result of the first.
 */
export type TenantRbac = ReturnType<typeof createTenantRbac>

/** `dbFor`: for queries of a tenant's endpoints. `providers`: the names of the external providers. */
export function createTenantRbac (
  store: RbacStore,
  events: Events,
  dbFor: (tenant: Owner) => Kysely<SystemTables>,
  providers: readonly string[]
) {
  async function edit (
    tenant: Owner,
    { claims, held, actor }: Author,
    entry: Entry,
    change: (before: RbacConfig) => RbacConfig,
    further: (before: RbacConfig) => readonly Entry[] = () => []
  ): Promise<void> {
    await events.change({ topic: 'roles', tenant }, async (transaction) => {
      const before = await store.locked(transaction, tenant)
      if (before === null) throw failure('tenantUnknown')
      const at = new Date()
      await requirePresent(transaction, claims, at, providers)
      const after = change(before)
      if (after === before) return
      checkRbac(after)
      requireRbacGrant(held, before, after)
      await store.write(transaction, tenant, before, after)
      await writeAudit(transaction, ...[entry, ...further(before)].map((one): AuditEntry => ({ ...one, tenant, actor, at })))
    })
  }

  return {
    read: (tenant: Owner): Promise<RbacConfig> => store.read(tenant, dbFor(tenant)),

    /** Replaces the whole configuration; throws `preconditionFailed` if the current one does not meet `match`. */
    async replace (tenant: Owner, config: RbacConfig, author: Author, match?: Precondition): Promise<RbacConfig> {
      const { enabled, defaultRole, roles } = config
      await edit(
        tenant,
        author,
        { action: 'role.replace', details: { enabled, defaultRole, roles: [...roles.keys()] } },
        (before) => {
          requireMatch(match, rbacTag(before))
          return config
        },
        (before) => changedRoles(before, config)
      )
      return config
    },

    /** Throws `conflict` for a taken name. */
    async create (tenant: Owner, role: Role, author: Author): Promise<void> {
      await edit(tenant, author, { action: 'role.create', target: role.name, details: auditDetails(role) }, (before) => {
        if (before.roles.has(role.name)) throw failure('conflict', { message: `There is already a role "${role.name}"` })
        return withRole(before, role)
      })
    },

    /** Omitted members keep their values. Throws `notFound`. */
    async update (tenant: Owner, name: string, changes: RoleChanges, author: Author): Promise<Role> {
      let updated: Role | undefined
      await edit(tenant, author, { action: 'role.update', target: name, details: auditDetails(changes) }, (before) => {
        updated = { ...roleOf(before, name), ...changes }
        return Object.keys(changes).length === 0 ? before : withRole(before, updated)
      })
      if (updated === undefined) throw failure('notFound')
      return updated
    },

    /** Throws `notFound`, and `roleInUse` if other roles inherit from it, or if it is the default role. */
    async delete (tenant: Owner, name: string, author: Author): Promise<void> {
      await edit(tenant, author, { action: 'role.delete', target: name }, (before) => {
        roleOf(before, name)
        const child = [...before.roles.values()].find(({ parentRole }) => parentRole === name)
        if (child !== undefined) {
          throw failure('roleInUse', { message: `The role "${child.name}" inherits from "${name}": change its parent first` })
        }
        if (before.defaultRole === name) {
          throw failure('roleInUse', {
            message: `"${name}" is the default role: set another default role first`
          })
        }
        const roles = new Map(before.roles)
        roles.delete(name)
        return { ...before, roles }
      })
    }
  }
}

/** The entity tag of a configuration; it ignores the order of roles. */
export function rbacTag ({ enabled, defaultRole, roles }: RbacConfig): string {
  const sorted = [...roles.values()].sort((a, b) => a.name < b.name ? -1 : 1)
  return tagOf(
    JSON.stringify([
      enabled,
      defaultRole,
      ...sorted.map(({ name, description, permissions, parentRole }) => [name, description, permissions, parentRole])
    ])
  )
}

/** The entries of the roles that a new configuration adds, changes or removes. One entry of all their permissions could be too long. */
function changedRoles (before: RbacConfig, after: RbacConfig): Entry[] {
  const removed = [...before.roles.keys()].filter((name) => !after.roles.has(name))
  return [
    ...removed.map((target): Entry => ({ action: 'role.delete', target })),
    ...[...after.roles.values()].flatMap((role): Entry[] => {
      const known = before.roles.get(role.name)
      if (known === undefined) return [{ action: 'role.create', target: role.name, details: auditDetails(role) }]
      return isDeepStrictEqual(known, role) ? [] : [{ action: 'role.update', target: role.name, details: auditDetails(role) }]
    })
  ]
}

/** The audit details of a role, or of its changes: who gets which permissions. */
function auditDetails ({ permissions, parentRole }: RoleChanges): Record<string, unknown> {
  return { ...permissions !== undefined && { permissions }, ...parentRole !== undefined && { parentRole } }
}

function withRole (config: RbacConfig, role: Role): RbacConfig {
  return { ...config, roles: new Map(config.roles).set(role.name, role) }
}

function roleOf ({ roles }: RbacConfig, name: string): Role {
  const role = roles.get(name)
  if (role === undefined) throw failure('notFound')
  return role
}
