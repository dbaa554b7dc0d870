/** Values of secrets that earlier rotations keep valid for a while; the latest of them stays in tenantry.secrets. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.secret_earlier_values']

export const secretEarlierValues: SystemMigration = {
  description: 'secret_earlier_values',
  tables,
  statements: ({ policies }) => [
    `create table tenantry.secret_earlier_values (
  tenant_id text not null,
  key text not null,
  version integer not null,
  value bytea not null,
  valid_until timestamptz not null,
  primary key (tenant_id, key, version),
  foreign key (tenant_id, key) references tenantry.secrets (tenant_id, key) on delete cascade
)`,
    // For the sweep.
    'create index on tenantry.secret_earlier_values (valid_until)',
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
