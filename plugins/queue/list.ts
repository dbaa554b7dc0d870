/** The jobs for administrators of the platform, at a bounded cost for any number of jobs. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type JobState, jobStates } from '../../lib/database/job-states.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { queue } from './insert.js'

/** The most counted and skipped jobs of a list. */
export const maxListed = 10_000
/** The most counted jobs of one name and state. */
export const maxCounted = 100_000

const none = { created: 0, retry: 0, active: 0, completed: 0, cancelled: 0, failed: 0 } satisfies Record<JobState, number>

export interface JobRow {
  readonly id: string
  readonly name: string
  /** Empty for the platform. */
  readonly tenant: Owner
  readonly state: JobState
  readonly priority: number
  readonly key: string | null
  /** Started attempts. */
  readonly attempts: number
  readonly retryLimit: number
  readonly createdAt: Date
  /** The earliest time of its run. */
  readonly startAfter: Date
  /** The start of the last attempt. */
  readonly startedAt: Date | null
  readonly endedAt: Date | null
  /** The error of the last failed attempt. */
  readonly error: { readonly name?: string | null, readonly message?: string | null } | null
}

/** Filters of jobs; missing members do not filter. */
export interface JobFilter {
  readonly state?: JobState | undefined
  readonly name?: string | undefined
  readonly tenant?: Owner | undefined
}

export interface JobCounts {
  readonly name: string
  /** Each counted up to `maxCounted`. */
  readonly states: Readonly<Record<JobState, number>>
  /** Seconds since the oldest runnable job was sent. */
  readonly oldestWaiting: number | null
}

export interface Changed {
  readonly done: boolean
  readonly name: string
  readonly tenant: Owner
  /** If it is not done, the conflicting job. */
  readonly state: JobState
}

const columns = sql`job.id, job.task as name, job.tenant_id as tenant, job.state, job.priority, job.singleton_key as key,
  case when job.started_on is null then 0 else job.retry_count + 1 end as attempts, job.retry_limit as "retryLimit",
  job.created_on as "createdAt", job.start_after as "startAfter", job.started_on as "startedAt", job.completed_on as "endedAt",
  case when job.output is null then null else jsonb_build_object('name', job.output->'name', 'message', job.output->'message') end as error`

/** Jobs of a state. A constant, since each index has the jobs of one state (lib/database/migrations/system/queue.ts). */
const isIn = (state: JobState) => sql`job.state = ${sql.lit(state)}`

/** The names of the jobs, from name to name by the index. */
const tasksOf = (jobs: RawBuilder<unknown>) =>
  sql`(with recursive tasks as (
    (select task from tenantry_queue.job where ${jobs} order by task limit 1)
    union all
    select next.task from tasks, lateral (select task from tenantry_queue.job where ${jobs} and task > tasks.task order by task limit 1) next
  ) select task from tasks) named`

export function createJobList (db: Kysely<SystemTables>) {
  let counting: Promise<JobCounts[]> | null = null

  async function count (): Promise<JobCounts[]> {
    const counted = jobStates.map((state) =>
      sql`select task, ${sql.lit(state)} as state, (
          select count(*)::int from (select from tenantry_queue.job where ${isIn(state)} and job.task = named.task limit ${maxCounted}::int) found) as jobs
        from ${tasksOf(isIn(state))}`
    )
    const oldest = (state: JobState) =>
      sql`(select created_on from tenantry_queue.job
        where job.task = counted.task and ${isIn(state)} and start_after <= created_on order by created_on limit 1)`
    const { rows } = await sql<JobCounts>`select task as name, jsonb_object_agg(state, jobs) as states,
        extract(epoch from now() - least(${oldest('created')}, ${oldest('retry')}))::float8 as "oldestWaiting"
      from (${sql.join(counted, sql` union all `)}) counted group by task order by task`.execute(db)
    return rows.map((row) => ({ ...row, states: { ...none, ...row.states } }))
  }

  /** The newest jobs of each name and state, or of the tenant's in each state: no others are read. */
  function listed (
    { state, name, tenant }: JobFilter,
    columns: RawBuilder<unknown>,
    order: RawBuilder<unknown>,
    limit: number
  ): RawBuilder<unknown> {
    const ofName = name === undefined ? sql`` : sql`and task = ${name}`
    const listedIn = (jobs: RawBuilder<unknown>) =>
      tenant === undefined && name === undefined
        ? sql`(select own.* from ${tasksOf(jobs)} cross join lateral (
            select ${columns} from tenantry_queue.job where ${jobs} and job.task = named.task ${order} limit ${limit}::int) own)`
        : sql`(select ${columns} from tenantry_queue.job
            where ${jobs} ${tenant === undefined ? sql`` : sql`and tenant_id = ${tenant}`} ${ofName} ${order} limit ${limit}::int)`
    return sql.join((state === undefined ? jobStates : [state]).map((one) => listedIn(isIn(one))), sql` union all `)
  }

  /** Changes the locked job, if it has one of these states. */
  async function change (
    within: Kysely<SystemTables>,
    id: string,
    from: readonly JobState[],
    changes: RawBuilder<unknown>
  ): Promise<Changed | null> {
    const { rows: [job] } = await sql<Omit<Changed, 'done'>>`select task as name, tenant_id as tenant, state from tenantry_queue.job
      where name = ${queue} and id = ${id} for update`.execute(within)
    if (job === undefined) return null
    const done = from.includes(job.state)
    if (done) await sql`update tenantry_queue.job set ${changes} where name = ${queue} and id = ${id}`.execute(within)
    return { ...job, done }
  }

  return {
    counts (): Promise<JobCounts[]> {
      counting ??= count().finally(() => {
        counting = null
      })
      return counting
    },

    /** The newest first; `total` counts up to `maxListed`. */
    async page (filter: JobFilter, { limit, offset }: Page): Promise<{ data: JobRow[], total: number }> {
      const order = sql`order by created_on desc, id desc`
      const { rows } = await sql<JobRow>`select ${columns} from (
          select id, created_on from (${listed(filter, sql`id, created_on`, order, offset + limit)}) found ${order} limit ${limit}::int offset ${offset}::int
        ) page join tenantry_queue.job on job.name = ${queue} and job.id = page.id order by page.created_on desc, page.id desc`.execute(db)
      const { rows: [row] } = await sql<{ total: number }>`select count(*)::int as total from (
        select from (${listed(filter, sql`id`, sql``, maxListed)}) found limit ${maxListed}::int) counted`.execute(db)
      return { data: rows, total: row?.total ?? 0 }
    },

    async find (id: string): Promise<JobRow & { data: Record<string, unknown> } | null> {
      const { rows: [row] } = await sql<JobRow & { data: Record<string, unknown> }>`select ${columns}, job.data->'data' as data
        from tenantry_queue.job where name = ${queue} and id = ${id}`.execute(db)
      return row ?? null
    },

    /** Cancels a job that has not ended; otherwise returns its state, null for an unknown job. */
    cancel: (within: Kysely<SystemTables>, id: string): Promise<Changed | null> =>
      change(within, id, ['created', 'retry', 'active'], sql`state = 'cancelled', completed_on = now()`),

    /** Runs a failed or cancelled job once more; otherwise likewise. */
    retry: (within: Kysely<SystemTables>, id: string): Promise<Changed | null> =>
      change(
        within,
        id,
        ['failed', 'cancelled'],
        sql`state = 'retry', completed_on = null, start_after = created_on, singleton_on = null,
      keep_until = now() + interval '14 days', retry_limit = greatest(retry_limit, retry_count + 1), lost = 0`
      )
  }
}
