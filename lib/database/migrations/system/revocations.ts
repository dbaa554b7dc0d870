/** Tokens that were revoked before they expired. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const revocations: SystemMigration = {
  description: 'revocations',
  tables: ['tenantry.revocations'],
  statements: ({ policies }) => [
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
    'create index on tenantry.revocations (expires_at)',
    ...policies ? policyStatements('tenantry.revocations', 'text', noSecurity) : []
  ]
}
