/** The SQL of tenants' roles. */
import type { Kysely } from 'kysely'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { noRbac, type RbacConfig, type Role } from './roles.js'

type Reader = Kysely<SystemTables>

export type RbacStore = ReturnType<typeof createRbacStore>

export function createRbacStore (db: Reader) {
  /** One statement, so that the roles belong to the configuration. */
  async function read (tenant: Owner, reader: Reader = db): Promise<RbacConfig> {
    const rows = await reader.selectFrom('tenantry.tenants as t')
      .leftJoin('tenantry.tenant_rbac as c', 'c.tenant_id', 't.id')
      .leftJoin('tenantry.tenant_roles as r', 'r.tenant_id', 't.id')
      .select(['c.enabled', 'c.default_role as defaultRole', 'r.name', 'r.description', 'r.permissions', 'r.parent_role as parentRole'])
      .where('t.id', '=', tenant).execute()
    const [first] = rows
    if (first === undefined) return noRbac
    const roles = new Map<string, Role>()
    for (const { name, permissions, description, parentRole } of rows) {
      if (name !== null && permissions !== null) roles.set(name, { name, description, permissions, parentRole })
    }
    return { enabled: first.enabled ?? false, defaultRole: first.defaultRole, roles }
  }

  return {
    read,

    /** The roles of the tenant, locked until the transaction ends; null if there is no such tenant. */
    async locked (writer: SystemTransaction, tenant: Owner): Promise<RbacConfig | null> {
      return await lockTenant(writer, tenant, 'alone') ? read(tenant, writer) : null
    },

    async write (writer: SystemTransaction, tenant: Owner, before: RbacConfig, after: RbacConfig): Promise<void> {
      const gone = [...before.roles.keys()].filter((name) => !after.roles.has(name))
      if (gone.length > 0) {
        await writer.deleteFrom('tenantry.tenant_roles').where('tenant_id', '=', tenant).where('name', 'in', gone).execute()
      }

      const changed = [...after.roles.values()].filter((role) => role !== before.roles.get(role.name))
      if (changed.length > 0) {
        await writer.insertInto('tenantry.tenant_roles')
          .values(
            changed.map(({ name, description, permissions, parentRole }) => ({
              tenant_id: tenant,
              name,
              description,
              permissions: [...permissions],
              parent_role: parentRole
            }))
          )
          .onConflict((conflict) =>
            conflict.columns(['tenant_id', 'name']).doUpdateSet((row) => ({
              description: row.ref('excluded.description'),
              permissions: row.ref('excluded.permissions'),
              parent_role: row.ref('excluded.parent_role')
            }))
          ).execute()
      }

      const { enabled, defaultRole } = after
      if (enabled === before.enabled && defaultRole === before.defaultRole) return
      await writer.insertInto('tenantry.tenant_rbac').values({ tenant_id: tenant, enabled, default_role: defaultRole })
        .onConflict((conflict) => conflict.column('tenant_id').doUpdateSet({ enabled, default_role: defaultRole })).execute()
    }
  }
}
