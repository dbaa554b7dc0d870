/**
 * Moves every stored value to the current master key, while servers serve and write. A value is written only if it is unchanged since it
 * was read; a value that a server has replaced meanwhile is read again.
 */
import { type Kysely, sql } from 'kysely'
import { tenantColumn } from '../database/sql.js'
import type { SystemTables } from '../database/system-tables.js'
import type { Owner } from '../identity/tenant-ref.js'
import {
  callbackPlace, headerLength, idempotencyPlace, mfaPlace, type SecretCipher,
  SecretUnreadable, webhookSecretPlace
} from './cipher.js'

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

const batchSize = 100 // rows; at most 13 MB of values

/** A row with a value under a former master key. */
export interface KeyedRow {
  readonly tenant: Owner
  readonly key: string
  /** Writes its values under the current key; false if the row was changed meanwhile. Throws a SecretUnreadable. */
  readonly move: () => Promise<boolean>
}

export interface KeyedRows {
  /** In the order of their keys, a batch at a time. */
  rows(): AsyncGenerator<KeyedRow>
  count(): Promise<number>
}

export function secretRows (db: Kysely<SystemTables>, cipher: SecretCipher): KeyedRows {
  const isOther = (column: string) =>
    sql`(${sql.ref(column)} is not null and substring(${sql.ref(column)} from 1 for ${sql.lit(headerLength)}) <> ${cipher.header})`
  const others = db.selectFrom('tenantry.secrets')
    .where(sql<boolean>`(value is not null and (${isOther('value')} or ${isOther('previous_value')}))`)

  return {
    rows: () =>
      inBatches<KeyedRow>(async (after) => {
        const rows = await others
          .select([
            tenantColumn,
            'key',
            'version',
            sql<Buffer>`value`.as('value'),
            'previous_value as previousValue',
            'previous_version as previousVersion'
          ])
          .$if(after !== undefined, (query) => query.where(sql<boolean>`(tenant_id, key) > (${after?.tenant}, ${after?.key})`))
          .orderBy('tenant_id').orderBy('key').limit(batchSize).execute()
        return rows.map(({ tenant, key, version, value, previousValue, previousVersion }) => {
          const renewed = (ciphertext: Buffer, version: number) => renew(cipher, { tenant, key, version }, ciphertext)
          return {
            tenant,
            key,
            async move () {
              const { numUpdatedRows } = await db.updateTable('tenantry.secrets')
                .set({
                  value: renewed(value, version),
                  previous_value: previousValue === null || previousVersion === null ? null : renewed(previousValue, previousVersion)
                })
                .where('tenant_id', '=', tenant).where('key', '=', key).where('value', '=', value)
                .where(sql<boolean>`previous_value is not distinct from ${previousValue}`)
                .executeTakeFirstOrThrow()
              return numUpdatedRows > 0n
            }
          }
        })
      }),
    async count () {
      const { count } = await others.select(sql<number>`count(*)::float8`.as('count')).executeTakeFirstOrThrow()
      return count
    }
  }
}

/** Values of earlier rotations that are still accepted. */
export function earlierRows (db: Kysely<SystemTables>, cipher: SecretCipher): KeyedRows {
  const others = db.selectFrom('tenantry.secret_earlier_values')
    .where(sql<boolean>`substring(value from 1 for ${sql.lit(headerLength)}) <> ${cipher.header}`)
  return {
    rows: () =>
      inBatches<KeyedRow & { readonly version: number }>(async (after) => {
        const rows = await others.select([tenantColumn, 'key', 'version', 'value'])
          .$if(after !== undefined, (query) =>
            query.where(sql<boolean>`(tenant_id, key, version) > (${after?.tenant}, ${after?.key}, ${after?.version}::integer)`))
          .orderBy('tenant_id').orderBy('key').orderBy('version').limit(batchSize).execute()
        return rows.map(({ tenant, key, version, value }) => ({
          tenant,
          key,
          version,
          async move () {
            const { numUpdatedRows } = await db.updateTable('tenantry.secret_earlier_values').set({
              value: cipher.renew({ tenant, key, version }, value)
            })
              .where('tenant_id', '=', tenant).where('key', '=', key).where('version', '=', version).where('value', '=', value)
              .executeTakeFirstOrThrow()
            return numUpdatedRows > 0n
          }
        }))
      }),
    async count () {
      const { count } = await others.select(sql<number>`count(*)::float8`.as('count')).executeTakeFirstOrThrow()
      return count
    }
  }
}

/** Secrets of second factors, with the key `mfa/<user>`. */
export function mfaRows (db: Kysely<SystemTables>, cipher: SecretCipher): KeyedRows {
  // Of nine bytes, so that base64 has no padding.
  const header = cipher.header.toString('base64')
  const isOther = (column: string) =>
    sql`(${sql.ref(column)} is not null and left(${sql.ref(column)}, ${sql.lit(header.length)}) <> ${header})`
  const others = db.selectFrom('tenantry.user_mfa').where(sql<boolean>`(${isOther('secret')} or ${isOther('pending_secret')})`)

  return {
    rows: () =>
      inBatches<KeyedRow & { readonly user: string }>(async (after) => {
        const rows = await others
          .select([
            tenantColumn, 'user_id as user', 'secret', 'version', 'pending_secret as pendingSecret',
            'pending_version as pendingVersion'
          ])
          .$if(after !== undefined, (query) => query.where(sql<boolean>`(tenant_id, user_id) > (${after?.tenant}, ${after?.user})`))
          .orderBy('tenant_id').orderBy('user_id').limit(batchSize).execute()
        return rows.map(({ tenant, user, secret, version, pendingSecret, pendingVersion }) => {
          const renewed = (text: string | null, version: number) =>
            text === null ? null : renew(cipher, mfaPlace(tenant, user, version), Buffer.from(text, 'base64')).toString('base64')
          return {
            tenant,
            user,
            key: mfaPlace(tenant, user, version).key,
            async move () {
              const { numUpdatedRows } = await db.updateTable('tenantry.user_mfa')
                .set({ secret: renewed(secret, version), pending_secret: renewed(pendingSecret, pendingVersion) })
                .where('tenant_id', '=', tenant).where('user_id', '=', user)
                .where(sql<boolean>`secret is not distinct from ${secret} and pending_secret is not distinct from ${pendingSecret}`)
                .executeTakeFirstOrThrow()
              return numUpdatedRows > 0n
            }
          }
        })
      }),
    async count () {
      const { count } = await others.select(sql<number>`count(*)::float8`.as('count')).executeTakeFirstOrThrow()
      return count
    }
  }
}

/** Secrets that sign webhooks, with the key `webhooks/secret`. */
export function webhookSecretRows (db: Kysely<SystemTables>, cipher: SecretCipher): KeyedRows {
  const others = db.selectFrom('tenantry.webhook_secrets')
    .where(sql<boolean>`substring(secret from 1 for ${sql.lit(headerLength)}) <> ${cipher.header}`)
  return {
    rows: () =>
      inBatches<KeyedRow>(async (after) => {
        const rows = await others.select([tenantColumn, 'secret'])
          .$if(after !== undefined, (query) => query.where('tenant_id', '>', after?.tenant ?? ''))
          .orderBy('tenant_id').limit(batchSize).execute()
        return rows.map(({ tenant, secret }) => ({
          tenant,
          key: webhookSecretPlace(tenant).key,
          async move () {
            const { numUpdatedRows } = await db.updateTable('tenantry.webhook_secrets').set({
              secret: cipher.renew(webhookSecretPlace(tenant), secret)
            })
              .where('tenant_id', '=', tenant).where('secret', '=', secret).executeTakeFirstOrThrow()
            return numUpdatedRows > 0n
          }
        }))
      }),
    async count () {
      const { count } = await others.select(sql<number>`count(*)::float8`.as('count')).executeTakeFirstOrThrow()
      return count
    }
  }
}

/** Addresses and secrets of callbacks, with the key `webhooks/callback/<delivery>`. */
export function callbackRows (db: Kysely<SystemTables>, cipher: SecretCipher): KeyedRows {
  const others = db.selectFrom('tenantry.webhook_deliveries')
    .where(sql<boolean>`(sealed is not null and substring(sealed from 1 for ${sql.lit(headerLength)}) <> ${cipher.header})`)
  return {
    rows: () =>
      inBatches<KeyedRow & { readonly id: string }>(async (after) => {
        const rows = await others.select([tenantColumn, 'id', sql<Buffer>`sealed`.as('sealed')])
          .$if(after !== undefined, (query) => query.where('id', '>', after?.id ?? ''))
          .orderBy('id').limit(batchSize).execute()
        return rows.map(({ tenant, id, sealed }) => ({
          tenant,
          id,
          key: callbackPlace(tenant, id).key,
          async move () {
            const { numUpdatedRows } = await db.updateTable('tenantry.webhook_deliveries').set({
              sealed: cipher.renew(callbackPlace(tenant, id), sealed)
            })
              .where('id', '=', id).where('sealed', '=', sealed).executeTakeFirstOrThrow()
            return numUpdatedRows > 0n
          }
        }))
      }),
    async count () {
      const { count } = await others.select(sql<number>`count(*)::float8`.as('count')).executeTakeFirstOrThrow()
      return count
    }
  }
}

/** Kept responses, with the key `idempotency/<id>`. */
export function idempotencyRows (db: Kysely<SystemTables>, cipher: SecretCipher): KeyedRows {
  const others = db.selectFrom('tenantry.idempotency_keys')
    .where(sql<boolean>`(encrypted and substring(content from 1 for ${sql.lit(headerLength)}) <> ${cipher.header})`)
  return {
    rows: () =>
      inBatches<KeyedRow & { readonly id: Buffer }>(async (after) => {
        const rows = await others.select([tenantColumn, 'id', 'content'])
          .$if(after !== undefined, (query) => query.where(sql<boolean>`(tenant_id, id) > (${after?.tenant}, ${after?.id}::bytea)`))
          .orderBy('tenant_id').orderBy('id').limit(batchSize).execute()
        return rows.map(({ tenant, id, content }) => ({
          tenant,
          id,
          key: idempotencyPlace(tenant, id).key,
          async move () {
            const { numUpdatedRows } = await db.updateTable('tenantry.idempotency_keys').set({
              content: cipher.renew(idempotencyPlace(tenant, id), content)
            })
              .where('tenant_id', '=', tenant).where('id', '=', id).where('content', '=', content).executeTakeFirstOrThrow()
            return numUpdatedRows > 0n
          }
        }))
      }),
    async count () {
      const { count } = await others.select(sql<number>`count(*)::float8`.as('count')).executeTakeFirstOrThrow()
      return count
    }
  }
}

async function * inBatches<Row extends KeyedRow> (read: (after: Row | undefined) => Promise<Row[]>): AsyncGenerator<KeyedRow> {
  let last: Row | undefined
  for (;;) {
    const rows = await read(last)
    yield * rows
    last = rows.at(-1)
    if (rows.length < batchSize) return
  }
}

/** A row may have one value under the current key already. */
function renew (cipher: SecretCipher, place: Parameters<SecretCipher['renew']>[0], ciphertext: Buffer): Buffer {
  return ciphertext.subarray(0, headerLength).equals(cipher.header) ? ciphertext : cipher.renew(place, ciphertext)
}
