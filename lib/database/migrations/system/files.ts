/** Files. Their bytes are in an object store. */
import { systemMigration } from './system-migration.js'

/** Their names, owners and states. */
export const files = systemMigration('files', ['tenantry.files'], [
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
  'create index on tenantry.files (expires_at) where expires_at is not null'
])

/** Images derived from files, stored as objects beside them. Their bytes are part of the file's `counted`. */
export const fileTransforms = systemMigration('file_transforms', ['tenantry.file_transforms'], [
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
)`
])

/** Parts of resumable uploads. */
export const fileParts = systemMigration('file_parts', ['tenantry.file_parts'], [
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
  'create unique index on tenantry.file_parts (tenant_id, file_id, start) where size is not null'
])

/** Scans of quarantined files: the time of the next scan, and its result. */
export const fileScans = systemMigration('file_scans', [], [
  'alter table tenantry.files add column scan_at timestamptz',
  "alter table tenantry.files add column scan_result text check (scan_result in ('infected', 'tooLarge'))",
  'alter table tenantry.files add column scan_signature text',
  'alter table tenantry.files drop constraint files_status_check',
  `alter table tenantry.files add constraint files_status_check
  check (status in ('pending', 'receiving', 'resumable', 'quarantined', 'ready', 'removed')) not valid`,
  'alter table tenantry.files validate constraint files_status_check',
  'create index files_scan_at_idx on tenantry.files (tenant_id, scan_at) where scan_at is not null'
])

/** The workflow step that created a file: a repeated step finds its file. */
export const fileOrigins = systemMigration('file_origins', [], [
  'alter table tenantry.files add column origin text',
  'create unique index files_origin_idx on tenantry.files (tenant_id, origin) where origin is not null'
])

/** The number of webhooks, one after the other, that led to a file: its events continue the count. */
export const fileDepths = systemMigration('file_depths', [], ['alter table tenantry.files add column depth smallint not null default 0'])

/** The time until which a signed URL of the store may bring the bytes of a file: the store cannot revoke the URL. */
export const fileUploadEnds = systemMigration('file_upload_ends', [], ['alter table tenantry.files add column upload_until timestamptz'])
