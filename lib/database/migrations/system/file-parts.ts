/** Parts of resumable uploads. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const fileParts: SystemMigration = {
  description: 'file_parts',
  tables: ['tenantry.file_parts'],
  statements: ({ policies }) => [
    `create table tenantry.file_parts (
  tenant_id text not null,
  file_id uuid not null,
  id uuid not null,
  start bigint not null check (start >= 0),
  size bigint check (size > 0),
  primary key (tenant_id, file_id, id),
  foreign key (tenant_id, file_id) references tenantry.files (tenant_id, id) on delete cascade
)`,
    // If two requests bring the same bytes, only one counts.
    'create unique index on tenantry.file_parts (tenant_id, file_id, start) where size is not null',
    ...policies ? policyStatements('tenantry.file_parts', 'text', noSecurity) : []
  ]
}
