/** Refresh tokens: their text and their SQL. The text is `rt_<tenant>.<session>.<secret>.<own>`. */
import { randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { tokenHash } from '../../lib/identity/token-hash.js'

const secretBytes = 16
const ownBytes = 32
const form = /^rt_([A-Za-z0-9_-]{0,64})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/

export const maxRefreshTokenLength = 256 // characters; longer than any token

/**
 * All tokens of a session share its secret, and each has its own part. A token with the secret of the session whose own part is not the
 * newest was used before. A stranger who knows the id of a session cannot build such a token, and so cannot end the session.
 */
export interface RefreshToken {
  /** Empty for the platform. */
  readonly tenant: Owner
  readonly session: string
  readonly secret: string
  readonly own: string
}

/** The first token of a session, or with the session's `secret` the next one. */
export function createRefreshToken (
  { tenant, session, secret = randomBytes(secretBytes).toString('base64url') }:
    & Pick<RefreshToken, 'tenant' | 'session'>
    & Partial<RefreshToken>
): RefreshToken {
  return { tenant, session, secret, own: randomBytes(ownBytes).toString('base64url') }
}

/** null if the text is not a refresh token. */
export function readRefreshToken (text: string): RefreshToken | null {
  const [, tenant, session, secret, own] = form.exec(text) ?? []
  return tenant === undefined || session === undefined || secret === undefined || own === undefined
    ? null
    : { tenant: tenantRef(tenant), session, secret, own }
}

export function textOf ({ tenant, session, secret, own }: RefreshToken): string {
  return `rt_${tenant}.${session}.${secret}.${own}`
}

/** Sessions of one user. One more ends the session that was refreshed the longest ago. */
const maxSessions = 100

/** The current data of a session's user. */
export interface SessionUser {
  readonly id: string
  /** Empty for the platform. */
  readonly tenant: string
  readonly email: string
  readonly role: string
}

/** When a session ends without a refresh, and when the last of its tokens does. */
export interface SessionEnds {
  readonly until: Date
  /** A lower setting of `jwt.expiresIn` leaves earlier tokens alive, so the latest end is kept. */
  readonly tokensEnd: Date
}

export function createRefreshStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  return {
    /** Adds a session; null if there is no such active user with the role. */
    async insert (
      writer: SystemTransaction,
      { id: userId, role }: Pick<SessionUser, 'id' | 'role'>,
      { tenant, session, secret, own }: RefreshToken,
      amr: readonly string[],
      { until, tokensEnd }: SessionEnds
    ): Promise<{ emailVerified: boolean } | null> {
      const { rows: [row] } = await sql<{ emailVerified: boolean }>`with oldest as (
          delete from tenantry.refresh_tokens where tenant_id = ${tenant} and id in (
            select id from tenantry.refresh_tokens where tenant_id = ${tenant} and user_id = ${userId}::uuid
            order by expires_at desc offset ${maxSessions - 1}::integer)
        ), found as (
          select tenant_id, id, email_verified_at is not null as verified from tenantry.users
          where tenant_id = ${tenant} and id = ${userId}::uuid and status = 'active' and role = ${role}
        ), added as (
          insert into tenantry.refresh_tokens (tenant_id, id, user_id, secret, token, amr, expires_at, tokens_end_at)
          select tenant_id, ${session}::uuid, id, ${tokenHash(secret)}::bytea, ${tokenHash(own)}::bytea, ${[...amr]}::text[],
            ${until}::timestamptz, ${tokensEnd}::timestamptz from found
        )
        select verified as "emailVerified" from found`.execute(writer)
      return row ?? null
    },

    /** The session, unless it has ended. */
    find: ({ tenant, session }: RefreshToken, at: Date) =>
      dbFor(tenant).selectFrom('tenantry.refresh_tokens').select(['user_id as userId', 'secret', 'token'])
        .where('tenant_id', '=', tenant).where('id', '=', session).where('expires_at', '>', at).executeTakeFirst(),

    /** Replaces the newest token of the session; null if it is no longer the newest, or if its user cannot log in. */
    async rotate (
      before: RefreshToken,
      next: RefreshToken,
      { until, tokensEnd }: SessionEnds
    ): Promise<{ user: SessionUser, emailVerified: boolean, amr: readonly string[] } | null> {
      const { tenant, session } = before
      type Row = Omit<SessionUser, 'tenant'> & { emailVerified: boolean, amr: string[] }
      const { rows: [row] } = await sql<Row>`update tenantry.refresh_tokens r
        set token = ${tokenHash(next.own)}, expires_at = ${until}, tokens_end_at = greatest(r.tokens_end_at, ${tokensEnd}::timestamptz)
        from tenantry.users u
        where r.tenant_id = ${tenant} and r.id = ${session} and r.secret = ${tokenHash(before.secret)} and r.token = ${tokenHash(before.own)}
          and u.tenant_id = ${tenant} and u.id = r.user_id and u.status = 'active'
        returning u.id, u.email, u.role, u.email_verified_at is not null as "emailVerified", r.amr`.execute(dbFor(tenant))
      if (row === undefined) return null
      const { amr, emailVerified, ...user } = row
      return { user: { ...user, tenant }, emailVerified, amr }
    },

    /** Ends one session. Undefined if it has ended already. */
    end: (writer: SystemTransaction, tenant: Owner, userId: string, session: string): Promise<{ tokensEnd: Date | null } | undefined> =>
      writer.deleteFrom('tenantry.refresh_tokens').where('tenant_id', '=', tenant).where('id', '=', session).where('user_id', '=', userId)
        .returning('tokens_end_at as tokensEnd').executeTakeFirst(),

    /** When the last token of the user's sessions ends; null without one. */
    async lastTokenEnd (reader: SystemTransaction, tenant: Owner, userId: string): Promise<Date | null> {
      const row = await reader.selectFrom('tenantry.refresh_tokens').select(({ fn }) => fn.max('tokens_end_at').as('end'))
        .where('tenant_id', '=', tenant).where('user_id', '=', userId).executeTakeFirst()
      return row?.end ?? null
    },

    /** Ends all sessions of the user, or all but one. */
    async endAll (writer: SystemTransaction, tenant: Owner, userId: string, kept: string | null = null): Promise<void> {
      await writer.deleteFrom('tenantry.refresh_tokens').where('tenant_id', '=', tenant).where('user_id', '=', userId)
        .$if(kept !== null, (query) => query.where('id', '<>', kept)).execute()
    },

    /** Removes ended sessions; false if another server is doing so now. */
    sweep: (db: Kysely<SystemTables>, at: Date) =>
      sweep(db, 'tenantry.refresh_tokens.sweep', [removal('tenantry.refresh_tokens', sql`expires_at <= ${at}`)])
  }
}
