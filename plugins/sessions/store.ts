/**
 * The SQL of tokens that were ended before their time. A row ends one token or session, keeps one session at an end of all, or
 * with an empty `token` all that a user had
 * until then, or with an empty `subject` besides all that the owner's users had. The column `tenant_id` says whose list a row
 * is in: see `Owners`.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely, Transaction } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { ListOwner } from './owner.js'
import { sql } from 'kysely'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { removal, sweep } from '../../lib/database/retention.js'

const sweptAfter = 60_000 // ms past their time that rows stay: servers whose clocks differ still agree on the sequence

type Writer = Transaction<SystemTables>

/** The rows of an owner as one text each, which takes a tenth of the time that rows take. */
export interface ReadRevocations {
  /** The ids of tokens, base64url, with spaces between them; null: none. */
  readonly tokens: string | null
  /** `<subject> <sequence> <until>`, base64 and milliseconds since 1970, with commas between them; null: none. */
  readonly ends: string | null
}

/** Ends the tokens that a user had at a time. An empty subject means every user in the list. */
export interface End {
  readonly subject: Buffer
  readonly at: Date
  /** When none of it can be alive any longer; later where what the row takes the place of lives longer. */
  readonly until: Date
}

export interface EndedToken {
  readonly subject: Buffer
  readonly token: Buffer
  /** When it was issued, where that is in the future: an end that takes the row's place must be later. */
  readonly issued: Date | null
  readonly until: Date
}

export type RevocationStore = ReturnType<typeof createRevocationStore>

export function createRevocationStore (db: Kysely<SystemTables>) {
  return {
    /** What is in force at the time. */
    async read (owner: ListOwner, at: Date): Promise<ReadRevocations> {
      const { rows: [row] } = await sql<ReadRevocations>`select
        (select string_agg(encode(token, 'base64'), ' ') from tenantry.revocations where tenant_id = ${owner} and token <> '' and expires_at > ${at}) as tokens,
        (select string_agg(concat_ws(' ', encode(subject, 'base64'), ${milliseconds(sql`revoked_before`)}, ${
        milliseconds(sql`expires_at`)
      }), ',')
          from tenantry.revocations where tenant_id = ${owner} and token = '' and expires_at > ${at}) as ends`.execute(db)
      return { tokens: base64url(row?.tokens ?? null), ends: row?.ends ?? null }
    },

    /** The session sequence of the user, in milliseconds since 1970: when all that it had was ended last; 0 where it was not. */
    async sequence (reader: Kysely<SystemTables>, owner: ListOwner, subject: Buffer): Promise<number> {
      const { rows: [row] } = await sql<{ ended: Date | null }>`select max(revoked_before) as ended from tenantry.revocations
        where tenant_id = ${owner} and subject in (${subject}, '') and token = ''`.execute(reader)
      return row?.ended?.getTime() ?? 0
    },

    /** Locks the rows of the owner until the transaction ends; false if there is no such tenant. */
    async lock (writer: Writer, tenant: Owner, owner: ListOwner): Promise<boolean> {
      await sql`select pg_advisory_xact_lock(hashtextextended(${`tenantry.revocations:${owner}`}, 0))`.execute(writer)
      return await lockTenant(writer, tenant, 'shared')
    },

    /** false where it was ended already. */
    async endToken (writer: Writer, owner: ListOwner, { subject, token, issued, until }: EndedToken): Promise<boolean> {
      const { numInsertedOrUpdatedRows = 0n } = await writer.insertInto('tenantry.revocations')
        .values({ tenant_id: owner, subject, token, revoked_before: issued, expires_at: until })
        .onConflict((conflict) => conflict.doNothing()).executeTakeFirst()
      return numInsertedOrUpdatedRows > 0n
    },

    /** Uses up a partial token; false where it was used, or its tenant is not there. */
    async usePartial (
      writer: Kysely<SystemTables>,
      tenant: Owner,
      owner: ListOwner,
      { subject, token, until }: Omit<EndedToken, 'issued'>
    ): Promise<boolean> {
      const { rows } =
        await sql`with live as materialized (select 1 from tenantry.tenants where id = ${tenant} and status <> 'deleting' for share)
        insert into tenantry.revocations (tenant_id, subject, token, expires_at)
        select ${owner}, ${subject}, ${token}, ${until}::timestamptz where ${tenant} = '' or exists (select from live)
        on conflict do nothing returning 1`.execute(writer)
      return rows.length > 0
    },

    async isUsed (
      reader: Kysely<SystemTables>,
      owner: ListOwner,
      { subject, token }: Pick<EndedToken, 'subject' | 'token'>
    ): Promise<boolean> {
      return await reader.selectFrom('tenantry.revocations').select('tenant_id')
        .where('tenant_id', '=', owner).where('subject', '=', subject).where('token', '=', token).executeTakeFirst() !== undefined
    },

    /**
     * One row in the place of those of the user, or of the whole list. Its time is later than that of any end before it,
     * whatever the clocks say. Resolves with that time.
     */
    async end (writer: Writer, owner: ListOwner, { subject, at, until }: End): Promise<Date> {
      const { rows: [row] } = await sql<{ ended: Date }>`with gone as (
          delete from tenantry.revocations where tenant_id = ${owner} and (subject = ${subject} or ${subject}::bytea = '') and not (subject = ${subject} and token = '')
          returning revoked_before, expires_at
        ), before as (
          select revoked_before, expires_at from gone union all
          select revoked_before, expires_at from tenantry.revocations where tenant_id = ${owner} and subject in (${subject}, '') and token = ''
        )
        insert into tenantry.revocations (tenant_id, subject, token, revoked_before, expires_at)
        select ${owner}, ${subject}, '', greatest(${at}::timestamptz, max(revoked_before) + interval '1 millisecond'), greatest(${until}::timestamptz, max(expires_at)) from before
        on conflict (tenant_id, subject, token) do update set revoked_before = excluded.revoked_before, expires_at = excluded.expires_at
        returning revoked_before as ended`.execute(writer)
      return row?.ended ?? at
    },

    /** The tokens of the user that were ended one by one and can be alive at the time, and all rows of the owner. */
    async counts (writer: Writer, owner: ListOwner, subject: Buffer, at: Date): Promise<{ tokens: number, rows: number }> {
      const { rows: [row] } = await sql<{ tokens: number, rows: number }>`select
        count(*) filter (where subject = ${subject} and token <> '' and expires_at > ${at})::integer as tokens, count(*)::integer as rows
        from tenantry.revocations where tenant_id = ${owner}`.execute(writer)
      return row ?? { tokens: 0, rows: 0 }
    },

    /** Removes the rows of the owner whose time is over; returns how many. */
    async removeOver (writer: Writer, owner: ListOwner, at: Date): Promise<number> {
      const { numDeletedRows } = await writer.deleteFrom('tenantry.revocations').where('tenant_id', '=', owner).where(
        'expires_at',
        '<=',
        swept(at)
      ).executeTakeFirst()
      return Number(numDeletedRows)
    },

    /** Removes the rows of all owners whose time is over; false where another server does so now. */
    sweep: (at: Date) => sweep(db, 'tenantry.revocations.sweep', [removal('tenantry.revocations', sql`expires_at <= ${swept(at)}`)])
  }
}

function swept (at: Date): Date {
  return new Date(at.getTime() - sweptAfter)
}

/** Here, since of thousands PostgreSQL's `translate` would take longer than all else. Hashes are too short to have line breaks. */
function base64url (text: string | null): string | null {
  return text?.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '') ?? null
}

function milliseconds (column: ReturnType<typeof sql>) {
  return sql`(extract(epoch from ${column}) * 1000)::bigint`
}
