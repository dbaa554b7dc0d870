/** Images derived from files, stored as objects beside them. Their bytes are part of the file's `counted`. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const fileTransforms: SystemMigration = {
  description: 'file_transforms',
  tables: ['tenantry.file_transforms'],
  statements: ({ policies }) => [
    `create table tenantry.file_transforms (
  tenant_id text not null,
  file_id uuid not null,
  name text not null,
  content_type text not null,
  size bigint not null check (size >= 0),
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  created_at timestamptz not null,
  primary key (tenant_id, file_id, name),
  foreign key (tenant_id, file_id) references tenantry.files (tenant_id, id) on delete cascade
)`,
    ...policies ? policyStatements('tenantry.file_transforms', 'text', noSecurity) : []
  ]
}
