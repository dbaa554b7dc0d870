/** Idempotency keys of requests, with the responses to replay. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const table = 'tenantry.idempotency_keys'

export const idempotencyKeys: SystemMigration = {
  description: 'idempotency_keys',
  tables: [table],
  statements: ({ policies }) => [
    // The empty tenant is the platform.
    `create table ${table} (
  tenant_id text not null,
  id bytea not null,
  holder uuid not null,
  state text not null check (state in ('running', 'written', 'answered')),
  stranger boolean not null,
  encrypted boolean not null,
  content bytea not null,
  status smallint,
  headers jsonb,
  leased_until timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, id)
)`,
    // For the sweep.
    `create index on ${table} (expires_at)`,
    ...policies ? policyStatements(table, 'text', noSecurity) : []
  ]
}
