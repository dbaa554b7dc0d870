/** The jobs in the database: which are taken, retried, completed and removed. insert.ts writes them. All times are the database's. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { lease, queue } from './insert.js'
import type { Job } from './types.js'

/** A job is set aside when this many processes have ended while they ran it. */
export const maxLost = 2

const setAsideOutput = '{"name": "ProcessEnded", "message": "its process ended twice while it ran"}'

/** Each has an index. */
const waitingStates = [sql`state = 'created'`, sql`state = 'retry'`]

/** Delayed jobs that one statement makes ready. */
const maxDue = 1000

/** A job of this process. */
export interface TakenJob extends Pick<Job, 'id' | 'tenant' | 'data' | 'lost'> {
  readonly task: string
  /** 0 for the first. */
  readonly retries: number
  readonly retryLimit: number
  /** When it was taken, in seconds since 1970, with all digits of the database. */
  readonly startedOn: string
}

/** The job and its attempt. */
export type JobAttempt = Pick<TakenJob, 'id' | 'retries'>

/** A name of jobs that this process has room for. */
export interface Want {
  readonly task: string
  /** Tenants take turns in the order of their ids, from this text on; after the last one the first follows. */
  readonly from: string
  readonly capacity: number
}

export interface Upkeep {
  /** Jobs of dead processes: they can be run again, */
  readonly takenOver: number
  /** or have failed for good, */
  readonly givenUp: number
  /** or are set aside, because `maxLost` processes ended while they ran them. */
  readonly setAside: number
  /** Milliseconds until the next delayed job is due; null without one. */
  readonly nextDue: number | null
}

/** The remaining room for jobs of one tenant. */
export interface TenantCapacity {
  /** The highest number of a tenant's jobs in this process, */
  readonly most: number
  /** and the current number, by tenant. The platform does not count. */
  readonly running: ReadonlyMap<string, number>
  /**
   * Whether to take a job during which a process ended. A process runs one of them at a time, so that the faulty one is alone when the next
   * process ends.
   */
  readonly suspect: boolean
  /** Whether to take only jobs of the platform. */
  readonly onlyPlatform: boolean
}

/** Which jobs may be taken. */
type Eligible = Pick<TenantCapacity, 'suspect' | 'onlyPlatform'>

export type JobStore = ReturnType<typeof createJobStore>

export function createJobStore (db: Kysely<SystemTables>) {
  return {
    /**
     * Up to `limit` jobs, the first of each tenant and name before its second. Rejects with `conflict` if another process takes one of the
     * same key at this moment.
     */
    async take (wants: readonly Want[], limit: number, { most, running, ...eligible }: TenantCapacity): Promise<TakenJob[]> {
      const full = [...running].flatMap(([tenant, jobs]) => jobs >= most ? tenant : [])
      // `turns` goes from tenant to tenant by the index, so thousands of waiting jobs of one tenant cost nothing. If fewer tenants than
      // free places have jobs, each gives several: the first of each, then the second of each. One of several jobs with a key is taken.
      const { rows } = await sql<TakenJob>`
        with want as (
          select * from unnest(${wants.map(({ task }) => task)}::text[], ${wants.map(({ from }) => from)}::text[], ${wants.map(({ capacity }) => capacity)}::int[])
            with ordinality as w (task, first, room, place)
        ), busy as (
          select * from unnest(${[...running.keys()]}::text[], ${[...running.values()]}::int[]) as b (tenant, jobs)
        ), found as materialized (
          select best.*, want.room, want.place, turn.nth from want, lateral (
            select listed.*, count(*) over () as tenants from (
              select *, row_number() over () as nth from (
                (${turns(sql`tenant_id >= want.first`, full, eligible)}) union all (${turns(sql`tenant_id < want.first`, full, eligible)})
              ) either limit want.room
            ) listed
          ) turn, lateral (
            select job.id, job.task, job.tenant_id, job.singleton_key, job.lost, row_number() over (order by -priority, created_on) as round from (
              select * from tenantry_queue.job where state < 'active' and start_after <= created_on
                and task = want.task and tenant_id = turn.tenant_id ${among(eligible)}
                and (singleton_key is null or not exists (select from tenantry_queue.job as running where running.state = 'active'
                  and running.tenant_id = job.tenant_id and running.task = job.task and running.singleton_key = job.singleton_key))
                order by -priority, created_on limit ceil(want.room::float8 / turn.tenants) for update skip locked
            ) job
          ) best
        ), chosen as (
          select id from (
            select *, row_number() over (partition by tenant_id order by round, place) as of_tenant,
              row_number() over (partition by lost > 0 order by round, place, nth) as of_kind from (
              select *, row_number() over (partition by task order by round, nth) as of_task from (
                select *, row_number() over (partition by task, tenant_id, coalesce(singleton_key, id::text) order by round) as of_key from found
              ) keyed where of_key = 1
            ) taken where of_task <= room
          ) own left join busy on busy.tenant = tenant_id
          where (tenant_id = '' or of_tenant + coalesce(busy.jobs, 0) <= ${most}::int) and (lost = 0 or of_kind = 1) order by round, place, nth limit ${limit}::int
        )
        update tenantry_queue.job set state = 'active', started_on = now(), expire_in = ${lease} * interval '1 second',
          retry_count = case when started_on is null then retry_count else retry_count + 1 end
        from chosen where job.name = ${queue} and job.id = chosen.id
        returning job.id, job.tenant_id as tenant, job.task, job.data->'data' as data, job.retry_count as retries, job.retry_limit as "retryLimit",
          extract(epoch from job.started_on)::text as "startedOn", job.lost`
        .execute(db)
      return rows
    },

    /**
     * Makes due jobs ready, and with `takeOver` those of dead processes.
     *
     * @param own ids of jobs that this process runs: after a long stall it renews them
     * @param closing names whose jobs are taken once more to be set aside
     */
    async upkeep (takeOver: boolean, own: readonly string[], closing: readonly string[]): Promise<Upkeep> {
      const { rows: [row] } = await sql<Upkeep>`
        with due as (
          update tenantry_queue.job set start_after = created_on where name = ${queue} and id in (select id from tenantry_queue.job
            where state < 'active' and start_after > created_on and start_after <= now() order by start_after limit ${maxDue} for update skip locked)
        ), lost as (
          select id, lost + 1 >= ${maxLost} and task <> all (${closing}::text[]) as aside, retry_count < retry_limit as again from tenantry_queue.job
          where ${takeOver} and name = ${queue} and state = 'active' and started_on + expire_in < now() and id <> all (${own}::uuid[])
          order by started_on limit ${maxDue} for update skip locked
        ), gone as (
          update tenantry_queue.job set state = (case when again and not aside then 'retry' else 'failed' end)::tenantry_queue.job_state,
            start_after = created_on, completed_on = case when again and not aside then null else now() end, lost = job.lost + 1,
            output = case when aside then ${setAsideOutput}::jsonb else '{"name": "ProcessEnded", "message": "its process ended while it ran"}' end
          from lost where job.name = ${queue} and job.id = lost.id
          returning state, aside
        )
        select (select count(*) from gone where state = 'retry')::int as "takenOver",
          (select count(*) from gone where state = 'failed' and not aside)::int as "givenUp", (select count(*) from gone where aside)::int as "setAside",
          (select extract(epoch from min(start_after) - now()) * 1000 from tenantry_queue.job
            where state < 'active' and start_after > created_on and start_after > now())::float8 as "nextDue"`.execute(db)
      return row ?? { takenOver: 0, givenUp: 0, setAside: 0, nextDue: null }
    },

    /** Renews the holds; resolves with those that this process still has: the ids, and the `retries` of their attempts. */
    async renew (jobs: readonly JobAttempt[]): Promise<ReadonlyMap<string, number>> {
      const { rows } = await sql<JobAttempt>`
        update tenantry_queue.job set expire_in = now() - started_on + ${lease} * interval '1 second'
        where ${isHeld(jobs)} returning id, retry_count as retries`.execute(db)
      return new Map(rows.map(({ id, retries }) => [id, retries]))
    },

    async complete (jobs: readonly JobAttempt[]): Promise<void> {
      // They are done, even if another worker has taken them since.
      await sql`
        update tenantry_queue.job set state = 'completed', completed_on = now(), output = null
        where name = ${queue} and state = 'active' and id = any (${jobs.map(({ id }) => id)}::uuid[])`.execute(db)
    },

    /** Failed: retried, or failed for good; no effect if another process has it. */
    async fail (job: JobAttempt, reason: object): Promise<void> {
      // The delay doubles with each attempt, and half of it is random, so that jobs that failed together do not return together.
      await sql`
        update tenantry_queue.job set output = ${JSON.stringify(reason)}::jsonb,
          state = (case when retry_count < retry_limit then 'retry' else 'failed' end)::tenantry_queue.job_state,
          completed_on = case when retry_count < retry_limit then null else now() end,
          start_after = case when retry_count >= retry_limit then start_after when not retry_backoff then now() + retry_delay * interval '1 second'
            else now() + retry_delay * 2 ^ least(16, retry_count + 1) / 2 * (1 + random()) * interval '1 second' end
        where ${isHeld([job])}`.execute(db)
    },

    /** Failed for good, because processes ended while they ran it; no effect if another process has it. */
    async setAside (job: JobAttempt): Promise<void> {
      await sql`update tenantry_queue.job set state = 'failed', completed_on = now(), output = ${setAsideOutput}::jsonb where ${isHeld([job])}`.execute(db)
    },

    /** Returns jobs to the queue for other workers. The attempt does not count; no effect if another worker has taken the job since. */
    async handBack (jobs: readonly TakenJob[]): Promise<void> {
      // The next worker has the same attempt.
      await sql`
        update tenantry_queue.job set state = 'retry', start_after = created_on, retry_count = greatest(retry_count - 1, 0),
          started_on = case when retry_count = 0 then null else started_on end
        where ${isHeld(jobs)} and (id, extract(epoch from started_on)) in
          (select * from unnest(${jobs.map(({ id }) => id)}::uuid[], ${jobs.map(({ startedOn }) => startedOn)}::numeric[]))`.execute(db)
    },

    /** The number of a tenant's waiting jobs, counted up to `max`. */
    async waiting (tenant: Owner, max: number, within = db): Promise<number> {
      const inState = (state: RawBuilder<unknown>) =>
        sql`(select 1 from tenantry_queue.job where tenant_id = ${tenant} and ${state} limit ${max}::int)`
      const { rows: [row] } = await sql<{ jobs: number }>`select count(*)::int as jobs from (
        ${sql.join(waitingStates.map(inState), sql` union all `)} limit ${max}::int) waiting`.execute(within)
      return row?.jobs ?? 0
    },

    /** Removes old ended jobs. */
    sweep: (): Promise<boolean> =>
      sweep(db, 'queue', [
        removal('tenantry_queue.job', sql`state > 'active' and state <> 'failed' and completed_on < now() - interval '25 hours'`),
        removal('tenantry_queue.job', sql`state = 'failed' and completed_on < now() - interval '14 days'`),
        // For example of a name that no version of the program has any more.
        ...waitingStates.map((state) => removal('tenantry_queue.job', sql`${state} and keep_until < now()`))
      ])
  }
}

/**
 * The tenants with runnable jobs of `want.task` that are not `full`, among those for which the condition on `tenant_id` holds, in their
 * order.
 */
function turns (condition: RawBuilder<unknown>, full: readonly string[], eligible: Eligible): RawBuilder<unknown> {
  return sql`with recursive turns as (
      (select tenant_id from tenantry_queue.job where state < 'active' and start_after <= created_on
        and task = want.task and ${condition} ${among(eligible)} order by tenant_id limit 1)
      union all
      select next.tenant_id from turns, lateral (select tenant_id from tenantry_queue.job where state < 'active' and start_after <= created_on
        and task = want.task and tenant_id > turns.tenant_id and ${condition} ${among(eligible)} order by tenant_id limit 1) next
    ) select tenant_id from turns where tenant_id <> all (${full}::text[])`
}

/** Leaves out tenants, and jobs during which a process ended, unless they may be taken. */
function among ({ suspect, onlyPlatform }: Eligible): RawBuilder<unknown> {
  return sql`${suspect ? sql`` : sql`and lost = 0`} ${onlyPlatform ? sql`and tenant_id = ''` : sql``}`
}

/** The condition of jobs that this process has held without interruption. */
function isHeld (jobs: readonly JobAttempt[]): RawBuilder<unknown> {
  return sql`name = ${queue} and state = 'active'
    and (id, retry_count) in (select * from unnest(${jobs.map(({ id }) => id)}::uuid[], ${jobs.map(({ retries }) => retries)}::int[]))`
}
