/** The SQL of the platform's roles. The document names the tables, so the statements are built from their names. */
import { type Kysely, sql, type Transaction } from 'kysely'
import { rolePermissions, type RoleTables } from '../../lib/database/declared-tables.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { uuidForm } from '../../lib/identity/uuid.js'

type Reader = Kysely<SystemTables>
type Writer = Transaction<SystemTables>

/** A role as the API shows it. */
export interface RoleRow {
  readonly id: string
  readonly name: string
  readonly description: string | null
  /** Sorted. */
  readonly permissions: readonly string[]
  readonly created_at: Date
}

export type PermissionRow = Omit<RoleRow, 'permissions'>

/** A user of roles: a `sub` and its tenant, which is empty for the platform's own users. */
export interface UserKey {
  readonly tenant: Owner
  readonly userId: string
}

export interface Page<Row> {
  readonly rows: readonly Row[]
  readonly total: number
}

export type RoleStore = ReturnType<typeof createRoleStore>

export function createRoleStore (names: RoleTables) {
  const [roles, permissions, userRoles, held] = [names.roles, names.permissions, names.userRoles, rolePermissions].map((name) =>
    sql.table(`tenantry.${name}`)
  )

  /** The same order in every database, for any locale. */
  const byName = sql`name collate "C"`
  const permissionsOfRole =
    sql`array(select p.name from ${held} h join ${permissions} p on p.id = h.permission_id where h.role_id = r.id order by p.name collate "C")`
  const roleColumns = sql`r.id, r.name, r.description, ${permissionsOfRole} as permissions, r.created_at`
  const permissionColumns = sql`id, name, description, created_at`
  const ofUser = ({ tenant, userId }: UserKey) => sql`tenant_id = ${tenant} and user_id = ${userId}`

  async function count (reader: Reader, table: typeof roles): Promise<number> {
    const { rows: [row] } = await sql<{ count: number }>`select count(*)::int as count from ${table}`.execute(reader)
    return row?.count ?? 0
  }

  return {
    /** Changes of roles wait for each other, for any names of the tables; reads never wait. */
    async lock (writer: Writer): Promise<void> {
      await sql`lock table ${held} in share row exclusive mode`.execute(writer)
    },

    async roles (reader: Reader, { limit, offset }: { limit: number, offset: number }): Promise<Page<RoleRow>> {
      const { rows } = await sql<RoleRow>`select ${roleColumns} from ${roles} r order by r.${byName} limit ${limit} offset ${offset}`
        .execute(reader)
      return { rows, total: await count(reader, roles) }
    },

    async role (reader: Reader, id: string): Promise<RoleRow | undefined> {
      const { rows: [row] } = await sql<RoleRow>`select ${roleColumns} from ${roles} r where r.id = ${id}`.execute(reader)
      return row
    },

    /** One row, or none. */
    async rolesNamed (reader: Reader, name: string): Promise<readonly RoleRow[]> {
      const { rows } = await sql<RoleRow>`select ${roleColumns} from ${roles} r where r.name = ${name}`.execute(reader)
      return rows
    },

    async permissions (reader: Reader, { limit, offset }: { limit: number, offset: number }): Promise<Page<PermissionRow>> {
      const { rows } = await sql<
        PermissionRow
      >`select ${permissionColumns} from ${permissions} order by ${byName} limit ${limit} offset ${offset}`.execute(reader)
      return { rows, total: await count(reader, permissions) }
    },

    async everything (reader: Reader): Promise<readonly Pick<RoleRow, 'id' | 'name' | 'permissions'>[]> {
      const { rows } = await sql<Pick<RoleRow, 'id' | 'name' | 'permissions'>>`
        select r.id, r.name, coalesce(array_agg(p.name) filter (where p.name is not null), '{}') as permissions
        from ${roles} r left join ${held} h on h.role_id = r.id left join ${permissions} p on p.id = h.permission_id
        group by r.id`.execute(reader)
      return rows
    },

    /**
     * A tenant with a user of this id, if the platform has no such user. One index look-up for each tenant: the index begins with
     * the tenant.
     */
    async tenantOfUser (reader: Reader, userId: string): Promise<string | undefined> {
      // Only users with passwords have a UUID.
      if (!uuidForm.test(userId)) return undefined
      const { rows: [row] } = await sql<{ tenant: Owner }>`select t.id as tenant from tenantry.tenants t
        cross join lateral (select from tenantry.users u where u.tenant_id = t.id and u.id = ${userId}::uuid limit 1) found
        where not exists (select from tenantry.users where tenant_id = '' and id = ${userId}::uuid) limit 1`.execute(reader)
      return row?.tenant
    },

    /** The id of a user with a password in the spelling of its tokens; other ids unchanged. */
    async spelled (reader: Reader, { tenant, userId }: UserKey): Promise<string> {
      if (!uuidForm.test(userId)) return userId
      const user = reader.selectFrom('tenantry.users').select('id').where('tenant_id', '=', tenant).where('id', '=', userId)
      return (await user.executeTakeFirst())?.id ?? userId
    },

    countRoles: (reader: Reader) => count(reader, roles),
    countPermissions: (reader: Reader) => count(reader, permissions),

    /** Whether another role has the name. */
    async isTaken (reader: Reader, name: string, except: string | null = null): Promise<boolean> {
      const { rows } = await sql`select from ${roles} where name = ${name} and id is distinct from ${except}::uuid`.execute(reader)
      return rows.length > 0
    },

    async insertRole (writer: Writer, { name, description, at }: { name: string, description: string | null, at: Date }): Promise<string> {
      const { rows: [row] } = await sql<
        { id: string }
      >`insert into ${roles} (name, description, created_at) values (${name}, ${description}, ${at.toISOString()}) returning id`.execute(
        writer
      )
      if (row === undefined) throw new Error('an insert returned no row')
      return row.id
    },

    async updateRole (writer: Writer, id: string, { name, description }: { name: string, description: string | null }): Promise<void> {
      await sql`update ${roles} set name = ${name}, description = ${description} where id = ${id}`.execute(writer)
    },

    /** Removes the role, its permissions and its assignments. Resolves with the number of its users. */
    async deleteRole (writer: Writer, id: string): Promise<number> {
      const { rows: [row] } = await sql<{ users: number }>`
        with gone as (delete from ${roles} where id = ${id}),
          less as (delete from ${held} where role_id = ${id}),
          unassigned as (delete from ${userRoles} where role_id = ${id} returning 1)
        select count(*)::int as users from unassigned`.execute(writer)
      return row?.users ?? 0
    },

    /** Replaces the permissions of the role; each name must exist. */
    async setPermissions (writer: Writer, roleId: string, wanted: readonly string[]): Promise<void> {
      await sql`delete from ${held} where role_id = ${roleId}`.execute(writer)
      await sql`insert into ${held} (role_id, permission_id) select ${roleId}, id from ${permissions} where name = any (${wanted}::text[])`
        .execute(writer)
    },

    /** The names that are not permissions. */
    async unknownPermissions (reader: Reader, wanted: readonly string[]): Promise<ReadonlySet<string>> {
      const { rows } = await sql<
        { name: string }
      >`select name from unnest(${wanted}::text[]) as wanted (name) where name not in (select name from ${permissions} where name = any (${wanted}::text[]))`
        .execute(reader)
      return new Set(rows.map(({ name }) => name))
    },

    /** undefined if the name is taken. */
    async insertPermission (
      writer: Writer,
      { name, description, at }: { name: string, description: string | null, at: Date }
    ): Promise<PermissionRow | undefined> {
      const { rows: [row] } = await sql<PermissionRow>`
        insert into ${permissions} (name, description, created_at) values (${name}, ${description}, ${at.toISOString()})
        on conflict (name) do nothing returning ${permissionColumns}`.execute(writer)
      return row
    },

    /** The number of roles that held it; undefined if the permission does not exist. */
    async deletePermission (writer: Writer, id: string): Promise<{ name: string, roles: number } | undefined> {
      const { rows: [row] } = await sql<{ name: string, roles: number }>`
        with gone as (delete from ${permissions} where id = ${id} returning id, name),
          less as (delete from ${held} where permission_id in (select id from gone) returning 1)
        select name, (select count(*) from less)::int as roles from gone`.execute(writer)
      return row
    },

    async countRolesOf (reader: Reader, user: UserKey): Promise<number> {
      const { rows: [row] } = await sql<{ count: number }>`select count(*)::int as count from ${userRoles} where ${ofUser(user)}`.execute(
        reader
      )
      return row?.count ?? 0
    },

    /** false if the user has the role already. */
    async assign (writer: Writer, { tenant, userId }: UserKey, roleId: string): Promise<boolean> {
      const { rows } =
        await sql`insert into ${userRoles} (tenant_id, user_id, role_id) values (${tenant}, ${userId}, ${roleId}) on conflict do nothing returning 1`
          .execute(writer)
      return rows.length > 0
    },

    /** false if the user does not have the role. */
    async unassign (writer: Writer, user: UserKey, roleId: string): Promise<boolean> {
      const { rows } = await sql`delete from ${userRoles} where ${ofUser(user)} and role_id = ${roleId} returning 1`.execute(writer)
      return rows.length > 0
    },

    async rolesOf (reader: Reader, user: UserKey): Promise<readonly RoleRow[]> {
      const { rows } = await sql<RoleRow>`
        select ${roleColumns} from ${roles} r where r.id in (select role_id from ${userRoles} where ${ofUser(user)}) order by r.${byName}`
        .execute(reader)
      return rows
    },

    async roleIdsOf (reader: Reader, user: UserKey): Promise<string[]> {
      const { rows } = await sql<{ id: string }>`select role_id as id from ${userRoles} where ${ofUser(user)}`.execute(reader)
      return rows.map(({ id }) => id)
    }
  }
}
