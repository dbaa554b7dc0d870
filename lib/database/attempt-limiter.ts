/** Limits failed attempts, such as passwords. Each is counted before it is made, so that concurrent ones cannot exceed the rule. */
import { hash } from 'node:crypto'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { failure, retryIn } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import { clockTolerance } from '../time/spans.js'
import { removal, sweep } from './retention.js'
import type { SystemTables } from './system-tables.js'

export interface AttemptRule {
  /** The kind of attempt, such as `password`; each kind has its own counts. */
  readonly kind: string
  /** The maximum attempts within any window. */
  readonly max: number
  /** The window, in milliseconds. */
  readonly windowMs: number
  /** The pause after that many attempts, in ms. Each pause allows one, until a window has fewer. Default: a window, which allows all. */
  readonly pauseMs?: number
}

export type AttemptLimiter = ReturnType<typeof createAttemptLimiter>

/**
 * @param dbFor runs the statements of a tenant; empty for the platform's subjects
 * @param now the clock, in milliseconds since 1970
 */
export function createAttemptLimiter (dbFor: (tenant: Owner) => Kysely<SystemTables>, now: () => number) {
  /** Whether the row of the subject meets the condition. */
  async function exists (kind: string, tenant: Owner, subject: string, condition: RawBuilder<unknown>): Promise<boolean> {
    const { rows } = await sql`select from tenantry.attempts where ${rowOf(kind, tenant, subject)} and ${condition}`.execute(dbFor(tenant))
    return rows.length > 0
  }

  return {
    /** Counts an attempt before it is made; throws `tooManyAttempts` beyond the rule. The subject is any text. */
    async consume ({ kind, max, windowMs, pauseMs = windowMs }: AttemptRule, tenant: Owner, subject: string): Promise<void> {
      const db = dbFor(tenant)
      const time = now()
      const [at, paused, latest] = [new Date(time), new Date(time - pauseMs), new Date(time + clockTolerance)]
      // The latest admitted attempts come first; a rejected attempt writes nothing. Attempts after `latest` come from a wrong clock.
      const { rows } = await sql`
        insert into tenantry.attempts as a (tenant_id, kind, subject, tries, ends_at)
        values (${tenant}, ${kind}, ${digest(subject)}, array[${at}]::timestamptz[], ${new Date(time + windowMs)})
        on conflict (tenant_id, kind, subject) do update set
          tries = excluded.tries || array(select made from unnest(a.tries) as made where made > ${new Date(
        time - windowMs
      )} and made <= ${latest} order by made desc limit ${max - 1}),
          ends_at = excluded.ends_at
        where cardinality(a.tries) < ${max} or a.tries[1] <= ${paused} or a.tries[1] > ${latest}
        returning true`.execute(db)
      if (rows.length > 0) return
      const { rows: [row] } = await sql<{ last: Date | null }>`
        select tries[1] as last from tenantry.attempts where ${rowOf(kind, tenant, subject)}`.execute(db)
      throw failure('tooManyAttempts', retryIn(Math.max(1, Math.ceil(((row?.last?.getTime() ?? 0) - paused.getTime()) / 1000))))
    },

    /** Whether the next attempt would be rejected. It takes no lock, so that a flood of attempts need not write; `consume` is exact. */
    isSpent ({ kind, max, windowMs, pauseMs = windowMs }: AttemptRule, tenant: Owner, subject: string): Promise<boolean> {
      const [paused, latest] = [new Date(now() - pauseMs), new Date(now() + clockTolerance)]
      return exists(kind, tenant, subject, sql`cardinality(tries) >= ${max} and tries[1] > ${paused} and tries[1] <= ${latest}`)
    },

    /** The subject has authenticated: its attempts are deleted. */
    async reset ({ kind }: Pick<AttemptRule, 'kind'>, tenant: Owner, subject: string, db = dbFor(tenant)): Promise<void> {
      await sql`delete from tenantry.attempts where ${rowOf(kind, tenant, subject)}`.execute(db)
    },

    /** The attempt succeeded or was not made. A rule's pause refunds nothing: each success would allow an attacker another attempt. */
    async refund ({ kind, max, windowMs, pauseMs = windowMs }: AttemptRule, tenant: Owner, subject: string): Promise<void> {
      const most = pauseMs < windowMs ? max - 1 : max
      await sql`update tenantry.attempts set tries = tries[2:]
        where ${rowOf(kind, tenant, subject)} and cardinality(tries) between 1 and ${most}`.execute(dbFor(tenant))
    },

    /** Keeps the subject for that many milliseconds, under a kind that no rule uses. A call within a day of the last one writes nothing. */
    async remember (kind: string, tenant: Owner, subject: string, ms: number): Promise<void> {
      await sql`insert into tenantry.attempts as a (tenant_id, kind, subject, tries, ends_at)
        values (${tenant}, ${kind}, ${digest(subject)}, '{}', ${new Date(now() + ms)})
        on conflict (tenant_id, kind, subject) do update set ends_at = excluded.ends_at
        where a.ends_at < excluded.ends_at - interval '1 day'`.execute(dbFor(tenant))
    },

    /** Takes the subject's only place for that many milliseconds, by the database's clock. A token for `release`; null if it is taken. */
    async hold (kind: string, tenant: Owner, subject: string, ms: number): Promise<string | null> {
      const { rows: [row] } = await sql<{ token: string }>`insert into tenantry.attempts as a (tenant_id, kind, subject, tries, ends_at)
        values (${tenant}, ${kind}, ${digest(subject)}, '{}', now() + ${ms} * interval '1 ms')
        on conflict (tenant_id, kind, subject) do update set ends_at = excluded.ends_at where a.ends_at <= now()
        returning ends_at::text as token`.execute(dbFor(tenant))
      return row?.token ?? null
    },

    /** Frees the place, unless its time has passed and another caller has taken it: each place ends later than the one before. */
    async release (kind: string, tenant: Owner, subject: string, token: string): Promise<void> {
      await sql`delete from tenantry.attempts
        where ${rowOf(kind, tenant, subject)} and ends_at = ${token}::timestamptz`.execute(dbFor(tenant))
    },

    isRemembered: (kind: string, tenant: Owner, subject: string) => exists(kind, tenant, subject, sql`ends_at > ${new Date(now())}`),

    /** Removes expired counts; false if another server does so now. */
    sweep: (db: Kysely<SystemTables>) =>
      sweep(db, 'tenantry.attempts.sweep', [removal('tenantry.attempts', sql`ends_at <= ${new Date(now())}`)])
  }
}

function rowOf (kind: string, tenant: Owner, subject: string): RawBuilder<unknown> {
  return sql`tenant_id = ${tenant} and kind = ${kind} and subject = ${digest(subject)}`
}

/** A hash has a fixed length, and hides the text: subjects are e-mail addresses. */
function digest (subject: string): Buffer {
  return hash('sha256', subject, 'buffer')
}
