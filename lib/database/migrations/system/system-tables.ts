/** The schema of the server's own tables, the record of migrations, and documents of `firebaseQueries`. */
import { systemMigration } from './system-migration.js'

export const systemTables = systemMigration('system_tables', ['tenantry.migrations', 'tenantry.documents'], [
  'create schema if not exists tenantry',
  `create table tenantry.migrations (
  name text primary key,
  kind text not null default 'system' check (kind in ('system', 'tables')),
  applied_at timestamptz not null default now()
)`,
  `create table tenantry.documents (
  tenant_id text not null default '',
  collection text not null,
  id text not null,
  data jsonb not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, collection, id)
)`
], ['tenantry.migrations'])
