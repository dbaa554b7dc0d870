/** The SQL of users. */
import { type Kysely, type Selectable, sql } from 'kysely'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import type { User } from './user.js'

type Row = Selectable<SystemTables['tenantry.users']>

const columns = ['tenant_id', 'id', 'email', 'role', 'status', 'email_verified_at', 'created_at'] as const

// Constants, here and in `list`: indexes have only such users (lib/database/migrations/system/users.ts).
const isAdministrator = sql<boolean>`role = 'admin' and status = 'active'`

/** Empty for the platform. */
export type UserId = Pick<User, 'tenant' | 'id'>

/** Omitted filters match all. */
export interface UserFilter {
  /** A part of the address. */
  readonly search?: string | undefined
  readonly status?: User['status'] | undefined
}

export type UserChanges = Partial<Pick<User, 'role' | 'status'>>

export type UserStore = ReturnType<typeof createUserStore>

/** @param dbFor runs the statements of a tenant; empty for the platform */
export function createUserStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  const rowOf = (writer: Kysely<SystemTables>, { tenant, id }: UserId) =>
    writer.updateTable('tenantry.users').where('tenant_id', '=', tenant).where('id', '=', id)

  return {
    async find (tenant: Owner, id: string): Promise<User | null> {
      const row = await dbFor(tenant).selectFrom('tenantry.users').select(columns).where('tenant_id', '=', tenant).where('id', '=', id)
        .executeTakeFirst()
      return row === undefined ? null : userOf(row)
    },

    /** The user, and the hash of its password. */
    async findByEmail (tenant: Owner, email: string): Promise<{ readonly user: User, readonly hash: string } | null> {
      const row = await dbFor(tenant).selectFrom('tenantry.users').select([...columns, 'password_hash']).where('tenant_id', '=', tenant)
        .where('email', '=', email).executeTakeFirst()
      return row === undefined ? null : { user: userOf(row), hash: row.password_hash }
    },

    /** false if the tenant has a user with this address. */
    async insert (writer: SystemTransaction, user: User, hash: string): Promise<boolean> {
      const { id, tenant, email, role, status, emailVerified, createdAt } = user
      const { numInsertedOrUpdatedRows = 0n } = await writer.insertInto('tenantry.users')
        .values({
          tenant_id: tenant,
          id,
          email,
          password_hash: hash,
          role,
          status,
          email_verified_at: emailVerified ? createdAt : null,
          created_at: createdAt,
          updated_at: createdAt
        })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'email']).doNothing()).executeTakeFirst()
      return numInsertedOrUpdatedRows > 0n
    },

    /** Replaces the hash `before` by another hash of the same password; false if it was changed meanwhile. */
    async replaceHash (user: User, before: string, hash: string, at: Date): Promise<boolean> {
      const { numUpdatedRows } = await rowOf(dbFor(user.tenant), user).set({ password_hash: hash, updated_at: at })
        .where('password_hash', '=', before).executeTakeFirst()
      return numUpdatedRows > 0n
    },

    /** Replaces the password; false if the user does not exist or is disabled, or if its hash is not `before`. */
    async setPassword (writer: SystemTransaction, user: UserId, hash: string, at: Date, before?: string): Promise<boolean> {
      const { numUpdatedRows } = await rowOf(writer, user).set({ password_hash: hash, updated_at: at }).where('status', '=', 'active')
        .$if(before !== undefined, (query) => query.where('password_hash', '=', before ?? '')).executeTakeFirst()
      return numUpdatedRows > 0n
    },

    /** The user receives mail at the address; false if there is no such user. */
    async setVerified (writer: SystemTransaction, user: UserId, email: string, at: Date): Promise<boolean> {
      const { numUpdatedRows } = await rowOf(writer, user)
        .set((row) => ({ email_verified_at: row.fn.coalesce('email_verified_at', row.val(at)), updated_at: at }))
        .where('email', '=', email).where('status', '=', 'active').executeTakeFirst()
      return numUpdatedRows > 0n
    },

    transaction: <T>(tenant: Owner, work: (writer: SystemTransaction) => Promise<T>) => dbFor(tenant).transaction().execute(work),

    /** A page of the tenant's users by address, and the total. */
    async list (tenant: Owner, { search, status }: UserFilter, { limit, offset }: Page): Promise<{ data: User[], total: number }> {
      const found = dbFor(tenant).selectFrom('tenantry.users').where('tenant_id', '=', tenant)
        .$if(status !== undefined, (query) => query.where(sql<boolean>`status = ${sql.lit(status)}`))
        .$if(search !== undefined, (query) => query.where(sql<boolean>`position(${(search ?? '').toLowerCase()} in email) > 0`))
      const rows = await found.select(columns).orderBy('email').limit(limit).offset(offset).execute()
      const { total } = await found.select(sql<number>`count(*)::integer`.as('total')).executeTakeFirstOrThrow()
      return { data: rows.map(userOf), total }
    },

    /** Locks the user until the transaction ends. */
    async read (writer: SystemTransaction, { tenant, id }: UserId): Promise<User | null> {
      const row = await writer.selectFrom('tenantry.users').select(columns).where('tenant_id', '=', tenant).where('id', '=', id).forUpdate()
        .executeTakeFirst()
      return row === undefined ? null : userOf(row)
    },

    async update (writer: SystemTransaction, user: UserId, changes: UserChanges, at: Date): Promise<void> {
      await rowOf(writer, user).set({ ...changes, updated_at: at }).execute()
    },

    /** Removes the user with its second factor and its conversations. The foreign key removes its sessions. */
    async delete (writer: SystemTransaction, { tenant, id }: UserId): Promise<void> {
      await writer.deleteFrom('tenantry.conversations').where('tenant_id', '=', tenant).where('user_id', '=', id)
        .where('platform', '=', false).execute()
      await writer.deleteFrom('tenantry.user_mfa').where('tenant_id', '=', tenant).where('user_id', '=', id).execute()
      await writer.deleteFrom('tenantry.users').where('tenant_id', '=', tenant).where('id', '=', id).execute()
    },

    /** Whether the tenant has another administrator who can log in. */
    async hasOtherAdministrator (writer: SystemTransaction, { tenant, id }: UserId): Promise<boolean> {
      return await writer.selectFrom('tenantry.users').select('id').where('tenant_id', '=', tenant).where(isAdministrator)
        .where('id', '!=', id).limit(1).executeTakeFirst() !== undefined
    }
  }
}

function userOf (
  { tenant_id: tenant, id, email, role, status, email_verified_at: verifiedAt, created_at: createdAt }: Pick<Row, typeof columns[number]>
): User {
  return { id, tenant: tenantRef(tenant), email, role, status, emailVerified: verifiedAt !== null, createdAt }
}
