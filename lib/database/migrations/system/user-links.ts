/** One-time links in mails: password resets, address confirmations, invitations. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const userLinks: SystemMigration = {
  description: 'user_links',
  tables: ['tenantry.user_links'],
  statements: ({ policies }) => [
    // The empty tenant is the platform. The token is stored as a hash, and is null until the mail is sent. The user of an invitation
    // does not exist yet: the id is reserved for the future user.
    `create table tenantry.user_links (
  tenant_id text not null,
  kind text not null check (kind in ('reset', 'verify', 'invite')),
  email text not null,
  user_id uuid not null,
  role text,
  invited_by text,
  token bytea,
  expires_at timestamptz not null,
  primary key (tenant_id, kind, email)
)`,
    'create unique index on tenantry.user_links (tenant_id, token)',
    'create index on tenantry.user_links (expires_at)',
    ...policies ? policyStatements('tenantry.user_links', 'text', noSecurity) : []
  ]
}
