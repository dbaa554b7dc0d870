/** API keys of tenants, each stored as a hash. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.api_keys']

export const apiKeys: SystemMigration = {
  description: 'api_keys',
  tables,
  statements: ({ policies }) => [
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
    'create index on tenantry.api_keys (tenant_id)',
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
