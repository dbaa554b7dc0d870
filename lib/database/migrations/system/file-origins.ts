/** The workflow step that created a file: a repeated step finds its file. */
import type { SystemMigration } from './system-migration.js'

export const fileOrigins: SystemMigration = {
  description: 'file_origins',
  tables: [],
  statements: () => [
    'alter table tenantry.files add column origin text',
    'create unique index files_origin_idx on tenantry.files (tenant_id, origin) where origin is not null'
  ]
}
