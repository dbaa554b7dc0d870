/** Users with passwords. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const users: SystemMigration = {
  description: 'users',
  tables: ['tenantry.users'],
  statements: ({ policies }) => [
    // The empty tenant is the platform; addresses are lower-cased before they are stored.
    `create table tenantry.users (
  tenant_id text not null,
  id uuid not null,
  email text not null check (email = lower(email)),
  password_hash text not null check (password_hash like '$argon2id$%'),
  role text not null,
  status text not null default 'active' check (status in ('active', 'disabled')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, id),
  unique (tenant_id, email)
)`,
    ...policies ? policyStatements('tenantry.users', 'text', noSecurity) : []
  ]
}
