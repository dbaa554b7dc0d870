/** Secrets of tenants, encrypted. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.secrets']

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
    // For the sweep of expired secrets.
    'create index on tenantry.secrets (expires_at) where expired_at is null and deleted_at is null',
    'create index on tenantry.secrets (previous_valid_until) where previous_valid_until is not null',
    'create index on tenantry.secrets (deleted_at) where deleted_at is not null',
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
