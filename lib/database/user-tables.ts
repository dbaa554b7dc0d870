/** The tables of users and their sessions in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'
import type { OptionalTime, Time, Timestamp } from './column-types.js'

export interface UserTables {
  'tenantry.users': {
    /** Empty for the platform. */
    tenant_id: string
    /** The `sub`. */
    id: string
    /** In lower case. */
    email: string
    /** argon2id, in the form of PHC strings. */
    password_hash: string
    role: string
    status: Generated<'active' | 'disabled'>
    /** The time at which the user confirmed the address. */
    email_verified_at: OptionalTime
    created_at: Timestamp
    updated_at: Timestamp
  }

  /** Tokens that were revoked before they expired. */
  'tenantry.revocations': {
    /** Empty for the platform. */
    tenant_id: string
    /** SHA-256 of the `sub`; empty for all users of the tenant. */
    subject: Buffer
    /** SHA-256 of the token's signed part; empty for all tokens of the user. */
    token: Buffer
    /** For all tokens: the time of the revocation, and their session sequence. For one token: its time of issue, if in the future. */
    revoked_before: OptionalTime
    expires_at: Time
  }

  /** One-time links in mails. */
  'tenantry.user_links': {
    /** Empty for the platform. */
    tenant_id: string
    kind: 'reset' | 'verify' | 'invite'
    /** In lower case. */
    email: string
    /** For an invitation: the id of the future user. */
    user_id: string
    /** For an invitation. */
    role: string | null
    /** For an invitation: the `sub` of its author. */
    invited_by: string | null
    /** SHA-256 of the token; null until the mail is sent. */
    token: Buffer | null
    expires_at: Time
  }

  'tenantry.refresh_tokens': {
    /** Empty for the platform. */
    tenant_id: string
    /** The claim `session_id` of the session's tokens. */
    id: string
    user_id: string
    /** SHA-256 of the common part of the session's refresh tokens. */
    secret: Buffer
    /** SHA-256 of the part that is unique to the newest token. */
    token: Buffer
    /** The user's login methods (RFC 8176). */
    amr: string[]
    expires_at: Time
    /** No token of the session is alive after it; null for a session from before this column. */
    tokens_end_at: Time | null
  }

  /** Second factors of users. */
  'tenantry.user_mfa': {
    /** Empty for the platform's users. */
    tenant_id: string
    user_id: string
    /** Encrypted, see lib/secrets, in base64; null until it is enabled. */
    secret: string | null
    /** The ordinal of the secret among all secrets of the user; 0 without one. */
    version: Generated<number>
    enabled: Generated<boolean>
    /** SHA-256 of each unused code, in hexadecimal. */
    backup_codes: Generated<string[]>
    /** The secret of an unfinished setup, likewise encrypted. */
    pending_secret: string | null
    pending_version: Generated<number>
    /** The time step of the last used code (RFC 6238). */
    last_step: ColumnType<string, number | undefined, number>
    created_at: Timestamp
    updated_at: Timestamp
  }
}
