/** Secrets of tenants, encrypted, and what was done with them. */
import type { SystemMigration } from './system-migration.js'
import { noSecurity, policyStatements } from '../policies.js'

const tables = ['tenantry.secrets', 'tenantry.secret_audit']

export const secrets: SystemMigration = {
  description: 'secrets',
  tables,
  statements: ({ policies }) => [
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
    // For the sweep, which reads what has ended.
    'create index on tenantry.secrets (expires_at) where expired_at is null and deleted_at is null',
    'create index on tenantry.secrets (previous_valid_until) where previous_valid_until is not null',
    'create index on tenantry.secrets (deleted_at) where deleted_at is not null',
    `create table tenantry.secret_audit (
  id bigint generated always as identity primary key,
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  key text not null,
  action text not null,
  user_id text,
  count bigint not null default 1,
  hour timestamptz,
  created_at timestamptz not null default now()
)`,
    'create index on tenantry.secret_audit (tenant_id, created_at)',
    // For pages of it.
    'create index on tenantry.secret_audit (tenant_id, id)',
    // For those of one key, and the one entry an hour that counts its uses.
    'create index on tenantry.secret_audit (tenant_id, key, id)',
    "create unique index on tenantry.secret_audit (tenant_id, key, hour) where action = 'access'",
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
