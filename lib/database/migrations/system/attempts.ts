/** Attempts with passwords and codes within a window. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const attempts: SystemMigration = {
  description: 'attempts',
  tables: ['tenantry.attempts'],
  statements: ({ policies }) => [
    // The empty tenant is the platform; the subject is stored as a hash.
    `create table tenantry.attempts (
  tenant_id text not null,
  kind text not null,
  subject bytea not null,
  tries timestamptz[] not null,
  ends_at timestamptz not null,
  primary key (tenant_id, kind, subject)
)`,
    'create index on tenantry.attempts (ends_at)',
    ...policies ? policyStatements('tenantry.attempts', 'text', noSecurity) : []
  ]
}
