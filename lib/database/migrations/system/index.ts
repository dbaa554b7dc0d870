/**
 * The migrations of the server's own tables, in order. A released migration never changes. Its number is assigned when it is
 * applied, because the document's tables have migrations in the same sequence; `description` identifies it.
 */
import { agentDocuments } from './agent-documents.js'
import { apiKeys } from './api-keys.js'
import { attempts } from './attempts.js'
import { auditKeptUntil } from './audit-kept-until.js'
import { auditLog } from './audit-log.js'
import { billing } from './billing.js'
import { conversations } from './conversations.js'
import { fileOrigins } from './file-origins.js'
import { fileParts } from './file-parts.js'
import { fileScans } from './file-scans.js'
import { fileTransforms } from './file-transforms.js'
import { files } from './files.js'
import { idempotencyKeys } from './idempotency-keys.js'
import { listFilters } from './list-filters.js'
import { oauthTokens } from './oauth-tokens.js'
import { queue } from './queue.js'
import { queueLists } from './queue-lists.js'
import { queueLosses } from './queue-losses.js'
import { realtime } from './realtime.js'
import { realtimeBatches } from './realtime-batches.js'
import { realtimeGates } from './realtime-gates.js'
import { realtimeOutbox } from './realtime-outbox.js'
import { realtimeTimeline } from './realtime-timeline.js'
import { recordChanges } from './record-change.js'
import { refreshTokens } from './refresh-tokens.js'
import { requestStats } from './request-stats.js'
import { resourceLimits } from './resource-limits.js'
import { revocations } from './revocations.js'
import { secretEarlierValues } from './secret-earlier-values.js'
import { secrets } from './secrets.js'
import type { SystemMigration } from './system-migration.js'
import { systemTables } from './system-tables.js'
import { tenantConfigs } from './tenant-configs.js'
import { tenantRbac } from './tenant-rbac.js'
import { tenants } from './tenants.js'
import { usage } from './usage.js'
import { usageNotices } from './usage-notices.js'
import { usageRequests } from './usage-requests.js'
import { userLinks } from './user-links.js'
import { userMfa } from './user-mfa.js'
import { users } from './users.js'
import { usersEmailVerified } from './users-email-verified.js'
import { webhookReceipts } from './webhook-receipts.js'
import { webhookSources } from './webhook-sources.js'
import { webhooks } from './webhooks.js'
import { workflowSchedules } from './workflow-schedules.js'
import { workflowStatusTokens } from './workflow-status-tokens.js'
import { workflowStepCalls } from './workflow-step-calls.js'
import { workflows } from './workflows.js'

/** In the order of their numbers; append new ones at the end. */
export const systemMigrations: readonly SystemMigration[] = [
  systemTables,
  tenants,
  tenantConfigs,
  secrets,
  apiKeys,
  tenantRbac,
  resourceLimits,
  requestStats,
  usage,
  auditLog,
  attempts,
  users,
  userMfa,
  revocations,
  queue,
  billing,
  workflows,
  webhooks,
  queueLists,
  webhookReceipts,
  usageNotices,
  oauthTokens,
  usageRequests,
  webhookSources,
  queueLosses,
  secretEarlierValues,
  auditKeptUntil,
  workflowStatusTokens,
  listFilters,
  refreshTokens,
  usersEmailVerified,
  userLinks,
  files,
  idempotencyKeys,
  fileTransforms,
  fileParts,
  fileScans,
  agentDocuments,
  fileOrigins,
  conversations,
  realtime,
  workflowStepCalls,
  workflowSchedules,
  recordChanges,
  realtimeOutbox,
  realtimeBatches,
  realtimeGates,
  realtimeTimeline
]
