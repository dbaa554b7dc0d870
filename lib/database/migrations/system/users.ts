/** Users, their credentials and their sessions. */
import { systemMigration } from './system-migration.js'

/** API keys of tenants, each stored as a hash. */
export const apiKeys = systemMigration('api_keys', ['tenantry.api_keys'], [
  `create table tenantry.api_keys (
  id uuid primary key default gen_random_uuid(),
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  name text not null,
  hash bytea not null,
  previous_hash bytea,
  previous_valid_until timestamptz,
  scopes text[] not null,
  created_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz
)`,
  'create index on tenantry.api_keys (tenant_id)'
])

/** The callers who rotated a key, and so know its text. */
export const apiKeyRotators = systemMigration('api_key_rotators', [], [
  "alter table tenantry.api_keys add column rotated_by text[] not null default '{}'"
])

/** Attempts with passwords and codes within a window. */
export const attempts = systemMigration('attempts', ['tenantry.attempts'], [
  // The empty tenant is the platform; the subject is stored as a hash.
  `create table tenantry.attempts (
  tenant_id text not null,
  kind text not null,
  subject bytea not null,
  tries timestamptz[] not null,
  ends_at timestamptz not null,
  primary key (tenant_id, kind, subject)
)`,
  'create index on tenantry.attempts (ends_at)'
])

/** Users with passwords. */
export const users = systemMigration('users', ['tenantry.users'], [
  // The empty tenant is the platform; addresses are lower-cased before they are stored.
  `create table tenantry.users (
  tenant_id text not null,
  id uuid not null,
  email text not null check (email = lower(email)),
  password_hash text not null check (password_hash like '$argon2id$%'),
  role text not null,
  status text not null default 'active' check (status in ('active', 'disabled')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, id),
  unique (tenant_id, email)
)`
])

/** For the few users of a tenant that are disabled, and its administrators. */
export const userFilters = systemMigration('user_filters', [], [
  "create index users_disabled on tenantry.users (tenant_id, email) where status = 'disabled'",
  "create index users_administrators on tenantry.users (tenant_id, id) where role = 'admin' and status = 'active'"
])

/** Second factors of users. */
export const userMfa = systemMigration('user_mfa', ['tenantry.user_mfa'], [
  // The empty tenant is the platform.
  `create table tenantry.user_mfa (
  tenant_id text not null,
  user_id text not null,
  secret text,
  version integer not null default 0,
  enabled boolean not null default false,
  backup_codes text[] not null default '{}',
  pending_secret text,
  pending_version integer not null default 0,
  last_step bigint not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, user_id),
  check (not enabled or secret is not null)
)`,
  // For the sweep, which removes unfinished setups.
  'create index on tenantry.user_mfa (updated_at) where not enabled'
])

/** Tokens that were revoked before they expired. */
export const revocations = systemMigration('revocations', ['tenantry.revocations'], [
  // The empty tenant is the platform. `subject` is a hash of the user's `sub`; empty for all users of the tenant. `token` is a hash
  // of the token's signed part; empty for all tokens.
  `create table tenantry.revocations (
  tenant_id text not null,
  subject bytea not null,
  token bytea not null,
  revoked_before timestamptz,
  expires_at timestamptz not null,
  primary key (tenant_id, subject, token)
)`,
  'create index on tenantry.revocations (expires_at)'
])

/** Sessions with refresh tokens. */
export const refreshTokens = systemMigration('refresh_tokens', ['tenantry.refresh_tokens'], [
  // The empty tenant is the platform. One row per session: `secret` is a hash of the part that all of its refresh tokens share, and
  // `token` of the part that is unique to the newest one.
  `create table tenantry.refresh_tokens (
  tenant_id text not null,
  id uuid not null,
  user_id uuid not null,
  secret bytea not null,
  token bytea not null,
  amr text[] not null,
  expires_at timestamptz not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, user_id) references tenantry.users (tenant_id, id) on delete cascade
)`,
  'create index on tenantry.refresh_tokens (tenant_id, user_id, expires_at)',
  'create index on tenantry.refresh_tokens (expires_at)'
])

/** The time after which no token of the session can be alive. Null until its next refresh, for sessions from before. */
export const sessionTokenEnds = systemMigration('session_token_ends', [], [
  'alter table tenantry.refresh_tokens add column tokens_end_at timestamptz'
])

/** The time at which users confirmed their address. */
export const usersEmailVerified = systemMigration('users_email_verified', [], ['alter table tenantry.users add column email_verified_at timestamptz'])

/** One-time links in mails: password resets, address confirmations, invitations. */
export const userLinks = systemMigration('user_links', ['tenantry.user_links'], [
  // The empty tenant is the platform. The token is stored as a hash, and is null until the mail is sent. The user of an invitation
  // does not exist yet: the id is reserved for the future user.
  `create table tenantry.user_links (
  tenant_id text not null,
  kind text not null check (kind in ('reset', 'verify', 'invite')),
  email text not null,
  user_id uuid not null,
  role text,
  invited_by text,
  token bytea,
  expires_at timestamptz not null,
  primary key (tenant_id, kind, email)
)`,
  'create unique index on tenantry.user_links (tenant_id, token)',
  'create index on tenantry.user_links (expires_at)'
])
