/**
 * The migrations of the server's own tables, in order. A released migration never changes. Its number is assigned when it is
 * applied, because the document's tables have migrations in the same sequence; `description` identifies it.
 */
import { agentBatchStates, agentDocuments, conversations } from './agent.js'
import { auditKeptUntil, auditLog, listFilters } from './audit.js'
import { billing } from './billing.js'
import { fileDepths, fileOrigins, fileParts, files, fileScans, fileTransforms, fileUploadEnds } from './files.js'
import { queue, queueEachState, queueLists, queueLosses, queueStates } from './queue.js'
import { realtime, realtimeBatches, realtimeFailovers, realtimeTimeline } from './realtime.js'
import { realtimeSizes } from './realtime-sizes.js'
import { realtimeGates, realtimeOutbox, recordChanges } from './realtime-triggers.js'
import { oauthTokens, secretEarlierValues, secrets } from './secrets.js'
import type { SystemMigration } from './system-migration.js'
import { systemTables } from './system-tables.js'
import { resourceLimits, tenantConfigs, tenantRbac, tenants } from './tenants.js'
import { requestStats, usage, usageNotices, usageRequests } from './usage.js'
import {
  apiKeyRotators, apiKeys, attempts, refreshTokens, revocations, sessionTokenEnds, userFilters, userLinks, userMfa, users,
  usersEmailVerified
} from './users.js'
import { idempotencyKeys, webhookDepths, webhookLines, webhookReceipts, webhooks, webhookSources } from './webhooks.js'
import { workflowRunStates, workflows, workflowSchedules, workflowStatusTokens, workflowStepCalls } from './workflows.js'

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
  realtimeTimeline,
  queueStates,
  webhookDepths,
  apiKeyRotators,
  workflowRunStates,
  fileUploadEnds,
  fileDepths,
  realtimeFailovers,
  sessionTokenEnds,
  realtimeSizes,
  webhookLines,
  queueEachState,
  agentBatchStates,
  userFilters
]
