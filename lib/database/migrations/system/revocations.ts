/** Tokens that were ended before their time. */
import type { SystemMigration } from './system-migration.js'
import { noSecurity, policyStatements } from '../policies.js'

export const revocations: SystemMigration = {
  description: 'revocations',
  tables: ['tenantry.revocations'],
  statements: ({ policies }) => [
    // The empty tenant is the platform. Of one user the subject is a hash of the `sub`, of all of the tenant it is empty;
    // of one token `token` is a hash of what was signed, of all it is empty.
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
