/**
 * The SQL of tokens and sessions that ended early. A row ends one token or session, or keeps one session when all others end.
 * With an empty `token` it ends everything of a user until then, and with an empty `subject` everything of the owner's users.
 * The column `tenant_id` names the list of the row: see `Owners`.
 */
import { type Kysely, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ListOwner } from './owners.js'

const sweptAfter = 60_000 // ms that rows stay past their end: servers whose clocks differ still agree on the sequence

/** The rows of an owner as one text for each kind, which takes a tenth of the time of rows. */
export interface ReadRevocations {
  /** The ids of tokens, base64url, separated by spaces; null: none. */
  readonly tokens: string | null
  /** `<subject> <sequence> <until>`, base64 and milliseconds since 1970, separated by commas; null: none. */
  readonly ends: string | null
}

export interface EndedToken {
  readonly subject: Buffer
  readonly token: Buffer
  /** The issue time if it is in the future: a row that replaces this one must have a later time. */
  readonly issued: Date | null
  readonly until: Date
}

export type RevocationStore = ReturnType<typeof createRevocationStore>

export function createRevocationStore (db: Kysely<SystemTables>) {
  return {
    /** The state at the time. `subject`: only the rows that concern this user. */
    async read (owner: ListOwner, at: Date, subject?: Buffer): Promise<ReadRevocations> {
      const alive = sql`tenant_id = ${owner} and expires_at > ${at} and ${subject === undefined ? sql`true` : sql`subject in (${subject}, '')`}`
      const { rows: [row] } = await sql<ReadRevocations>`select
        (select string_agg(encode(token, 'base64'), ' ') from tenantry.revocations where ${alive} and token <> '') as tokens,
        (select string_agg(concat_ws(' ', encode(subject, 'base64'), ${milliseconds(sql`revoked_before`)}, ${milliseconds(sql`expires_at`)}), ',')
          from tenantry.revocations where ${alive} and token = '') as ends`.execute(db)
      return { tokens: base64url(row?.tokens ?? null), ends: row?.ends ?? null }
    },

    /** The session sequence of the user, in milliseconds since 1970: the time of the last end of all sessions; 0 without one. */
    async sequence (reader: Kysely<SystemTables>, owner: ListOwner, subject: Buffer): Promise<number> {
      const { rows: [row] } = await sql<{ ended: Date | null }>`select max(revoked_before) as ended from tenantry.revocations
        where tenant_id = ${owner} and subject in (${subject}, '') and token = ''`.execute(reader)
      return row?.ended?.getTime() ?? 0
    },

    /** Locks the rows of the owner until the transaction ends; false if there is no such tenant. */
    async lock (writer: SystemTransaction, tenant: Owner, owner: ListOwner): Promise<boolean> {
      await sql`select pg_advisory_xact_lock(${lockOf(owner)})`.execute(writer)
      // Alone: `requirePresent` relies on it.
      return await lockTenant(writer, tenant, 'alone')
    },

    /** Waits for transactions that lock the rows of the owner, and keeps others waiting: an end of sessions sees every session. */
    async waitForEnds (writer: SystemTransaction, owner: ListOwner): Promise<void> {
      await sql`select pg_advisory_xact_lock_shared(${lockOf(owner)})`.execute(writer)
    },

    /** false if it was ended already. */
    async endToken (writer: SystemTransaction, owner: ListOwner, { subject, token, issued, until }: EndedToken): Promise<boolean> {
      const { numInsertedOrUpdatedRows = 0n } = await writer.insertInto('tenantry.revocations')
        .values({ tenant_id: owner, subject, token, revoked_before: issued, expires_at: until })
        .onConflict((conflict) => conflict.doNothing()).executeTakeFirst()
      return numInsertedOrUpdatedRows > 0n
    },

    /** Uses up a partial token; false if it was used, or if its tenant does not exist. */
    async usePartial (
      writer: Kysely<SystemTables>,
      tenant: Owner,
      owner: ListOwner,
      { subject, token, until }: Omit<EndedToken, 'issued'>
    ): Promise<boolean> {
      const { rows } =
        await sql`with live as materialized (select 1 from tenantry.tenants where id = ${tenant} and status <> 'deleting' for key share)
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
     * Ends the tokens of a user that were issued until a time, or with an empty subject those of every user of the list: replaces their
     * rows by one. Its time is later than that of any earlier end, even if clocks differ. Resolves with that time.
     *
     * @param until the time when none of the tokens can be alive any longer; later if a replaced row lives longer
     */
    async end (writer: SystemTransaction, owner: ListOwner, subject: Buffer, at: Date, until: Date): Promise<Date> {
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

    /** The user's tokens that were ended one by one and can be alive at the time, and the number of all rows of the owner. */
    async counts (writer: SystemTransaction, owner: ListOwner, subject: Buffer, at: Date): Promise<{ tokens: number, rows: number }> {
      const { rows: [row] } = await sql<{ tokens: number, rows: number }>`select
        count(*) filter (where subject = ${subject} and token <> '' and expires_at > ${at})::integer as tokens, count(*)::integer as rows
        from tenantry.revocations where tenant_id = ${owner}`.execute(writer)
      return row ?? { tokens: 0, rows: 0 }
    },

    /** Removes expired rows of the owner; returns their number. */
    async removeExpired (writer: SystemTransaction, owner: ListOwner, at: Date): Promise<number> {
      const { numDeletedRows } = await writer.deleteFrom('tenantry.revocations').where('tenant_id', '=', owner)
        .where('expires_at', '<=', swept(at)).executeTakeFirst()
      return Number(numDeletedRows)
    },

    /** Removes expired rows of all owners; false if another server is doing so now. */
    sweep: (at: Date) => sweep(db, 'tenantry.revocations.sweep', [removal('tenantry.revocations', sql`expires_at <= ${swept(at)}`)])
  }
}

function lockOf (owner: ListOwner) {
  return sql`hashtextextended(${`tenantry.revocations:${owner}`}, 0)`
}

function swept (at: Date): Date {
  return new Date(at.getTime() - sweptAfter)
}

/** Converted here: PostgreSQL's `translate` would take longer than the rest for thousands of rows. Hashes are too short for line breaks. */
function base64url (text: string | null): string | null {
  return text?.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '') ?? null
}

function milliseconds (column: ReturnType<typeof sql>) {
  return sql`(extract(epoch from ${column}) * 1000)::bigint`
}
