/** Asynchronous runs of workflows, and their started steps. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const tables = ['tenantry.workflow_runs', 'tenantry.workflow_steps']

export const workflows: SystemMigration = {
  description: 'workflows',
  tables,
  statements: ({ policies }) => [
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
)`,
    ...policies ? tables.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
