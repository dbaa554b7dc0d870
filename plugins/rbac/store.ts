/** The SQL of the platform's roles. The document names the tables, so the statements are built from their names. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { rolePermissions, type RoleTables } from '../../lib/database/declared-tables.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { uuidForm } from '../../lib/identity/uuid.js'

type Reader = Kysely<SystemTables>

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

type Named = Pick<RoleRow, 'name' | 'description'>

/** A user of roles: a `sub` and its tenant, which is empty for the platform's own users. */
export interface UserKey {
  readonly tenant: Owner
  readonly userId: string
}

export type RoleStore = ReturnType<typeof createRoleStore>

export function createRoleStore (names: RoleTables) {
  const table = (name: string) => sql.table(`tenantry.${name}`)
  const [roles, permissions] = [table(names.roles), table(names.permissions)]
  const [userRoles, held] = [table(names.userRoles), table(rolePermissions)]

  /** The same order in every database, for any locale. */
  const byName = sql`name collate "C"`
  const permissionsOfRole =
    sql`array(select p.name from ${held} h join ${permissions} p on p.id = h.permission_id where h.role_id = r.id order by p.name collate "C")`
  const roleColumns = sql`r.id, r.name, r.description, ${permissionsOfRole} as permissions, r.created_at`
  const permissionColumns = sql`r.id, r.name, r.description, r.created_at`
  const ofUser = ({ tenant, userId }: UserKey) => sql`tenant_id = ${tenant} and user_id = ${userId}`

  async function count (reader: Reader, rows: RawBuilder<unknown>): Promise<number> {
    return (await first(reader, sql<{ count: number }>`select count(*)::int as count from ${rows}`))?.count ?? 0
  }

  /** A page by name, and the number of all rows. */
  async function page<Row> (reader: Reader, table: RawBuilder<unknown>, columns: RawBuilder<unknown>, { limit, offset }: Page) {
    const data = await all(reader, sql<Row>`select ${columns} from ${table} r order by r.${byName} limit ${limit} offset ${offset}`)
    return { data, total: await count(reader, table) }
  }

  const rolesWhere = (reader: Reader, condition: RawBuilder<unknown>) =>
    all(reader, sql<RoleRow>`select ${roleColumns} from ${roles} r where ${condition} order by r.${byName}`)

  return {
    /** Changes of roles wait for each other, for any names of the tables; reads never wait. */
    async lock (writer: SystemTransaction): Promise<void> {
      await sql`lock table ${held} in share row exclusive mode`.execute(writer)
    },

    roles: (reader: Reader, given: Page) => page<RoleRow>(reader, roles, roleColumns, given),
    permissions: (reader: Reader, given: Page) => page<PermissionRow>(reader, permissions, permissionColumns, given),

    async role (reader: Reader, id: string): Promise<RoleRow | undefined> {
      return (await rolesWhere(reader, sql`r.id = ${id}`))[0]
    },

    /** One row, or none. */
    rolesNamed: (reader: Reader, name: string) => rolesWhere(reader, sql`r.name = ${name}`),
    rolesOf: (reader: Reader, user: UserKey) => rolesWhere(reader, sql`r.id in (select role_id from ${userRoles} where ${ofUser(user)})`),

    everything: (reader: Reader) =>
      all(
        reader,
        sql<Pick<RoleRow, 'id' | 'name' | 'permissions'>>`
          select r.id, r.name, coalesce(array_agg(p.name) filter (where p.name is not null), '{}') as permissions
          from ${roles} r left join ${held} h on h.role_id = r.id left join ${permissions} p on p.id = h.permission_id
          group by r.id`
      ),

    /**
     * A tenant with a user of this id, if the platform has no such user. One index look-up for each tenant: the index begins with
     * the tenant.
     */
    async tenantOfUser (reader: Reader, userId: string): Promise<string | undefined> {
      // Only users with passwords have a UUID.
      if (!uuidForm.test(userId)) return undefined
      const tenant = await first(
        reader,
        sql<{ id: string }>`select t.id from tenantry.tenants t
          cross join lateral (select from tenantry.users u where u.tenant_id = t.id and u.id = ${userId}::uuid limit 1) found
          where not exists (select from tenantry.users where tenant_id = '' and id = ${userId}::uuid) limit 1`
      )
      return tenant?.id
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
      return await first(reader, sql`select from ${roles} where name = ${name} and id is distinct from ${except}::uuid`) !== undefined
    },

    /** Resolves with the id of the role. */
    async insertRole (writer: SystemTransaction, { name, description }: Named, at: Date): Promise<string> {
      const row = await first(
        writer,
        sql<{ id: string }>`insert into ${roles} (name, description, created_at) values (${name}, ${description}, ${at.toISOString()}) returning id`
      )
      if (row === undefined) throw new Error('an insert returned no row')
      return row.id
    },

    async updateRole (writer: SystemTransaction, id: string, { name, description }: Named): Promise<void> {
      await sql`update ${roles} set name = ${name}, description = ${description} where id = ${id}`.execute(writer)
    },

    /** Removes the role, its permissions and its assignments. Resolves with the number of its users. */
    async deleteRole (writer: SystemTransaction, id: string): Promise<number> {
      const gone = await first(
        writer,
        sql<{ users: number }>`
          with gone as (delete from ${roles} where id = ${id}),
            less as (delete from ${held} where role_id = ${id}),
            unassigned as (delete from ${userRoles} where role_id = ${id} returning 1)
          select count(*)::int as users from unassigned`
      )
      return gone?.users ?? 0
    },

    /** Replaces the permissions of the role; each name must exist. */
    async setPermissions (writer: SystemTransaction, roleId: string, wanted: readonly string[]): Promise<void> {
      await sql`delete from ${held} where role_id = ${roleId}`.execute(writer)
      await sql`insert into ${held} (role_id, permission_id) select ${roleId}, id from ${permissions} where name = any (${wanted}::text[])`
        .execute(writer)
    },

    /** The names that are not permissions. */
    async unknownPermissions (reader: Reader, wanted: readonly string[]): Promise<ReadonlySet<string>> {
      const unknown = await all(
        reader,
        sql<{ name: string }>`select name from unnest(${wanted}::text[]) as wanted (name)
          where name not in (select name from ${permissions} where name = any (${wanted}::text[]))`
      )
      return new Set(unknown.map(({ name }) => name))
    },

    /** undefined if the name is taken. */
    insertPermission: (writer: SystemTransaction, { name, description }: Named, at: Date) =>
      first(
        writer,
        sql<PermissionRow>`
          insert into ${permissions} as r (name, description, created_at) values (${name}, ${description}, ${at.toISOString()})
          on conflict (name) do nothing returning ${permissionColumns}`
      ),

    /** The number of roles that held it; undefined if the permission does not exist. */
    deletePermission: (writer: SystemTransaction, id: string) =>
      first(
        writer,
        sql<{ name: string, roles: number }>`
          with gone as (delete from ${permissions} where id = ${id} returning id, name),
            less as (delete from ${held} where permission_id in (select id from gone) returning 1)
          select name, (select count(*) from less)::int as roles from gone`
      ),

    countRolesOf: (reader: Reader, user: UserKey) => count(reader, sql`${userRoles} where ${ofUser(user)}`),

    /** false if the user has the role already. */
    async assign (writer: SystemTransaction, { tenant, userId }: UserKey, roleId: string): Promise<boolean> {
      const added = sql`insert into ${userRoles} (tenant_id, user_id, role_id) values (${tenant}, ${userId}, ${roleId})
        on conflict do nothing returning 1`
      return await first(writer, added) !== undefined
    },

    /** false if the user does not have the role. */
    async unassign (writer: SystemTransaction, user: UserKey, roleId: string): Promise<boolean> {
      return await first(writer, sql`delete from ${userRoles} where ${ofUser(user)} and role_id = ${roleId} returning 1`) !== undefined
    },

    async roleIdsOf (reader: Reader, user: UserKey): Promise<string[]> {
      const assigned = await all(reader, sql<{ id: string }>`select role_id as id from ${userRoles} where ${ofUser(user)}`)
      return assigned.map(({ id }) => id)
    }
  }
}

async function all<Row> (reader: Reader, statement: RawBuilder<Row>): Promise<readonly Row[]> {
  return (await statement.execute(reader)).rows
}

async function first<Row> (reader: Reader, statement: RawBuilder<Row>): Promise<Row | undefined> {
  return (await all(reader, statement))[0]
}
