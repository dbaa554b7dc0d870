/** The renewal of a tenant's OAuth 2.0 tokens: its holder and its time. The tokens themselves are secrets. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.oauth_tokens']

export const oauthTokens: SystemMigration = {
  description: 'oauth_tokens',
  tables,
  statements: ({ policies }) => [
    // `key` is the key of the secret that holds the access token, and `token_hash` its SHA-256.
    `create table tenantry.oauth_tokens (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  key text not null,
  holder uuid,
  leased_until timestamptz,
  token_hash bytea,
  renew_at timestamptz,
  primary key (tenant_id, key)
)`,
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
