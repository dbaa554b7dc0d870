/** Sessions with refresh tokens. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const refreshTokens: SystemMigration = {
  description: 'refresh_tokens',
  tables: ['tenantry.refresh_tokens'],
  statements: ({ policies }) => [
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
    'create index on tenantry.refresh_tokens (expires_at)',
    ...policies ? policyStatements('tenantry.refresh_tokens', 'text', noSecurity) : []
  ]
}
