/** Second factors of users. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const userMfa: SystemMigration = {
  description: 'user_mfa',
  tables: ['tenantry.user_mfa'],
  statements: ({ policies }) => [
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
    'create index on tenantry.user_mfa (updated_at) where not enabled',
    ...policies ? policyStatements('tenantry.user_mfa', 'text', noSecurity) : []
  ]
}
