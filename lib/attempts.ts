/**
 * Tries that may fail only so often: passwords, one-time codes. They are counted before they are made, in the database, so
 * that neither tries at the same time nor tries on several servers are more than the rule allows.
 */
import type { Kysely } from 'kysely'
import type { SystemTables } from './database/system-tables.js'
import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { maxSweptRows, sweep } from './database/sweeping.js'
import { failure } from './errors.js'

export interface AttemptRule {
  /** What is tried, such as `password`: kinds have counts of their own. */
  readonly kind: string
  /** Tries in a window. */
  readonly max: number
  /** The window, in milliseconds from the first try. */
  readonly windowMs: number
}

export interface Attempts {
  /** Counts a try of the subject, any text, before it is made; throws `tooManyAttempts` beyond the rule. `tenant`: empty for the platform's. */
  take (rule: AttemptRule, tenant: string, subject: string): Promise<void>
  /** The subject has proven itself: its tries are forgotten. */
  forgive (rule: AttemptRule, tenant: string, subject: string): Promise<void>
  /** That try proved itself, or was not made: what others have failed still counts. */
  giveBack (rule: AttemptRule, tenant: string, subject: string): Promise<void>
  /** Removes what has ended; false where another server does so now. */
  sweep (): Promise<boolean>
}

/** @param now the clock, in milliseconds since 1970 */
export function createAttempts (db: Kysely<SystemTables>, now: () => number = Date.now): Attempts {
  return {
    async take ({ kind, max, windowMs }, tenant, subject) {
      const at = new Date(now())
      const ends = new Date(at.getTime() + windowMs)
      const { rows: [row] } = await sql<{ count: number, ends: Date }>`
        insert into tenantry.attempts as a (tenant_id, kind, subject, count, ends_at) values (${tenant}, ${kind}, ${digest(subject)}, 1, ${ends})
        on conflict (tenant_id, kind, subject) do update set
          count = case when a.ends_at <= ${at} then 1 else least(a.count, ${max}::int) + 1 end,
          ends_at = case when a.ends_at <= ${at} then excluded.ends_at else a.ends_at end
        returning count, ends_at as ends`.execute(db)
      if (row === undefined || row.count <= max) return
      const retryAfter = Math.max(1, Math.ceil((row.ends.getTime() - at.getTime()) / 1000))
      throw failure('tooManyAttempts', { extras: { retryAfter }, headers: { 'retry-after': String(retryAfter) } })
    },

    async forgive ({ kind }, tenant, subject) {
      await db.deleteFrom('tenantry.attempts').where('tenant_id', '=', tenant).where('kind', '=', kind).where('subject', '=', digest(subject)).execute()
    },

    async giveBack ({ kind }, tenant, subject) {
      await sql`update tenantry.attempts set count = count - 1
        where tenant_id = ${tenant} and kind = ${kind} and subject = ${digest(subject)} and count > 0 and ends_at > ${new Date(now())}`.execute(db)
    },

    sweep: () => sweep(db, 'tenantry.attempts.sweep', [async (transaction) => {
      const { numAffectedRows = 0n } = await sql`delete from tenantry.attempts where ctid = any (array(
        select ctid from tenantry.attempts where ends_at <= ${new Date(now())} limit ${maxSweptRows} for update skip locked))`.execute(transaction)
      return Number(numAffectedRows)
    }])
  }
}

/** Of one length, and nothing of the text: subjects are e-mail addresses. */
function digest (subject: string): Buffer {
  return createHash('sha256').update(subject).digest()
}
