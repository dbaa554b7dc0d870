/** Secrets of tenants, encrypted. */
import { systemMigration } from './system-migration.js'

export const secrets = systemMigration('secrets', ['tenantry.secrets'], [
  `create table tenantry.secrets (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  key text not null,
  version integer not null,
  value bytea,
  previous_value bytea,
  previous_version integer,
  previous_valid_until timestamptz,
  metadata jsonb not null default '{}',
  expires_at timestamptz,
  expired_at timestamptz,
  deleted_at timestamptz,
  last_accessed_at timestamptz,
  access_count bigint not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, key)
)`,
  // For the sweep of expired secrets.
  'create index on tenantry.secrets (expires_at) where expired_at is null and deleted_at is null',
  'create index on tenantry.secrets (previous_valid_until) where previous_valid_until is not null',
  'create index on tenantry.secrets (deleted_at) where deleted_at is not null'
])

/** The renewal of a tenant's OAuth 2.0 tokens: its holder and its time. The tokens themselves are secrets. */
export const oauthTokens = systemMigration('oauth_tokens', ['tenantry.oauth_tokens'], [
  // `key` is the key of the secret that holds the access token, and `token_hash` its SHA-256.
  `create table tenantry.oauth_tokens (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  key text not null,
  holder uuid,
  leased_until timestamptz,
  token_hash bytea,
  renew_at timestamptz,
  primary key (tenant_id, key)
)`
])

/** Values of secrets that earlier rotations keep valid for a while; the latest of them stays in tenantry.secrets. */
export const secretEarlierValues = systemMigration('secret_earlier_values', ['tenantry.secret_earlier_values'], [
  `create table tenantry.secret_earlier_values (
  tenant_id text not null,
  key text not null,
  version integer not null,
  value bytea not null,
  valid_until timestamptz not null,
  primary key (tenant_id, key, version),
  foreign key (tenant_id, key) references tenantry.secrets (tenant_id, key) on delete cascade
)`,
  // For the sweep.
  'create index on tenantry.secret_earlier_values (valid_until)'
])
