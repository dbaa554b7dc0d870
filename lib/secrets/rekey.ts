/**
 * Moves every stored value to the current master key, while servers serve and write. A value is written only if it is unchanged since it
 * was read; a value that a server has replaced meanwhile is read again.
 */
import type { Owner } from '../identity/tenant-ref.js'
import type { SystemTables } from '../database/system-tables.js'
import { sql, type Kysely } from 'kysely'
import { SecretUnreadable, type SecretCipher } from './cipher.js'
import { callbackRows, earlierRows, idempotencyRows, mfaRows, secretRows, webhookSecretRows } from './rekey-rows.js'

const maxPasses = 10 // each pass finds new values while servers still write under another key

export interface RekeyResult {
  /** The number of moved secrets, including those of second factors and outbound webhooks. */
  readonly moved: number
  /**
   * Secrets that could not be moved, with the reason and without their values. Second factors have the key `mfa/<user>`, and for the
   * platform's users the empty tenant; webhooks have `webhooks/...`, kept responses `idempotency/...`.
   */
  readonly unreadable: readonly { readonly tenant: Owner, readonly key: string, readonly reason: string }[]
  /** Other processes were still writing values under another key when it gave up. */
  readonly unfinished: boolean
}

/** Can be repeated: values under the current key are left alone. */
export async function rekeySecrets (db: Kysely<SystemTables>, cipher: SecretCipher): Promise<RekeyResult> {
  let unreadable: RekeyResult['unreadable'][number][] = []
  const sources = [
    secretRows(db, cipher),
    earlierRows(db, cipher),
    mfaRows(db, cipher),
    webhookSecretRows(db, cipher),
    callbackRows(db, cipher),
    idempotencyRows(db, cipher)
  ]
  let moved = 0
  // Values after their grace period are not used any more, and their master key may be lost.
  await db.updateTable('tenantry.secrets').set({ previous_value: null, previous_version: null, previous_valid_until: null })
    .where('previous_valid_until', '<=', sql<Date>`now()`).execute()
  await db.deleteFrom('tenantry.secret_earlier_values').where('valid_until', '<=', sql<Date>`now()`).execute()
  for (let pass = 1; pass <= maxPasses; pass++) {
    unreadable = []
    let left = 0
    for (const source of sources) {
      for await (const { tenant, key, move } of source.rows()) {
        try {
          if (await move()) moved++
          else left++
        } catch (error) {
          if (!(error instanceof SecretUnreadable)) throw error
          unreadable.push({ tenant, key, reason: error.message })
        }
      }
    }
    if (left > 0) continue
    const counts = await Promise.all(sources.map((source) => source.count()))
    if (counts.reduce((sum, count) => sum + count) <= unreadable.length) return { moved, unreadable, unfinished: false }
  }
  return { moved, unreadable, unfinished: true }
}
