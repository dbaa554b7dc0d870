/** Background jobs of plugins/queue. */
import { systemMigration } from './system-migration.js'

/**
 * Background jobs, in the tables of pg-boss 10 (its schema 24). All jobs are in one queue, `jobs`, and one table, so that a
 * running server's role need not create any. A job's tenant and task are columns generated from its data. Further indexes serve
 * the queries of the workers of plugins/queue.
 */
export const queue = systemMigration('queue', ['tenantry_queue.version', 'tenantry_queue.queue', 'tenantry_queue.job'], [
  'create schema if not exists tenantry_queue',
  // In the order of a job's states: states before `active` wait, and states after it have ended.
  "create type tenantry_queue.job_state as enum ('created', 'retry', 'active', 'completed', 'cancelled', 'failed')",
  `create table tenantry_queue.version (
  version int primary key,
  maintained_on timestamptz,
  cron_on timestamptz,
  monitored_on timestamptz
)`,
  'insert into tenantry_queue.version (version) values (24)',
  `create table tenantry_queue.queue (
  name text primary key,
  policy text,
  retry_limit int,
  retry_delay int,
  retry_backoff bool,
  expire_seconds int,
  retention_minutes int,
  dead_letter text references tenantry_queue.queue (name),
  partition_name text,
  created_on timestamptz not null default now(),
  updated_on timestamptz not null default now()
)`,
  "insert into tenantry_queue.queue (name, policy) values ('jobs', 'standard')",
  // The empty tenant is the platform.
  `create table tenantry_queue.job (
  id uuid not null default gen_random_uuid(),
  name text not null references tenantry_queue.queue (name),
  priority integer not null default 0,
  data jsonb,
  state tenantry_queue.job_state not null default 'created',
  retry_limit integer not null default 2,
  retry_count integer not null default 0,
  retry_delay integer not null default 0,
  retry_backoff boolean not null default false,
  start_after timestamptz not null default now(),
  started_on timestamptz,
  singleton_key text,
  singleton_on timestamp,
  expire_in interval not null default interval '15 minutes',
  created_on timestamptz not null default now(),
  completed_on timestamptz,
  keep_until timestamptz not null default now() + interval '14 days',
  output jsonb,
  dead_letter text,
  policy text,
  tenant_id text collate "C" not null generated always as (data->>'tenant') stored,
  task text collate "C" not null generated always as (data->>'task') stored,
  primary key (name, id)
)`,
  // Per key, one job may wait for its first attempt, one may run, and one may be created in each time slot.
  "create unique index job_waiting_key on tenantry_queue.job (tenant_id, task, singleton_key) where state = 'created' and singleton_key is not null",
  "create unique index job_active_key on tenantry_queue.job (tenant_id, task, singleton_key) where state = 'active' and singleton_key is not null",
  "create unique index job_slot on tenantry_queue.job (tenant_id, task, singleton_on, coalesce(singleton_key, '')) where state <> 'cancelled' and singleton_on is not null",
  // Jobs that can run now, and jobs that wait for a time: the workers move the latter to the former when their time has come.
  "create index job_ready on tenantry_queue.job (task, tenant_id, (-priority), created_on) where state < 'active' and start_after <= created_on",
  "create index job_delayed on tenantry_queue.job (start_after) where state < 'active' and start_after > created_on",
  "create index job_active on tenantry_queue.job (started_on) where state = 'active'",
  "create index job_ended on tenantry_queue.job (completed_on) where state > 'active'",
  'create index job_tenant on tenantry_queue.job (tenant_id)',
  // Workers of every process are notified of new jobs at the commit, with a notice in the format of lib/database/events.ts.
  `create function tenantry_queue.notify_workers() returns trigger language plpgsql as $$
begin
  perform pg_notify('tenantry', '{"topic":"queue","tenant":"","from":"","number":0}');
  return null;
end
$$`,
  'create trigger job_notify_workers after insert on tenantry_queue.job for each statement execute function tenantry_queue.notify_workers()'
], ['tenantry_queue.version', 'tenantry_queue.queue'])

/**
 * Moves the notices of new jobs from a trigger to the sender (plugins/queue/insert.ts, notices.ts), which sends one notice for
 * several jobs. With the trigger, every transaction with new jobs sent a notice, and PostgreSQL commits such transactions one
 * after the other ("NOTIFY"). Adds indexes for lists of jobs, and for counts of a tenant's waiting jobs.
 */
export const queueLists = systemMigration('queue_lists', [], [
  'drop trigger job_notify_workers on tenantry_queue.job',
  'drop function tenantry_queue.notify_workers()',
  'drop index tenantry_queue.job_tenant',
  'create index job_of_tenant on tenantry_queue.job (tenant_id, state, created_on, id)',
  'create index job_of_task on tenantry_queue.job (task, state, created_on, id)'
])

/** The number of processes that ended while running a job: after two the job is set aside. */
export const queueLosses = systemMigration('queue_losses', [], ['alter table tenantry_queue.job add column lost integer not null default 0'])

const listedStates = { waiting: "state < 'active'", completed: "state = 'completed'", set_aside: "state > 'completed'" }

/**
 * Indexes of jobs by state. As a column of an index, the state is of no use under a policy: the planner compares a column first only if
 * the comparison leaks nothing, and that of an enum does not promise it. Jobs that run have the index job_active.
 */
export const queueStates = systemMigration('queue_states', [], [
  ...Object.entries(listedStates).flatMap(([name, condition]) => [
    `create index job_${name}_of_tenant on tenantry_queue.job (tenant_id, created_on, id) where ${condition}`,
    `create index job_${name}_of_task on tenantry_queue.job (task, created_on, id) where ${condition}`
  ]),
  'drop index tenantry_queue.job_of_tenant',
  'drop index tenantry_queue.job_of_task'
])

/**
 * Indexes of jobs by each state: in an index of several states, a list of a rare one read all jobs of the others. So did the sweep of
 * completed jobs, since failed ones are kept longer.
 */
export const queueEachState = systemMigration('queue_each_state', [], [
  ...['created', 'retry', 'cancelled', 'failed'].flatMap((state) => [
    `create index job_${state}_of_tenant on tenantry_queue.job (tenant_id, created_on, id) where state = '${state}'`,
    `create index job_${state}_of_task on tenantry_queue.job (task, created_on, id) where state = '${state}'`
  ]),
  "create index job_done on tenantry_queue.job (completed_on) where state > 'active' and state <> 'failed'",
  "create index job_given_up on tenantry_queue.job (completed_on) where state = 'failed'",
  ...['waiting_of_tenant', 'waiting_of_task', 'set_aside_of_tenant', 'set_aside_of_task', 'ended']
    .map((name) => `drop index tenantry_queue.job_${name}`)
])
