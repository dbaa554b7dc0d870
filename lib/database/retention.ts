/** Removes expired rows: every hour, in short statements, by one server of a database at a time. */
import { type Kysely, sql } from 'kysely'
import { repeat } from '../concurrency/repeat.js'
import { hourMs } from '../time/spans.js'
import type { SystemTables } from './system-tables.js'

/** The most rows that one statement of a sweep removes. */
export const maxSweptRows = 10_000

/** Changes some rows. Resolves with whether there may be more. */
export type SweepPart = (transaction: Kysely<SystemTables>) => Promise<boolean>

/**
 * Removes the rows of a table that match the condition. Locked rows wait for the next sweep.
 *
 * @param most rows of one statement: fewer if others are removed with each
 */
export function removal (table: keyof SystemTables, condition: ReturnType<typeof sql>, most = maxSweptRows): SweepPart {
  const rows = sql.table(table)
  return partOf(
    sql`delete from ${rows} where ctid = any (array(
    select ctid from ${rows} where ${condition} limit ${most} for update skip locked))`,
    most
  )
}

/** Runs the statement, which changes at most so many rows. */
export function partOf (statement: ReturnType<typeof sql>, most = maxSweptRows): SweepPart {
  return async (transaction) => {
    const { numAffectedRows = 0n } = await statement.execute(transaction)
    return Number(numAffectedRows) >= most
  }
}

/** Runs each part until it finds no more; false if another server sweeps under the name now. */
export async function sweep (db: Kysely<SystemTables>, name: string, parts: readonly SweepPart[]): Promise<boolean> {
  for (const part of parts) {
    for (let hasMore = true; hasMore;) {
      // Separate transactions give other statements their turn.
      const found = await db.transaction().execute(async (transaction) => {
        const { rows: [row] } = await sql<{ locked: boolean }>`select pg_try_advisory_xact_lock(hashtextextended(${name}, 0)) as locked`
          .execute(transaction)
        return row?.locked === true ? await part(transaction) : null
      })
      if (found === null) return false
      hasMore = found
    }
  }
  return true
}

/**
 * Runs the work every hour, on the servers of one database at different times; returns the function that ends it and waits for running
 * work.
 *
 * @param onError called with an error of the work, which is repeated an hour later
 */
export function everyHour (work: () => Promise<unknown>, onError: (error: unknown) => void): () => Promise<void> {
  let isFirst = true
  return repeat(async () => {
    if (isFirst) {
      isFirst = false
      return Math.random() * hourMs
    }
    await work().catch(onError)
    return hourMs
  })
}
