/** Scans of quarantined files: the time of the next scan, and its result. */
import type { SystemMigration } from './system-migration.js'

export const fileScans: SystemMigration = {
  description: 'file_scans',
  tables: [],
  statements: () => [
    'alter table tenantry.files add column scan_at timestamptz',
    "alter table tenantry.files add column scan_result text check (scan_result in ('infected', 'tooLarge'))",
    'alter table tenantry.files add column scan_signature text',
    'alter table tenantry.files drop constraint files_status_check',
    `alter table tenantry.files add constraint files_status_check
  check (status in ('pending', 'receiving', 'resumable', 'quarantined', 'ready', 'removed')) not valid`,
    'alter table tenantry.files validate constraint files_status_check',
    'create index files_scan_at_idx on tenantry.files (tenant_id, scan_at) where scan_at is not null'
  ]
}
