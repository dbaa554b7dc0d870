/** Tenants, and the ids of deleted tenants. */
import type { SystemMigration } from './system-migration.js'

export const tenants: SystemMigration = {
  description: 'tenants',
  tables: ['tenantry.tenants', 'tenantry.deleted_tenants'],
  statements: () => [
    `create table tenantry.tenants (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  name text not null,
  plan text not null default 'free',
  status text not null default 'active' check (status in ('active', 'suspended', 'deleting')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
)`,
    `create table tenantry.deleted_tenants (
  id text primary key,
  deleted_at timestamptz not null default now()
)`
  ]
}
