/** The SQL of the administration of users. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Page } from '../../lib/http/page.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { User } from './user.js'
import { sql, type Kysely, type Transaction } from 'kysely'
import { columns, userOf, type UserId } from './store.js'

type Writer = Transaction<SystemTables>

/** Omitted filters match all. */
export interface UserFilter {
  /** A part of the address. */
  readonly search?: string | undefined
  readonly status?: User['status'] | undefined
}

export type UserChanges = Partial<Pick<User, 'role' | 'status'>>

export type UserAdminStore = ReturnType<typeof createUserAdminStore>

/** @param dbFor runs the statements of a tenant */
export function createUserAdminStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  return {
    /** A page of the tenant's users by address, and the total. */
    async list (tenant: Owner, { search, status }: UserFilter, { limit, offset }: Page): Promise<{ data: User[], total: number }> {
      const found = dbFor(tenant).selectFrom('tenantry.users').where('tenant_id', '=', tenant)
        .$if(status !== undefined, (query) => query.where('status', '=', status ?? 'active'))
        .$if(search !== undefined, (query) => query.where(sql<boolean>`position(${(search ?? '').toLowerCase()} in email) > 0`))
      const rows = await found.select(columns).orderBy('email').limit(limit).offset(offset).execute()
      const { total } = await found.select(sql<number>`count(*)::integer`.as('total')).executeTakeFirstOrThrow()
      return { data: rows.map(userOf), total }
    },

    /** Locks the user until the transaction ends. */
    async read (writer: Writer, { tenant, id }: UserId): Promise<User | null> {
      const row = await writer.selectFrom('tenantry.users').select(columns).where('tenant_id', '=', tenant).where('id', '=', id).forUpdate()
        .executeTakeFirst()
      return row === undefined ? null : userOf(row)
    },

    async update (writer: Writer, { tenant, id }: UserId, changes: UserChanges, at: Date): Promise<void> {
      await writer.updateTable('tenantry.users').set({ ...changes, updated_at: at }).where('tenant_id', '=', tenant).where('id', '=', id)
        .execute()
    },

    /** Removes the user with its second factor and its conversations. The foreign key removes its sessions. */
    async delete (writer: Writer, { tenant, id }: UserId): Promise<void> {
      await writer.deleteFrom('tenantry.conversations').where('tenant_id', '=', tenant).where('user_id', '=', id)
        .where('platform', '=', false).execute()
      await writer.deleteFrom('tenantry.user_mfa').where('tenant_id', '=', tenant).where('user_id', '=', id).execute()
      await writer.deleteFrom('tenantry.users').where('tenant_id', '=', tenant).where('id', '=', id).execute()
    },

    /** Whether the tenant has another administrator who can log in. */
    async hasOtherAdministrator (writer: Writer, { tenant, id }: UserId): Promise<boolean> {
      return await writer.selectFrom('tenantry.users').select('id').where('tenant_id', '=', tenant).where('role', '=', 'admin')
        .where('status', '=', 'active').where('id', '!=', id).limit(1).executeTakeFirst() !== undefined
    },

    /** Removes the API keys that the user created, and the keys created with these; returns the ids of all. */
    async deleteApiKeys (writer: Writer, { tenant, id }: UserId): Promise<string[]> {
      const { rows } = await sql<{ id: string }>`with recursive gone as (
          select id from tenantry.api_keys where tenant_id = ${tenant} and created_by = ${id}
          union select k.id from tenantry.api_keys k join gone on k.created_by = 'api-key:' || gone.id::text where k.tenant_id = ${tenant}
        )
        delete from tenantry.api_keys where tenant_id = ${tenant} and id in (select id from gone) returning id`.execute(writer)
      return rows.map(({ id }) => id)
    }
  }
}
