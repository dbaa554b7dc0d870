/** The SQL of second factors. Times come from the caller, so that one clock decides. */
import { type Kysely, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

/** A user belongs to a tenant, or with the empty tenant to the platform: the same `sub` in two tenants is two users. */
export interface User {
  readonly tenant: Owner
  readonly id: string
}

/** A stored secret. */
export interface Sealed {
  /** Base64 of a ciphertext of lib/secrets. */
  readonly secret: string
  readonly version: number
}

export interface MfaRow {
  readonly enabled: boolean
  /** The enabled secret. */
  readonly current: Sealed | null
  /** The pending secret. */
  readonly pending: Sealed | null
  readonly backupCodes: number
}

const nothing: MfaRow = { enabled: false, current: null, pending: null, backupCodes: 0 }

export type MfaStore = ReturnType<typeof createMfaStore>

// Databases whose users may have second factors: the plugin mfa may be in any context of an app.
const databases = new WeakSet<object>()

export function markSecondFactors (db: Kysely<SystemTables>): void {
  databases.add(db)
}

export function hasSecondFactors (db: Kysely<SystemTables>): boolean {
  return databases.has(db)
}

/** On the database, or on one transaction of it. */
export function createMfaStore (db: Kysely<SystemTables>) {
  const rowOf = ({ tenant, id }: User) => db.updateTable('tenantry.user_mfa').where('tenant_id', '=', tenant).where('user_id', '=', id)

  return {
    async read ({ tenant, id }: User): Promise<MfaRow> {
      const row = await db.selectFrom('tenantry.user_mfa')
        .select([
          'enabled',
          'secret',
          'version',
          'pending_secret as pendingSecret',
          'pending_version as pendingVersion',
          sql<number>`cardinality(backup_codes)`.as('backupCodes')
        ])
        .where('tenant_id', '=', tenant).where('user_id', '=', id).executeTakeFirst()
      if (row === undefined) return nothing
      const { enabled, secret, version, pendingSecret, pendingVersion, backupCodes } = row
      return {
        enabled,
        current: secret === null ? null : { secret, version },
        pending: pendingSecret === null ? null : { secret: pendingSecret, version: pendingVersion },
        backupCodes
      }
    },

    async isEnabled ({ tenant, id }: User): Promise<boolean> {
      const row = await db.selectFrom('tenantry.user_mfa').select('enabled').where('tenant_id', '=', tenant).where('user_id', '=', id)
        .executeTakeFirst()
      return row?.enabled === true
    },

    /**
     * Creates a row for the user if necessary, and locks it until the transaction ends. Returns whether the user's second factor is
     * enabled, and the number of its next secret. undefined for an unknown tenant.
     */
    async lock ({ tenant, id }: User, at: Date): Promise<{ enabled: boolean, nextVersion: number } | undefined> {
      if (!await lockTenant(db, tenant, 'shared')) return undefined
      await db.insertInto('tenantry.user_mfa').values({ tenant_id: tenant, user_id: id, created_at: at, updated_at: at }).onConflict((
        conflict
      ) => conflict.doNothing()).execute()
      return await db.selectFrom('tenantry.user_mfa').select([
        'enabled',
        sql<number>`greatest(version, pending_version) + 1`.as('nextVersion')
      ])
        .where('tenant_id', '=', tenant).where('user_id', '=', id).forUpdate().executeTakeFirstOrThrow()
    },

    async setPending (user: User, { secret, version }: Sealed, at: Date): Promise<void> {
      await rowOf(user).set({ pending_secret: secret, pending_version: version, updated_at: at }).execute()
    },

    /** Enables the pending secret of this version, with the code of the step used up; false for step 0, and if it no longer exists. */
    async enable (user: User, version: number, step: number, hashes: readonly string[], at: Date): Promise<boolean> {
      const { numUpdatedRows } = await rowOf(user)
        .set({
          secret: sql`pending_secret`,
          version,
          enabled: true,
          backup_codes: [...hashes],
          last_step: step,
          pending_secret: null,
          updated_at: at
        })
        .where('pending_version', '=', version).where('pending_secret', 'is not', null).where(sql<boolean>`${step}::bigint > 0`)
        .executeTakeFirstOrThrow()
      return numUpdatedRows > 0n
    },

    /** Uses up the code of the step, and earlier ones; false if it was used, or the secret has changed. */
    async useStep (user: User, version: number, step: number, at: Date): Promise<boolean> {
      const { numUpdatedRows } = await rowOf(user).set({ last_step: step, updated_at: at })
        .where('enabled', '=', true).where('version', '=', version).where(sql<boolean>`last_step < ${step}::bigint`)
        .executeTakeFirstOrThrow()
      return numUpdatedRows > 0n
    },

    /** Uses up the backup code; false if the user has no such code. */
    async useBackupCode (user: User, hash: string, at: Date): Promise<boolean> {
      const { numUpdatedRows } = await rowOf(user).set({ backup_codes: sql<string[]>`array_remove(backup_codes, ${hash})`, updated_at: at })
        .where('enabled', '=', true).where(sql<boolean>`${hash} = any (backup_codes)`).executeTakeFirstOrThrow()
      return numUpdatedRows > 0n
    },

    async setBackupCodes (user: User, hashes: readonly string[], at: Date): Promise<void> {
      await rowOf(user).set({ backup_codes: [...hashes], updated_at: at }).execute()
    },

    /** Removes the user's second factor completely. */
    async delete ({ tenant, id }: User): Promise<void> {
      await db.deleteFrom('tenantry.user_mfa').where('tenant_id', '=', tenant).where('user_id', '=', id).execute()
    },

    /** Whether a user has a second factor. */
    async isUsed (): Promise<boolean> {
      return await db.selectFrom('tenantry.user_mfa').select('user_id').where('enabled', '=', true).limit(1).executeTakeFirst() !==
        undefined
    },

    /** The prefix of all ciphertexts. */
    async headers (length: number): Promise<Buffer[]> {
      const characters = sql.lit(Math.ceil(length / 3) * 4)
      const { rows } = await sql<{ header: string }>`select distinct left(stored.secret, ${characters}) as header
        from tenantry.user_mfa, unnest(array[user_mfa.secret, pending_secret]) as stored (secret) where stored.secret is not null`.execute(
          db
        )
      return rows.map(({ header }) => Buffer.from(header, 'base64').subarray(0, length))
    },

    /** Removes unfinished setups from before; false if another server does so now. */
    sweep: (before: Date): Promise<boolean> =>
      sweep(db, 'tenantry.user_mfa.sweep', [removal('tenantry.user_mfa', sql`not enabled and updated_at <= ${before}`)])
  }
}
