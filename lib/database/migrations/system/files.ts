/** Files: their names, owners and states. Their bytes are in an object store. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const files: SystemMigration = {
  description: 'files',
  tables: ['tenantry.files'],
  statements: ({ policies }) => [
    `create table tenantry.files (
  tenant_id text not null,
  id uuid not null,
  status text not null check (status in ('pending', 'receiving', 'resumable', 'ready', 'removed')),
  bucket text not null,
  name text not null,
  content_type text not null,
  size bigint not null check (size >= 0),
  counted bigint not null check (counted >= 0),
  sha256 text check (sha256 ~ '^[0-9a-f]{64}$'),
  entity_type text,
  entity_id text,
  metadata jsonb not null,
  created_by text not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  primary key (tenant_id, id),
  check (status <> 'ready' or sha256 is not null),
  check ((entity_type is null) = (entity_id is null))
)`,
    'create index on tenantry.files (tenant_id, entity_type, entity_id, created_at, id) where entity_type is not null',
    // For the sweep.
    'create index on tenantry.files (expires_at) where expires_at is not null',
    ...policies ? policyStatements('tenantry.files', 'text', noSecurity) : []
  ]
}
