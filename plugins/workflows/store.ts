/**
 * Runs and their steps in the database. An attempt can only write while it holds the run. Another attempt, a cancellation or the end of
 * the run takes the run away.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Statement } from '../../lib/database/engine.js'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { StoredError } from '../../lib/database/workflow-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { storable } from '../../lib/json/storable.js'
import type { StepOutcome } from './journal.js'
import { isTokenOf } from './status-token.js'

/** The maximum total of a list of runs, and its maximum offset. */
export const maxCounted = 10_000

const maxMessage = 1000 // characters of an error
const sweptRuns = 200 // per statement: each may have a hundred steps

export const runStatuses = ['queued', 'running', 'completed', 'failed', 'canceled'] as const
export type RunStatus = typeof runStatuses[number]

interface StoredRun {
  readonly id: string
  readonly tenant: Owner
  readonly user: string | null
  /** The id of the workflow; null for one without a name. */
  readonly workflow: string | null
  /** JSON. */
  readonly definition: string
  /** JSON. */
  readonly scope: string
}

export interface NewStoredRun extends StoredRun {
  /** SHA-256 of the token of `statusUrl`; null for a run that a user started. */
  readonly tokenHash: Buffer | null
}

export interface TakenRun extends StoredRun {
  readonly attempt: number
}

export type HeldRun = Pick<TakenRun, 'tenant' | 'id' | 'attempt'>

/** The runs that a caller may see: those of the tenant or, with `user`, only the user's own. */
export interface Viewer {
  readonly tenant: Owner
  readonly user: string | undefined
}

/** A viewer of one run of the tenant: the run of the token. */
export interface TokenViewer {
  readonly tenant: Owner
  readonly token: string
}

export interface StoredStep {
  readonly step: string
  readonly status: 'running' | 'completed' | 'failed' | 'skipped'
  readonly error: StoredError | null
  readonly startedAt: Date
  readonly finishedAt: Date | null
}

export interface ListedRun {
  readonly id: string
  readonly workflow: string | null
  readonly status: RunStatus
  readonly error: StoredError | null
  readonly createdAt: Date
  readonly finishedAt: Date | null
}

export interface ReadRun extends ListedRun {
  /** JSON. */
  readonly definition: string
  /** JSON. */
  readonly result: string | null
  readonly steps: readonly StoredStep[]
}

export type RunEnd = { readonly status: 'completed', readonly result: string } | { readonly status: 'failed', readonly error: StoredError }

/** Locks the run until the transaction ends. Returns no row if this attempt no longer holds it. */
const held = `held as (
  select from tenantry.workflow_runs where tenant_id = $1 and id = $2::uuid and attempt = $3::int and status = 'running' for share
)`

/** Values: tenant, run, attempt, step. Returns a row if the attempt holds the run. A failed step may be retried, a completed one never. */
export const beginStep: Statement = {
  name: 'tenantry_step_begin',
  text: `with ${held}
insert into tenantry.workflow_steps (tenant_id, run_id, step, status) select $1, $2::uuid, $4::text, 'running' from held
on conflict (tenant_id, run_id, step) do update set status = 'running', finished_at = null where workflow_steps.status in ('running', 'failed') returning 'held'`
}

/**
 * Values: tenant, run, attempt, step, status, result, error. Returns a row like `beginStep`. The run has made progress, so its count of
 * crashed processes is reset.
 */
export const endStep: Statement = {
  name: 'tenantry_step_end',
  text: `with ${held}, progress as (
  update tenantry_queue.job set lost = 0 from held where name = 'jobs' and id = $2::uuid and tenant_id = $1 and lost > 0
)
insert into tenantry.workflow_steps (tenant_id, run_id, step, status, result, error, finished_at)
select $1, $2::uuid, $4::text, $5::text, $6::text, $7::jsonb, clock_timestamp() from held
on conflict (tenant_id, run_id, step) do update set status = excluded.status, result = excluded.result, error = excluded.error, finished_at = excluded.finished_at
where workflow_steps.status in ('running', 'failed') returning 'held'`
}

/** Values: tenant, run, attempt, step, whether a call is made. Returns a row like `beginStep`. */
export const sendStep: Statement = {
  name: 'tenantry_step_send',
  text: `with ${held}
update tenantry.workflow_steps set sent_at = case when $5::boolean then clock_timestamp() end from held
where tenant_id = $1 and run_id = $2::uuid and step = $4::text returning 'held'`
}

/** The steps of earlier attempts of a run. */
export interface EarlierSteps {
  readonly outcomes: ReadonlyMap<string, StepOutcome>
  /** The steps with calls that may have been charged. */
  readonly sent: ReadonlySet<string>
}

export type RunStore = ReturnType<typeof createRunStore>

/** Without characters that PostgreSQL's jsonb cannot store, and shortened. */
export function storedError ({ message, code }: StoredError): StoredError {
  return { message: storable(message.slice(0, maxMessage)), code }
}

const open = sql`status in ('queued', 'running')`

/** @param dbFor runs a tenant's statements, in its turn */
export function createRunStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  return {
    async insert (db: Kysely<SystemTables>, runs: readonly NewStoredRun[]): Promise<void> {
      const column = (of: (run: NewStoredRun) => string | null) => runs.map(of)
      await sql`insert into tenantry.workflow_runs (tenant_id, id, user_id, workflow, definition, scope, status_token_hash) select * from unnest(
        ${column(({ tenant }) => tenant)}::text[], ${column(({ id }) => id)}::uuid[], ${column(({ user }) => user)}::text[],
        ${column(({ workflow }) => workflow)}::text[], ${column(({ definition }) => definition)}::text[], ${column(({ scope }) => scope)}::text[],
        ${runs.map(({ tokenHash }) => tokenHash)}::bytea[])`.execute(db)
    },

    /** Assigns the run to this attempt only. undefined if the run has ended or no longer exists. */
    async take (tenant: Owner, id: string): Promise<TakenRun | undefined> {
      const { rows: [row] } = await sql<TakenRun>`update tenantry.workflow_runs set attempt = attempt + 1, status = 'running'
        where tenant_id = ${tenant} and id = ${id}::uuid and ${open}
        returning tenant_id as tenant, id, user_id as "user", workflow, definition, scope, attempt`.execute(dbFor(tenant))
      return row
    },

    /** Complete if an attempt held the run before. */
    async earlier (tenant: Owner, id: string): Promise<EarlierSteps> {
      const rows = await dbFor(tenant).selectFrom('tenantry.workflow_steps').select(['step', 'status', 'result', 'error', 'sent_at as sentAt'])
        .where('tenant_id', '=', tenant).where('run_id', '=', id).where(sql<boolean>`(status <> 'running' or sent_at is not null)`).execute()
      return {
        outcomes: new Map(
          rows.flatMap(({ step, status, result, error }) => status === 'running' ? [] : [[step, { status, result, error }]])
        ),
        sent: new Set(rows.flatMap(({ step, sentAt }) => sentAt === null ? [] : [step]))
      }
    },

    /** The ids of the runs that this process still holds. */
    async heldOf (tenant: Owner, runs: readonly HeldRun[]): Promise<ReadonlySet<string>> {
      const { rows } = await sql<{ id: string }>`select id from tenantry.workflow_runs where tenant_id = ${tenant} and status = 'running'
        and (id, attempt) in (select * from unnest(${runs.map(({ id }) => id)}::uuid[], ${runs.map(({ attempt }) => attempt)}::int[]))`
        .execute(dbFor(tenant))
      return new Set(rows.map(({ id }) => id))
    },

    /** Returns false if the run has ended or no longer exists. */
    async isOpen (tenant: Owner, id: string): Promise<boolean> {
      const { rows } = await sql`select from tenantry.workflow_runs where tenant_id = ${tenant} and id = ${id}::uuid and ${open}`.execute(
        dbFor(tenant)
      )
      return rows.length > 0
    },

    /** Returns false if the attempt no longer holds the run. */
    async end (db: Kysely<SystemTables>, { tenant, id, attempt }: HeldRun, end: RunEnd): Promise<boolean> {
      const result = end.status === 'completed' ? end.result : null
      const error = end.status === 'failed' ? JSON.stringify(storedError(end.error)) : null
      const { rows } = await endRun(
        sql`status = ${end.status}, result = ${result}, error = ${error}::jsonb`,
        sql`tenant_id = ${tenant} and id = ${id}::uuid and attempt = ${attempt}::int and status = 'running'`
      ).execute(db)
      return rows.length > 0
    },

    /** Returns false unless the viewer may see the run and it has not ended. */
    async cancel (db: Kysely<SystemTables>, viewer: Viewer, id: string): Promise<boolean> {
      const { rows } = await endRun(sql`status = 'canceled'`, sql`${seenBy(viewer)} and id = ${id}::uuid and ${open}`).execute(db)
      return rows.length > 0
    },

    async status (viewer: Viewer, id: string): Promise<RunStatus | undefined> {
      const { rows: [row] } = await sql<{ status: RunStatus }>`select status from tenantry.workflow_runs where ${
        seenBy(viewer)
      } and id = ${id}::uuid`.execute(dbFor(viewer.tenant))
      return row?.status
    },

    async read (viewer: Viewer | TokenViewer, id: string): Promise<ReadRun | undefined> {
      const { rows: [row] } = await sql<
        ReadRun & { tokenHash: Buffer | null }
      >`select id, workflow, status, error, created_at as "createdAt", finished_at as "finishedAt", definition, result, status_token_hash as "tokenHash",
          coalesce((select json_agg(json_build_object('step', step, 'status', status, 'error', error, 'startedAt', started_at, 'finishedAt', finished_at))
            from tenantry.workflow_steps where tenant_id = run.tenant_id and run_id = run.id), '[]') as steps
        from tenantry.workflow_runs run where ${
        'token' in viewer ? sql`tenant_id = ${viewer.tenant}` : seenBy(viewer)
      } and id = ${id}::uuid`.execute(dbFor(viewer.tenant))
      if (row === undefined) return undefined
      const { tokenHash, ...found } = row
      if ('token' in viewer && (tokenHash === null || !isTokenOf(tokenHash, viewer.token))) return undefined
      return {
        ...found,
        steps: row.steps.map((step) => ({
          ...step,
          startedAt: new Date(step.startedAt),
          finishedAt: step.finishedAt && new Date(step.finishedAt)
        }))
      }
    },

    /** Newest first. `total` is at most `maxCounted`. */
    async list (viewer: Viewer, status: RunStatus | undefined, { limit, offset }: Page): Promise<{ data: ListedRun[], total: number }> {
      const runs = sql`from tenantry.workflow_runs where ${seenBy(viewer)} ${status === undefined ? sql`` : sql`and status = ${status}`}`
      const db = dbFor(viewer.tenant)
      const [{ rows: data }, { rows: [count] }] = await Promise.all([
        sql<
          ListedRun
        >`select id, workflow, status, error, created_at as "createdAt", finished_at as "finishedAt" ${runs} order by created_at desc, id desc limit ${limit} offset ${offset}`
          .execute(db),
        sql<{ total: number }>`select count(*)::int as total from (select ${runs} limit ${maxCounted}) counted`.execute(db)
      ])
      return { data, total: count?.total ?? 0 }
    }
  }
}

/** Ends the run that matches the condition. Its input and the results of its steps are removed. */
function endRun (changes: RawBuilder<unknown>, condition: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`with run as (
      update tenantry.workflow_runs set ${changes}, scope = '{}', finished_at = clock_timestamp() where ${condition} returning tenant_id, id
    ), results as (
      update tenantry.workflow_steps set result = null from run
      where workflow_steps.tenant_id = run.tenant_id and run_id = run.id and workflow_steps.result is not null
    ) select from run`
}

function seenBy ({ tenant, user }: Viewer) {
  return user === undefined ? sql`tenant_id = ${tenant}` : sql`tenant_id = ${tenant} and user_id = ${user}`
}

/** Removes runs that were started 30 days ago, with their steps. */
export function sweepRuns (db: Kysely<SystemTables>): Promise<boolean> {
  return sweep(db, 'workflows', [removal('tenantry.workflow_runs', sql`created_at < now() - interval '30 days'`, sweptRuns)])
}
