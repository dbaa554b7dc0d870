/** The tables of asynchronous workflows in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'

type Timestamp = ColumnType<Date, Date | undefined, Date>
type OptionalTime = ColumnType<Date | null, Date | null | undefined, Date | null>

/** Why a run or a step failed. */
export interface StoredError {
  readonly message: string
  readonly code: string
}

type OptionalError = ColumnType<StoredError | null, string | null | undefined, string | null>

export interface WorkflowRunsTable {
  /** Empty for the platform's own. */
  tenant_id: string
  id: string
  /** The `sub` of the caller who started it; null without a caller, for example for a webhook. */
  user_id: string | null
  /** The id of the workflow; null for one that has none. */
  workflow: string | null
  /** What was declared, with where it stands, as JSON: no later change of a document changes the run. */
  definition: string
  /** What of the request its templates read, as JSON; no secret is in it. */
  scope: string
  status: Generated<'queued' | 'running' | 'completed' | 'failed' | 'canceled'>
  /** Counts the processes that have had it: only the last one writes how a step ended. */
  attempt: Generated<number>
  /** JSON. */
  result: string | null
  error: OptionalError
  created_at: Timestamp
  finished_at: OptionalTime
  /** SHA-256 of the token of `statusUrl`; null for a run that a user started. */
  status_token_hash: Buffer | null
}

/** Workflows with a schedule. */
export interface WorkflowSchedulesTable {
  /** Empty for the platform's own. */
  tenant_id: string
  /** Its id. */
  workflow: string
  /** The pattern and the time zone that `next_at` was made from. */
  schedule: string
  next_at: ColumnType<Date, Date, Date>
  /** The run that it started last; null before the first. */
  last_run: ColumnType<string | null, string | null | undefined, string | null>
}

/** Steps that have begun. */
export interface WorkflowStepsTable {
  tenant_id: string
  run_id: string
  /** Its id. */
  step: string
  status: 'running' | 'completed' | 'failed' | 'skipped'
  /** JSON. */
  result: string | null
  error: OptionalError
  started_at: Timestamp
  finished_at: OptionalTime
  /** When it made a call that may have been charged; null if none is known. */
  sent_at: OptionalTime
}
