/** Lets one process at a time renew a token: it holds a row for a while, without a database connection. */
import { type Kysely, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { dayMs } from '../../lib/time/spans.js'

const leaseMs = 25_000 // longer than two requests to a token server may take; the lease of a dead process expires
const keptDays = 30 // after a token was due

/** The last stored token. */
export interface Renewal {
  /** SHA-256; null before the first one. */
  readonly tokenHash: Buffer | null
  readonly renewAt: Date | null
}

/** `dbFor`: for statements that a tenant's requests wait for. */
export function createLeases (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  const row = (tenant: Owner, key: string) =>
    dbFor(tenant).updateTable('tenantry.oauth_tokens').where('tenant_id', '=', tenant).where('key', '=', key)

  return {
    async read (tenant: Owner, key: string): Promise<Renewal | undefined> {
      return await dbFor(tenant).selectFrom('tenantry.oauth_tokens').select(['token_hash as tokenHash', 'renew_at as renewAt'])
        .where('tenant_id', '=', tenant).where('key', '=', key).executeTakeFirst()
    },

    /** Null while another process holds it. Throws `tenantUnknown`. */
    async take (tenant: Owner, key: string, holder: string): Promise<Renewal | null> {
      return await dbFor(tenant).transaction().execute(async (transaction) => {
        if (!await lockTenant(transaction, tenant, 'shared')) throw failure('tenantUnknown')
        const { rows: [taken] } = await sql<Renewal>`insert into tenantry.oauth_tokens as t (tenant_id, key, holder, leased_until)
          values (${tenant}, ${key}, ${holder}, clock_timestamp() + ${leaseMs} * interval '1 ms')
          on conflict (tenant_id, key) do update set holder = excluded.holder, leased_until = excluded.leased_until
          where t.leased_until is null or t.leased_until < clock_timestamp()
          returning token_hash as "tokenHash", renew_at as "renewAt"`.execute(transaction)
        return taken ?? null
      })
    },

    /** The token that will be stored next. */
    async note (tenant: Owner, key: string, holder: string, { tokenHash, renewAt }: Renewal): Promise<void> {
      await row(tenant, key).set({ token_hash: tokenHash, renew_at: renewAt }).where('holder', '=', holder).execute()
    },

    async release (tenant: Owner, key: string, holder: string): Promise<void> {
      await row(tenant, key).set({ holder: null, leased_until: null }).where('holder', '=', holder).execute()
    }
  }
}

/** Removes old leases. */
export async function sweepLeases (db: Kysely<SystemTables>, now: Date): Promise<void> {
  const before = new Date(now.getTime() - keptDays * dayMs)
  await sweep(db, 'tenantry.oauth_tokens.sweep', [
    removal('tenantry.oauth_tokens', sql`coalesce(renew_at, leased_until, '-infinity') < ${before}`)
  ])
}
