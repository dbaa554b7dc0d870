/**
 * Moves every stored value to the current master key, while servers serve and write. Each value is written only where it
 * still is what was read: one that a server has replaced meanwhile is looked at again.
 */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../database/system-tables.js'
import { sql } from 'kysely'
import { headerLength, SecretUnreadable, type SecretCipher } from './cipher.js'

const batchSize = 100 // rows; at most 13 MB of values
const maxPasses = 10 // while servers still write under another key, each pass finds new ones

export interface RekeyResult {
  /** Secrets that were moved. */
  readonly moved: number
  /** Secrets that could not be, and why; nothing of their values. */
  readonly unreadable: readonly { readonly tenant: string, readonly key: string, readonly reason: string }[]
  /** Values were still being written under another key when it gave up. */
  readonly unfinished: boolean
}

interface Row {
  readonly tenant: string
  readonly key: string
  readonly version: number
  readonly value: Buffer
  readonly previousValue: Buffer | null
  readonly previousVersion: number | null
}

/** Can be repeated: what is under the current key is left alone. */
export async function rekeySecrets (db: Kysely<SystemTables>, cipher: SecretCipher): Promise<RekeyResult> {
  const unreadable = new Map<string, RekeyResult['unreadable'][number]>()
  let moved = 0
  // Values whose grace period is over are nobody's; the key of one may be lost.
  await db.updateTable('tenantry.secrets').set({ previous_value: null, previous_version: null, previous_valid_until: null }).where('previous_valid_until', '<=', sql<Date>`now()`).execute()
  for (let pass = 1; pass <= maxPasses; pass++) {
    unreadable.clear()
    let left = 0
    for await (const row of rowsUnderOthers(db, cipher.header)) {
      try {
        if (await move(db, cipher, row)) moved++
        else left++
      } catch (error) {
        if (!(error instanceof SecretUnreadable)) throw error
        unreadable.set(`${row.tenant} ${row.key}`, { tenant: row.tenant, key: row.key, reason: error.message })
      }
    }
    if (left === 0 && !await anyLeft(db, cipher.header, unreadable.size)) return { moved, unreadable: [...unreadable.values()], unfinished: false }
  }
  return { moved, unreadable: [...unreadable.values()], unfinished: true }
}

/** The rows of which one value begins with another header, in the order of their keys, a batch at a time. */
async function * rowsUnderOthers (db: Kysely<SystemTables>, header: Buffer): AsyncGenerator<Row> {
  let last: Row | undefined
  for (;;) {
    const after = last
    const rows: Row[] = await db.selectFrom('tenantry.secrets')
      .select(['tenant_id as tenant', 'key', 'version', sql<Buffer>`value`.as('value'), 'previous_value as previousValue', 'previous_version as previousVersion'])
      .where(underOthers(header))
      .$if(after !== undefined, (query) => query.where(sql<boolean>`(tenant_id, key) > (${after?.tenant}, ${after?.key})`))
      .orderBy('tenant_id').orderBy('key').limit(batchSize).execute()
    yield * rows
    last = rows.at(-1)
    if (rows.length < batchSize) return
  }
}

function underOthers (header: Buffer) {
  const other = (column: string) => sql`(${sql.ref(column)} is not null and substring(${sql.ref(column)} from 1 for ${sql.lit(headerLength)}) <> ${header})`
  return sql<boolean>`(value is not null and (${other('value')} or ${other('previous_value')}))`
}

async function anyLeft (db: Kysely<SystemTables>, header: Buffer, known: number): Promise<boolean> {
  const { count } = await db.selectFrom('tenantry.secrets').select(sql<number>`count(*)::float8`.as('count')).where(underOthers(header)).executeTakeFirstOrThrow()
  return count > known
}

/** false where somebody else has changed the row meanwhile. */
async function move (db: Kysely<SystemTables>, cipher: SecretCipher, { tenant, key, version, value, previousValue, previousVersion }: Row): Promise<boolean> {
  const under = (ciphertext: Buffer, version: number) => ciphertext.subarray(0, headerLength).equals(cipher.header) ? ciphertext : cipher.renew({ tenant, key, version }, ciphertext)
  const { numUpdatedRows } = await db.updateTable('tenantry.secrets')
    .set({ value: under(value, version), previous_value: previousValue === null || previousVersion === null ? null : under(previousValue, previousVersion) })
    .where('tenant_id', '=', tenant).where('key', '=', key).where('value', '=', value)
    .where(sql<boolean>`previous_value is not distinct from ${previousValue}`)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}
