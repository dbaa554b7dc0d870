/** The tables of the `tenantry` schema, as kysely sees them. Each migration that adds a table adds its type here. */
import type { ColumnType, Generated } from 'kysely'
import type { BillingEventsTable, BillingSubscriptionsTable, BillingTenantsTable, BillingUnclaimedTable } from './billing-tables.js'
import type { FilePartsTable, FilesTable, FileTransformsTable } from './files-table.js'
import type { IdempotencyKeysTable, UsageNoticesTable, WebhookReceiptsTable } from './receipt-tables.js'
import type { RequestStatsTable, RequestStatsWritersTable, UsageCountersTable, UsageGaugesTable, UsageInstancesTable, UsageRequestsTable, UsageReservationsTable } from './usage-tables.js'
import type { WebhookDeliveriesTable, WebhookEventsTable, WebhookSecretsTable } from './webhook-tables.js'
import type { WorkflowRunsTable, WorkflowStepsTable } from './workflow-tables.js'

type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>

export interface MigrationsTable {
  /** `<nnn>_<description>`. */
  name: string
  /** Of the server's own tables, or of those that a document declares. */
  kind: Generated<'system' | 'tables'>
  applied_at: Timestamp
}

/** Document-style collections of configured routes (`firebaseQueries` on the SQL database). */
export interface DocumentsTable {
  /** Empty for documents of no tenant. */
  tenant_id: string
  collection: string
  id: string
  data: Record<string, unknown>
  created_at: Timestamp
  updated_at: Timestamp
}

export interface TenantsTable {
  id: string
  name: string
  plan: Generated<string>
  /** `deleting`: what it owns is being removed. */
  status: Generated<'active' | 'suspended' | 'deleting'>
  created_at: Timestamp
  updated_at: Timestamp
}

/** Ids of tenants that were deleted: a token from before does not make them anew. */
export interface DeletedTenantsTable {
  id: string
  deleted_at: Timestamp
}

/** Each document that a tenant saved; the one with the highest version is in force. */
export interface TenantConfigsTable {
  tenant_id: string
  version: number
  /** As it was sent, members in their order. */
  document: ColumnType<Record<string, unknown>, string, string>
  /** Its `settings`, kept by the database. */
  settings: ColumnType<unknown, never, never>
  created_at: Timestamp
  /** The `sub` of who saved it. */
  created_by: string
}

export interface SecretsTable {
  tenant_id: string
  key: string
  /** Counts the values that the key has had. */
  version: number
  /** Encrypted, see lib/secrets; null once it is deleted. */
  value: Buffer | null
  previous_value: Buffer | null
  previous_version: number | null
  previous_valid_until: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  metadata: ColumnType<Record<string, unknown>, string | undefined, string>
  expires_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  /** When its expiry was audited. */
  expired_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  deleted_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  last_accessed_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  access_count: Generated<number>
  created_at: Timestamp
  updated_at: Timestamp
}

/** Values that rotations before the last one promised to accept; the last one's is in the row of the secret. */
export interface SecretEarlierValuesTable {
  tenant_id: string
  key: string
  version: number
  /** Encrypted, see lib/secrets. */
  value: Buffer
  valid_until: ColumnType<Date, Date | string, Date | string>
}

/** Renewals of tokens of OAuth 2.0. */
export interface OauthTokensTable {
  tenant_id: string
  /** Of the secret that the access token is. */
  key: string
  /** Who renews it now, until `leased_until`. */
  holder: string | null
  leased_until: ColumnType<Date | null, Date | null | undefined, Date | null>
  /** SHA-256 of the token that was stored last, and when it is due. */
  token_hash: Buffer | null
  renew_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export interface AuditLogTable {
  /** In the order of writing, over all tenants. */
  id: Generated<string>
  /** What callers see as its id, which tells nothing of other tenants' entries. */
  uuid: Generated<string>
  /** Empty for the platform; `~` and the id for a deleted tenant, see `archivedTenant` in lib/audit.ts. */
  tenant_id: string
  action: string
  /** The `sub` of who did it; null for the server itself, and for strangers. */
  user_id: string | null
  address: string | null
  /** What it was done to. */
  target: string | null
  outcome: Generated<'success' | 'failure'>
  /** How many uses of a secret the entry stands for. */
  count: ColumnType<string, number | undefined, number>
  /** The hour of the uses; null for what else was done. */
  hour: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  details: ColumnType<Record<string, unknown> | null, string | null | undefined, string | null>
  created_at: Timestamp
  /** Of a deleted tenant: when the entry is removed; `infinity` for never. null for all others. */
  kept_until: ColumnType<Date | number | null, never, Date | string | null>
}

/** Tries of passwords and codes. */
export interface AttemptsTable {
  /** Empty for the platform. */
  tenant_id: string
  kind: string
  /** SHA-256 of what was tried for. */
  subject: Buffer
  /** The last ones, the newest first; no more than the rule allows. */
  tries: Date[]
  /** The window of the last one. */
  ends_at: ColumnType<Date, Date, Date>
}

export interface UsersTable {
  /** Empty for the platform. */
  tenant_id: string
  /** The `sub`. */
  id: string
  /** In lower case. */
  email: string
  /** argon2id, in the form of PHC strings. */
  password_hash: string
  role: string
  status: Generated<'active' | 'disabled'>
  /** When the user proved to receive mail at the address. */
  email_verified_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  created_at: Timestamp
  updated_at: Timestamp
}

/** Tokens that were ended before their time. */
export interface RevocationsTable {
  /** Empty for the platform. */
  tenant_id: string
  /** SHA-256 of the `sub`; empty for all users of the tenant. */
  subject: Buffer
  /** SHA-256 of what was signed; empty for all tokens of the user. */
  token: Buffer
  /** Of all tokens: when they were ended, and their session sequence. Of one: when it was issued, where that is in the future. */
  revoked_before: ColumnType<Date | null, Date | null | undefined, Date | null>
  expires_at: ColumnType<Date, Date, Date>
}

/** One-time links in mails. */
export interface UserLinksTable {
  /** Empty for the platform. */
  tenant_id: string
  kind: 'reset' | 'verify' | 'invite'
  /** In lower case. */
  email: string
  /** Of an invitation: the id of the user to come. */
  user_id: string
  /** Of an invitation. */
  role: string | null
  /** Of an invitation: the `sub` of its author. */
  invited_by: string | null
  /** SHA-256 of the token; null until the mail is sent. */
  token: Buffer | null
  expires_at: ColumnType<Date, Date, Date>
}

/** Sessions that refresh tokens prolong. */
export interface RefreshTokensTable {
  /** Empty for the platform. */
  tenant_id: string
  /** The claim `session_id` of the session's tokens. */
  id: string
  user_id: string
  /** SHA-256 of the part that all refresh tokens of the session share. */
  secret: Buffer
  /** SHA-256 of the part that only the newest one has. */
  token: Buffer
  /** How the user logged in (RFC 8176). */
  amr: string[]
  expires_at: ColumnType<Date, Date, Date>
}

export interface ApiKeysTable {
  id: Generated<string>
  tenant_id: string
  name: string
  /** SHA-256 of the key. */
  hash: Buffer
  previous_hash: Buffer | null
  previous_valid_until: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  scopes: string[]
  created_by: string
  created_at: Timestamp
  expires_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  last_used_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
}

export interface TenantRbacTable {
  tenant_id: string
  enabled: boolean
  default_role: string | null
}

export interface TenantRolesTable {
  tenant_id: string
  name: string
  description: string | null
  permissions: string[]
  parent_role: string | null
}

/** The limits of a tenant's users. */
export interface ResourceLimitsTable {
  tenant_id: string
  /** As they were saved, in their order. */
  rules: ColumnType<unknown, string, string>
  /** Rows of `resource_usage` that the tenant has. */
  counters: number
  updated_at: Timestamp
}

/** Of each period the one that was counted last, and how much was used in it. */
type PeriodColumns = {
  [Column in `${'minute' | 'hour' | 'day' | 'week' | 'month' | 'total'}_start`]: ColumnType<Date | null, Date | null | undefined, Date | null>
} & {
  [Column in `${'minute' | 'hour' | 'day' | 'week' | 'month' | 'total'}_amount`]: ColumnType<string, number | undefined, number>
}

/** What a user has used of a resource. */
export interface ResourceUsageTable extends PeriodColumns {
  tenant_id: string
  user_id: string
  resource: string
  metric: string
  /** When the last of its periods ends. */
  ends_at: ColumnType<Date, Date, Date>
}

/** Second factors of users. */
export interface UserMfaTable {
  /** Empty for the platform's users. */
  tenant_id: string
  user_id: string
  /** Encrypted, see lib/secrets, in base64; null until it is enabled. */
  secret: string | null
  /** The number of the secret among those that the user has had; 0 without one. */
  version: Generated<number>
  enabled: Generated<boolean>
  /** SHA-256 of each that was not used, in hexadecimal. */
  backup_codes: Generated<string[]>
  /** That of a setup which is not enabled yet, likewise encrypted. */
  pending_secret: string | null
  pending_version: Generated<number>
  /** The time step of the code that was used last (RFC 6238). */
  last_step: ColumnType<string, number | undefined, number>
  created_at: Timestamp
  updated_at: Timestamp
}

/** Background jobs, as pg-boss has them. */
export interface QueueJobTable {
  id: Generated<string>
  /** Of the queue; there is one, `jobs`. */
  name: string
  data: ColumnType<{ tenant: string, task: string, data: Record<string, unknown> }, string, never>
  /** `created` and `retry` wait. */
  state: Generated<'created' | 'retry' | 'active' | 'completed' | 'cancelled' | 'failed'>
  /** From `data`; empty for the platform. */
  tenant_id: ColumnType<string, never, never>
  /** From `data`: the name that its handler is defined under. */
  task: ColumnType<string, never, never>
  keep_until: Timestamp
  /** Processes that ended while they ran it, since it last made progress. */
  lost: Generated<number>
  completed_on: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export interface SystemTables {
  'tenantry.migrations': MigrationsTable
  'tenantry.documents': DocumentsTable
  'tenantry.tenants': TenantsTable
  'tenantry.deleted_tenants': DeletedTenantsTable
  'tenantry.tenant_configs': TenantConfigsTable
  'tenantry.secrets': SecretsTable
  'tenantry.secret_earlier_values': SecretEarlierValuesTable
  'tenantry.audit_log': AuditLogTable
  'tenantry.attempts': AttemptsTable
  'tenantry.user_mfa': UserMfaTable
  'tenantry.users': UsersTable
  'tenantry.revocations': RevocationsTable
  'tenantry.refresh_tokens': RefreshTokensTable
  'tenantry.user_links': UserLinksTable
  'tenantry.api_keys': ApiKeysTable
  'tenantry.tenant_rbac': TenantRbacTable
  'tenantry.tenant_roles': TenantRolesTable
  'tenantry.resource_limits': ResourceLimitsTable
  'tenantry.resource_usage': ResourceUsageTable
  'tenantry.request_stats': RequestStatsTable
  'tenantry.request_stats_writers': RequestStatsWritersTable
  'tenantry.usage_requests': UsageRequestsTable
  'tenantry.usage_counters': UsageCountersTable
  'tenantry.usage_instances': UsageInstancesTable
  'tenantry.usage_gauges': UsageGaugesTable
  'tenantry.usage_reservations': UsageReservationsTable
  'tenantry_queue.job': QueueJobTable
  'tenantry.billing_tenants': BillingTenantsTable
  'tenantry.billing_subscriptions': BillingSubscriptionsTable
  'tenantry.billing_events': BillingEventsTable
  'tenantry.billing_unclaimed': BillingUnclaimedTable
  'tenantry.webhook_events': WebhookEventsTable
  'tenantry.webhook_deliveries': WebhookDeliveriesTable
  'tenantry.webhook_secrets': WebhookSecretsTable
  'tenantry.webhook_receipts': WebhookReceiptsTable
  'tenantry.idempotency_keys': IdempotencyKeysTable
  'tenantry.usage_notices': UsageNoticesTable
  'tenantry.oauth_tokens': OauthTokensTable
  'tenantry.workflow_runs': WorkflowRunsTable
  'tenantry.workflow_steps': WorkflowStepsTable
  'tenantry.files': FilesTable
  'tenantry.file_transforms': FileTransformsTable
  'tenantry.file_parts': FilePartsTable
}

/**
 * The system tables that hold the rows of tenants, in the order in which the deletion of a tenant empties them. The entries of the audit log
 * are archived instead. The list has every table with a column `tenant_id`, except those whose names come from the document
 * (role-tables.ts), which are emptied last. A test compares the list with the database.
 */
export const tenantOwnedTables = [
  'tenantry.webhook_deliveries', 'tenantry.webhook_events', 'tenantry.webhook_secrets',
  'tenantry.webhook_receipts', 'tenantry.idempotency_keys', 'tenantry.usage_notices', 'tenantry.oauth_tokens',
  'tenantry_queue.job', 'tenantry.workflow_steps', 'tenantry.workflow_runs', 'tenantry.file_parts', 'tenantry.file_transforms', 'tenantry.files',
  'tenantry.documents', 'tenantry.tenant_configs', 'tenantry.audit_log', 'tenantry.attempts', 'tenantry.user_mfa', 'tenantry.user_links', 'tenantry.refresh_tokens', 'tenantry.users', 'tenantry.revocations', 'tenantry.secret_earlier_values', 'tenantry.secrets', 'tenantry.api_keys',
  'tenantry.tenant_roles', 'tenantry.tenant_rbac', 'tenantry.resource_usage', 'tenantry.resource_limits',
  'tenantry.request_stats',
  'tenantry.usage_reservations', 'tenantry.usage_requests', 'tenantry.usage_counters', 'tenantry.usage_gauges',
  'tenantry.billing_events', 'tenantry.billing_subscriptions', 'tenantry.billing_tenants'
] as const satisfies readonly (keyof SystemTables)[]
