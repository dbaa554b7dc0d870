/** The SQL of users. */
import { tenantRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely, Selectable, Transaction } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { UsersTable } from '../../lib/database/user-tables.js'
import type { User } from './user.js'

type Row = Selectable<UsersTable>
type Writer = Transaction<SystemTables>

export const columns = ['tenant_id', 'id', 'email', 'role', 'status', 'email_verified_at', 'created_at'] as const

/** A user with the data to check a password. */
export interface StoredUser {
  readonly user: User
  readonly hash: string
}

/** Empty for the platform. */
export type UserId = Pick<User, 'tenant' | 'id'>

export type UserStore = ReturnType<typeof createUserStore>

/** @param dbFor runs the statements of a tenant; empty for the platform */
export function createUserStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  return {
    async find (tenant: Owner, id: string): Promise<User | null> {
      const row = await dbFor(tenant).selectFrom('tenantry.users').select(columns).where('tenant_id', '=', tenant).where('id', '=', id)
        .executeTakeFirst()
      return row === undefined ? null : userOf(row)
    },

    async findByEmail (tenant: Owner, email: string): Promise<StoredUser | null> {
      const row = await dbFor(tenant).selectFrom('tenantry.users').select([...columns, 'password_hash']).where('tenant_id', '=', tenant)
        .where('email', '=', email).executeTakeFirst()
      return row === undefined ? null : { user: userOf(row), hash: row.password_hash }
    },

    /** false if the tenant has a user with this address. */
    async insert (writer: Writer, { id, tenant, email, role, status, emailVerified, createdAt }: User, hash: string): Promise<boolean> {
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
    async replaceHash ({ tenant, id }: User, before: string, hash: string, at: Date): Promise<boolean> {
      const { numUpdatedRows } = await dbFor(tenant).updateTable('tenantry.users').set({ password_hash: hash, updated_at: at })
        .where('tenant_id', '=', tenant).where('id', '=', id).where('password_hash', '=', before).executeTakeFirst()
      return numUpdatedRows > 0n
    },

    /** Replaces the password; false if the user does not exist or is disabled, or if its hash is not `before`. */
    async setPassword (writer: Writer, { tenant, id }: UserId, hash: string, at: Date, before?: string): Promise<boolean> {
      const { numUpdatedRows } = await writer.updateTable('tenantry.users').set({ password_hash: hash, updated_at: at })
        .where('tenant_id', '=', tenant).where('id', '=', id).where('status', '=', 'active')
        .$if(before !== undefined, (query) => query.where('password_hash', '=', before ?? '')).executeTakeFirst()
      return numUpdatedRows > 0n
    },

    /** The user receives mail at the address; false if there is no such user. */
    async setVerified (writer: Writer, { tenant, id }: UserId, email: string, at: Date): Promise<boolean> {
      const { numUpdatedRows } = await writer.updateTable('tenantry.users').set((row) => ({
        email_verified_at: row.fn.coalesce('email_verified_at', row.val(at)),
        updated_at: at
      }))
        .where('tenant_id', '=', tenant).where('id', '=', id).where('email', '=', email).where('status', '=', 'active').executeTakeFirst()
      return numUpdatedRows > 0n
    },

    transaction: <T>(tenant: Owner, work: (writer: Writer) => Promise<T>): Promise<T> => dbFor(tenant).transaction().execute(work)
  }
}

export function userOf (
  { tenant_id: tenant, id, email, role, status, email_verified_at: verifiedAt, created_at: createdAt }: Pick<Row, typeof columns[number]>
): User {
  return { id, tenant: tenantRef(tenant), email, role, status, emailVerified: verifiedAt !== null, createdAt }
}
