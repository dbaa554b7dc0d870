/** Inserts jobs: many in one statement, which returns the outcome of each. */
import { CompiledQuery, type Kysely } from 'kysely'
import { encodeNotice } from '../../lib/database/events.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'

/** The name that all jobs have in the column `name`. */
export const queue = 'jobs'

/** Seconds of a process's hold on a job between renewals: then others take it over. */
export const lease = 15

export interface NewJob {
  readonly id: string
  readonly tenant: Owner
  readonly task: string
  /** JSON, without characters that PostgreSQL cannot store. */
  readonly data: string
  readonly key: string | null
  /** Seconds. */
  readonly delay: number
  readonly priority: number
  readonly retryLimit: number
  readonly retryDelay: number
  /** The length of a slot in seconds; a slot has at most one job. */
  readonly slot: number | null
}

/**
 * The outcome for a job. `sent`; `waiting`: its key or slot has a job already; `unknown`: its tenant does not exist or is being deleted;
 * `held`: another transaction saves the tenant's document or removes it, and the job should not wait.
 */
export type Outcome = 'sent' | 'waiting' | 'unknown' | 'held'

/** The notice of possible new jobs for the workers of all processes (lib/database/events.ts). */
export const queueNotice = encodeNotice({ topic: 'queue', tenant: platformRef, from: '', number: 0 })
export const noticeChannel = 'tenantry'

/**
 * Tenants are locked in one order.
 *
 * @param waits whether it waits for transactions that hold a tenant of the jobs. If not, their outcome is `held`
 * @param notifies whether the commit notifies the workers of all processes: PostgreSQL then commits it after other notifying ones
 */
const textOf = (waits: boolean, notifies: boolean) =>
  `with given as materialized (
  select * from jsonb_to_recordset($1::jsonb) as g (id uuid, tenant text, task text, data jsonb, key text, delay float8, priority int, retry_limit int, retry_delay int, slot int)
), present as materialized (
  select id from tenantry.tenants where id in (select tenant from given) and status <> 'deleting' order by id for key share${waits ? '' : ' skip locked'}
), sent as (
  insert into tenantry_queue.job (id, name, data, priority, start_after, singleton_key, singleton_on, expire_in, keep_until, retry_limit, retry_delay, retry_backoff, policy)
  select id, '${queue}', jsonb_build_object('tenant', tenant, 'task', task, 'data', data), priority, now() + delay * interval '1 second', key,
    'epoch'::timestamp + interval '1 second' * (slot * floor(date_part('epoch', now()) / slot)), interval '${lease} seconds',
    now() + delay * interval '1 second' + interval '14 days', retry_limit, case when retry_delay > 0 then retry_delay else 0 end, retry_delay > 0, 'standard'
  from given where tenant = '' or tenant in (select id from present)
  on conflict do nothing returning id
)
select id, case when id in (select id from sent) then 'sent' when tenant = '' or tenant in (select id from present) then 'waiting'
  ${
    waits ? '' : "when exists (select from tenantry.tenants where tenants.id = given.tenant and status <> 'deleting') then 'held'"
  } else 'unknown' end as outcome
  ${notifies ? `, pg_notify('${noticeChannel}', '${queueNotice}')` : ''} from given`

const texts = { inPassing: textOf(false, false), waiting: textOf(true, false), notifying: textOf(true, true) }

/** The outcomes, in the order of the jobs. */
export async function insertJobs (db: Kysely<SystemTables>, jobs: readonly NewJob[], how: keyof typeof texts): Promise<Outcome[]> {
  const query = CompiledQuery.raw(texts[how], [`[${jobs.map(recordOf).join()}]`])
  const { rows } = await db.executeQuery<{ id: string, outcome: Outcome }>(query)
  const outcomes = new Map(rows.map(({ id, outcome }) => [id, outcome]))
  return jobs.map(({ id }) => outcomes.get(id) ?? 'unknown')
}

function recordOf ({ id, tenant, task, data, key, delay, priority, retryLimit, retryDelay, slot }: NewJob): string {
  const members = JSON.stringify({ id, tenant, task, key, delay, priority, retry_limit: retryLimit, retry_delay: retryDelay, slot })
  return `${members.slice(0, -1)},"data":${data}}`
}
