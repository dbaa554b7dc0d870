/**
 * One-time links: their tokens and the SQL. A token is `lt_<tenant>.<random>`; the database has its hash. An address has one link of a
 * kind: a newer one replaces it.
 */
import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { type Kysely, type Selectable, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { linkMinutes, type MailKind } from '../../lib/document/mail-template.js'
import { failure } from '../../lib/errors.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { tokenHash } from '../../lib/identity/token-hash.js'
import { isReachable } from '../tenancy/named.js'

type Row = Selectable<SystemTables['tenantry.user_links']>

const linkColumns = ['email', 'user_id', 'role'] as const

const tokenBytes = 32
const form = /^lt_([A-Za-z0-9_-]{0,64})\.[A-Za-z0-9_-]{43}$/

export const maxLinkTokenLength = 256 // characters; longer than any
export const linkLife = linkMinutes * 60_000 // ms

/** The token of a link from a caller. */
export interface LinkToken {
  /** Empty for the platform. */
  readonly tenant: Owner
  readonly hash: Buffer
}

export interface Link {
  readonly tenant: Owner
  readonly email: string
  /** For an invitation: the id of the future user. */
  readonly userId: string
  /** For an invitation, else null. */
  readonly role: string | null
}

export interface Invitation extends Link {
  readonly role: string
  /** The `sub` of its author. */
  readonly invitedBy: string
  readonly expiresAt: Date
}

/** null for an invalid text. */
function readLinkToken (text: string): LinkToken | null {
  const [, tenant] = form.exec(text) ?? []
  return tenant === undefined ? null : { tenant: tenantRef(tenant), hash: tokenHash(text) }
}

export function createLinkToken (tenant: Owner): string {
  return `lt_${tenant}.${randomBytes(tokenBytes).toString('base64url')}`
}

/** Removes the invitations that these callers sent. */
export async function removeInvitationsFrom (writer: SystemTransaction, tenant: Owner, callers: readonly string[]): Promise<void> {
  await writer.deleteFrom('tenantry.user_links').where('tenant_id', '=', tenant).where('invited_by', 'in', [...callers]).execute()
}

export type Links = ReturnType<typeof createLinks>

/**
 * @param dbFor runs the statements of a tenant; empty for the platform
 * @param now the clock, in milliseconds since 1970
 */
export function createLinks (dbFor: (tenant: Owner) => Kysely<SystemTables>, now: () => number) {
  const at = () => new Date(now())
  return {
    /**
     * Stores this token for the link of the address. false if no mail should be sent: the address has no active user or is already
     * confirmed, or the invitation was accepted or has expired.
     */
    async issue (kind: MailKind, tenant: Owner, email: string, token: string): Promise<boolean> {
      if (kind === 'invite') {
        const { numUpdatedRows } = await dbFor(tenant).updateTable('tenantry.user_links').set({ token: tokenHash(token) })
          .where('tenant_id', '=', tenant).where('kind', '=', kind).where('email', '=', email).where('expires_at', '>', at())
          .executeTakeFirst()
        return numUpdatedRows > 0n
      }
      const { rows } = await sql`insert into tenantry.user_links as l (tenant_id, kind, email, user_id, token, expires_at)
        select tenant_id, ${kind}, email, id, ${tokenHash(token)}::bytea, ${new Date(now() + linkLife)}::timestamptz from tenantry.users
        where tenant_id = ${tenant} and email = ${email} and status = 'active' and (${kind} = 'reset' or email_verified_at is null)
        on conflict (tenant_id, kind, email) do update set user_id = excluded.user_id, token = excluded.token, expires_at = excluded.expires_at
        returning 1`.execute(dbFor(tenant))
      return rows.length > 0
    },

    /** Adds an invitation, replacing an earlier one of the address. Its token is created with the mail. */
    async invite (writer: SystemTransaction, { tenant, email, userId, role, invitedBy, expiresAt }: Invitation): Promise<void> {
      const row = { user_id: userId, role, invited_by: invitedBy, token: null, expires_at: expiresAt }
      await writer.insertInto('tenantry.user_links').values({ tenant_id: tenant, kind: 'invite', email, ...row })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'kind', 'email']).doUpdateSet(row)).execute()
    },

    /** null if the link does not exist or has expired. */
    async find (kind: MailKind, { tenant, hash }: LinkToken): Promise<Link | null> {
      const row = await dbFor(tenant).selectFrom('tenantry.user_links').select(linkColumns).where('tenant_id', '=', tenant)
        .where('token', '=', hash).where('kind', '=', kind).where('expires_at', '>', at()).executeTakeFirst()
      return row === undefined ? null : linkOf(tenant, row)
    },

    /** Uses up the link; null if it does not exist, has expired, or another request uses it. */
    async use (writer: SystemTransaction, kind: MailKind, { tenant, hash }: LinkToken): Promise<Link | null> {
      const row = await writer.deleteFrom('tenantry.user_links').where('tenant_id', '=', tenant).where('token', '=', hash)
        .where('kind', '=', kind).where('expires_at', '>', at()).returning(linkColumns).executeTakeFirst()
      return row === undefined ? null : linkOf(tenant, row)
    },

    /** Removes the links that were sent to a user. */
    async removeTo (writer: SystemTransaction, tenant: Owner, userId: string): Promise<void> {
      await writer.deleteFrom('tenantry.user_links').where('tenant_id', '=', tenant).where('user_id', '=', userId).execute()
    },

    removeFrom: removeInvitationsFrom,

    /** Removes expired links; false if another server does so now. */
    sweep: (db: Kysely<SystemTables>) =>
      sweep(db, 'tenantry.user_links.sweep', [removal('tenantry.user_links', sql`expires_at <= ${at()}`)])
  }
}

function linkOf (tenant: Owner, { email, user_id: userId, role }: Pick<Row, typeof linkColumns[number]>): Link {
  return { tenant, email, userId, role }
}

/** Throws `linkInvalid` for an invalid text, and for one of an unknown tenant or of another one than the header names. */
export async function reachableLink (request: FastifyRequest, text: string): Promise<LinkToken> {
  const token = readLinkToken(text)
  if (token === null || !await isReachable(request, token.tenant)) throw failure('linkInvalid')
  return token
}
