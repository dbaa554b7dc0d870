/** The tables of asynchronous workflows in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType, Generated } from 'kysely'
import type { OptionalTime, Time, Timestamp } from './column-types.js'

/** The reason of a run's or step's failure. */
export interface StoredError {
  readonly message: string
  readonly code: string
}

type OptionalError = ColumnType<StoredError | null, string | null | undefined, string | null>

export interface WorkflowTables {
  'tenantry.workflow_runs': {
    /** Empty for the platform's own. */
    tenant_id: string
    id: string
    /** The `sub` of the caller who started it; null without a caller, for example for a webhook. */
    user_id: string | null
    /** The id of the workflow; null without one. */
    workflow: string | null
    /** The declaration and its place, as JSON: later changes of a document do not change the run. */
    definition: string
    /** The parts of the request that its templates read, as JSON, without secrets. */
    scope: string
    status: Generated<'queued' | 'running' | 'completed' | 'failed' | 'canceled'>
    /** Counts the processes that have run it: only the last one records how a step ended. */
    attempt: Generated<number>
    /** JSON. */
    result: string | null
    error: OptionalError
    created_at: Timestamp
    finished_at: OptionalTime
    /** SHA-256 of the token of `statusUrl`; null for a run that a user started. */
    status_token_hash: Buffer | null
  }

  'tenantry.workflow_schedules': {
    /** Empty for the platform's own. */
    tenant_id: string
    workflow: string
    /** The pattern and the time zone that determine `next_at`. */
    schedule: string
    next_at: Time
    /** The last run that it started; null before the first. */
    last_run: ColumnType<string | null, string | null | undefined, string | null>
  }

  /** Started steps. */
  'tenantry.workflow_steps': {
    tenant_id: string
    run_id: string
    step: string
    status: 'running' | 'completed' | 'failed' | 'skipped'
    /** JSON. */
    result: string | null
    error: OptionalError
    started_at: Timestamp
    finished_at: OptionalTime
    /** The time of a call that may have been charged; null without a known one. */
    sent_at: OptionalTime
  }
}
