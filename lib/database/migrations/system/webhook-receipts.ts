/** Deliveries of inbound webhooks, so that each is handled only once. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const table = 'tenantry.webhook_receipts'

export const webhookReceipts: SystemMigration = {
  description: 'webhook_receipts',
  tables: [table],
  statements: ({ policies }) => [
    // The empty tenant is the platform.
    `create table ${table} (
  tenant_id text not null,
  path text not null,
  id text not null,
  holder uuid not null,
  held_until timestamptz,
  received_at timestamptz not null,
  primary key (tenant_id, path, id)
)`,
    `create index on ${table} (received_at)`,
    ...policies ? policyStatements(table, 'text', noSecurity) : []
  ]
}
