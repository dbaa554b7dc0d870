/** The time at which users confirmed their address. */
import type { SystemMigration } from './system-migration.js'

export const usersEmailVerified: SystemMigration = {
  description: 'users_email_verified',
  tables: [],
  statements: () => ['alter table tenantry.users add column email_verified_at timestamptz']
}
