/** Asynchronous runs of workflows, and their started steps. */
import { systemMigration } from './system-migration.js'

export const workflows = systemMigration('workflows', ['tenantry.workflow_runs', 'tenantry.workflow_steps'], [
  // The empty tenant is the platform. Declarations and inputs are stored as text in their exact form, because SQL never reads them.
  `create table tenantry.workflow_runs (
  tenant_id text not null,
  id uuid not null,
  user_id text,
  workflow text,
  definition text not null,
  scope text not null,
  status text not null default 'queued' check (status in ('queued', 'running', 'completed', 'failed', 'canceled')),
  attempt integer not null default 0,
  result text,
  error jsonb,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  primary key (tenant_id, id)
)`,
  'create index on tenantry.workflow_runs (tenant_id, created_at, id)',
  'create index on tenantry.workflow_runs (tenant_id, user_id, created_at, id)',
  'create index on tenantry.workflow_runs (created_at)',
  `create table tenantry.workflow_steps (
  tenant_id text not null,
  run_id uuid not null,
  step text not null,
  status text not null check (status in ('running', 'completed', 'failed', 'skipped')),
  result text,
  error jsonb,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  primary key (tenant_id, run_id, step),
  foreign key (tenant_id, run_id) references tenantry.workflow_runs (tenant_id, id) on delete cascade
)`
])

/** Tokens that let a caller without credentials read the status of its own run. */
export const workflowStatusTokens = systemMigration('workflow_status_tokens', [], ['alter table tenantry.workflow_runs add column status_token_hash bytea'])

/** Records a step's call that is charged, so that it is not repeated after a crash. */
export const workflowStepCalls = systemMigration('workflow_step_calls', [], ['alter table tenantry.workflow_steps add column sent_at timestamptz'])

/** For lists of a status with few runs among many. */
export const workflowRunStates = systemMigration('workflow_run_states', [], [
  'create index workflow_runs_state on tenantry.workflow_runs (tenant_id, status, created_at, id)',
  'create index workflow_runs_state_of_user on tenantry.workflow_runs (tenant_id, user_id, status, created_at, id)'
])

/** The next run of workflows with a schedule. */
export const workflowSchedules = systemMigration('workflow_schedules', ['tenantry.workflow_schedules'], [
  `create table tenantry.workflow_schedules (
  tenant_id text not null,
  workflow text not null,
  schedule text not null,
  next_at timestamptz not null,
  last_run uuid,
  primary key (tenant_id, workflow)
)`,
  'create index on tenantry.workflow_schedules (next_at)'
])
