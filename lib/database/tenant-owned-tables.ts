import type { SystemTables } from './system-tables.js'

/**
 * The system tables that hold the rows of tenants, in the order in which the deletion of a tenant empties them. The entries of
 * the audit log
 * are archived instead. The list has every table with a column `tenant_id`, except those whose names come from the document
 * (role-tables.ts, document-tables.ts), which are emptied last. A test compares the list with the database.
 */
export const tenantOwnedTables = [
  'tenantry.realtime_changes',
  'tenantry.realtime_heads',
  'tenantry.realtime_members',
  'tenantry.realtime_messages',
  'tenantry.webhook_deliveries',
  'tenantry.webhook_events',
  'tenantry.webhook_secrets',
  'tenantry.webhook_receipts',
  'tenantry.idempotency_keys',
  'tenantry.usage_notices',
  'tenantry.oauth_tokens',
  'tenantry_queue.job',
  'tenantry.workflow_schedules',
  'tenantry.workflow_steps',
  'tenantry.workflow_runs',
  'tenantry.file_parts',
  'tenantry.file_transforms',
  'tenantry.files',
  'tenantry.agent_batch_documents',
  'tenantry.agent_batches',
  'tenantry.agent_stale_vectors',
  'tenantry.agent_chunks',
  'tenantry.agent_documents',
  'tenantry.conversation_messages',
  'tenantry.conversations',
  'tenantry.documents',
  'tenantry.tenant_configs',
  'tenantry.audit_log',
  'tenantry.attempts',
  'tenantry.user_mfa',
  'tenantry.user_links',
  'tenantry.refresh_tokens',
  'tenantry.users',
  'tenantry.revocations',
  'tenantry.secret_earlier_values',
  'tenantry.secrets',
  'tenantry.api_keys',
  'tenantry.tenant_roles',
  'tenantry.tenant_rbac',
  'tenantry.resource_usage',
  'tenantry.resource_limits',
  'tenantry.request_stats',
  'tenantry.usage_reservations',
  'tenantry.usage_requests',
  'tenantry.usage_counters',
  'tenantry.usage_gauges',
  'tenantry.billing_events',
  'tenantry.billing_subscriptions',
  'tenantry.billing_tenants'
] as const satisfies readonly (keyof SystemTables)[]
