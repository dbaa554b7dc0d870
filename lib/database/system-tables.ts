/** The tables of the `tenantry` schema, as kysely sees them. Each migration that adds a table adds its type here. */
import type { ColumnType, Generated } from 'kysely'
import type { BillingEventsTable, BillingSubscriptionsTable, BillingTenantsTable, BillingUnclaimedTable } from './billing-tables.js'
import type {
  AgentBatchDocumentsTable,
  AgentBatchesTable,
  AgentChunksTable,
  AgentDocumentsTable,
  AgentStaleVectorsTable
} from './document-tables.js'
import type { ConversationMessagesTable, ConversationsTable } from './conversation-tables.js'
import type { FilePartsTable, FilesTable, FileTransformsTable } from './files-table.js'
import type {
  RealtimeChangesTable,
  RealtimeHeadsTable,
  RealtimeInstancesTable,
  RealtimeMembersTable,
  RealtimeMessagesTable,
  RealtimeOutboxTable,
  RealtimeRecordedTable
} from './realtime-tables.js'
import type { IdempotencyKeysTable, UsageNoticesTable, WebhookReceiptsTable } from './receipt-tables.js'
import type {
  RequestStatsTable,
  RequestStatsWritersTable,
  UsageCountersTable,
  UsageGaugesTable,
  UsageInstancesTable,
  UsageRequestsTable,
  UsageReservationsTable
} from './usage-tables.js'
import type { RefreshTokensTable, RevocationsTable, UserLinksTable, UserMfaTable, UsersTable } from './user-tables.js'
import type { WebhookDeliveriesTable, WebhookEventsTable, WebhookSecretsTable } from './webhook-tables.js'
import type { WorkflowRunsTable, WorkflowSchedulesTable, WorkflowStepsTable } from './workflow-tables.js'

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
  /** Empty for the platform; `~` and the id for a deleted tenant, see `archivedTenant` in lib/database/audit.ts. */
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
type PeriodColumns =
  & {
    [Column in `${'minute' | 'hour' | 'day' | 'week' | 'month' | 'total'}_start`]: ColumnType<
      Date | null,
      Date | null | undefined,
      Date | null
    >
  }
  & {
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
  'tenantry.realtime_changes': RealtimeChangesTable
  'tenantry.realtime_heads': RealtimeHeadsTable
  'tenantry.realtime_instances': RealtimeInstancesTable
  'tenantry.realtime_members': RealtimeMembersTable
  'tenantry.realtime_messages': RealtimeMessagesTable
  'tenantry.realtime_outbox': RealtimeOutboxTable
  'tenantry.realtime_recorded': RealtimeRecordedTable
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
  'tenantry.workflow_schedules': WorkflowSchedulesTable
  'tenantry.workflow_steps': WorkflowStepsTable
  'tenantry.files': FilesTable
  'tenantry.file_transforms': FileTransformsTable
  'tenantry.file_parts': FilePartsTable
  'tenantry.agent_documents': AgentDocumentsTable
  'tenantry.agent_chunks': AgentChunksTable
  'tenantry.agent_stale_vectors': AgentStaleVectorsTable
  'tenantry.agent_batches': AgentBatchesTable
  'tenantry.agent_batch_documents': AgentBatchDocumentsTable
  'tenantry.conversations': ConversationsTable
  'tenantry.conversation_messages': ConversationMessagesTable
}
