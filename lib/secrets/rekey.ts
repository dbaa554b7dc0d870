/** Moves every stored value to the current master key, while servers serve. A value that changes meanwhile is read again. */
import { type Kysely, sql } from 'kysely'
import type { SystemTables } from '../database/system-tables.js'
import { type Owner, tenantRef } from '../identity/tenant-ref.js'
import {
  callbackPlace, headerLength, idempotencyPlace, maxCallback, mfaPlace, type SecretCipher, type SecretPlace,
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
  const sources = tables.map((table) => keyedRows(db, cipher, table))
  let moved = 0
  let unreadable: RekeyResult['unreadable'] = []
  // Values after their grace period are not used any more, and their master key may be lost.
  await db.updateTable('tenantry.secrets').set({ previous_value: null, previous_version: null, previous_valid_until: null })
    .where('previous_valid_until', '<=', sql<Date>`now()`).execute()
  await db.deleteFrom('tenantry.secret_earlier_values').where('valid_until', '<=', sql<Date>`now()`).execute()
  for (let pass = 1; pass <= maxPasses; pass++) {
    const result = await moveRows(sources)
    moved += result.moved
    unreadable = result.unreadable
    if (result.changed > 0) continue
    const counts = await Promise.all(sources.map((source) => source.count()))
    if (counts.reduce((sum, count) => sum + count) <= unreadable.length) return { moved, unreadable, unfinished: false }
  }
  return { moved, unreadable, unfinished: true }
}

/** Moves each row once. `changed`: the rows that changed meanwhile, which the next pass moves. */
async function moveRows (sources: readonly ReturnType<typeof keyedRows>[]) {
  let [moved, changed] = [0, 0]
  const unreadable: RekeyResult['unreadable'][number][] = []
  for (const source of sources) {
    for await (const { tenant, key, move } of source.rows()) {
      try {
        if (await move()) moved++
        else changed++
      } catch (error) {
        if (!(error instanceof SecretUnreadable)) throw error
        unreadable.push({ tenant, key, reason: error.message })
      }
    }
  }
  return { moved, changed, unreadable }
}

const batchSize = 100 // rows; at most 13 MB of values

type Row = Readonly<Record<string, unknown>>

/** A table with encrypted values. */
interface ValueTable {
  readonly name: string
  /** The columns of the key with their types, in the order in which rows are read. */
  readonly key: Readonly<Record<string, 'text' | 'integer' | 'uuid' | 'bytea'>>
  /** The columns with values, and the place that each is encrypted for. */
  readonly values: Readonly<Record<string, (tenant: Owner, row: Row) => SecretPlace>>
  /** Other columns that the places read. */
  readonly versions?: readonly string[]
  /** A condition of rows with values. Default: all rows. */
  readonly only?: string
  /** The values are text in base64. Default: false, and they are bytes. */
  readonly isText?: boolean
}

const tables: readonly ValueTable[] = [
  {
    name: 'tenantry.secrets',
    key: { tenant_id: 'text', key: 'text' },
    values: {
      value: (tenant, { key, version }) => ({ tenant, key: String(key), version: Number(version) }),
      previous_value: (tenant, { key, previous_version: version }) => ({ tenant, key: String(key), version: Number(version) })
    },
    versions: ['version', 'previous_version'],
    only: 'value is not null'
  },
  {
    name: 'tenantry.secret_earlier_values',
    key: { tenant_id: 'text', key: 'text', version: 'integer' },
    values: { value: (tenant, { key, version }) => ({ tenant, key: String(key), version: Number(version) }) }
  },
  {
    name: 'tenantry.user_mfa',
    key: { tenant_id: 'text', user_id: 'text' },
    values: {
      secret: (tenant, { user_id: user, version }) => mfaPlace(tenant, String(user), Number(version)),
      pending_secret: (tenant, { user_id: user, pending_version: version }) => mfaPlace(tenant, String(user), Number(version))
    },
    versions: ['version', 'pending_version'],
    isText: true
  },
  { name: 'tenantry.webhook_secrets', key: { tenant_id: 'text' }, values: { secret: webhookSecretPlace } },
  {
    name: 'tenantry.webhook_deliveries',
    key: { id: 'uuid' },
    values: { sealed: (tenant, { id }) => callbackPlace(tenant, String(id)) },
    // Implies the condition of an index.
    only: `octet_length(sealed) <= ${maxCallback}`
  },
  {
    name: 'tenantry.idempotency_keys',
    key: { tenant_id: 'text', id: 'bytea' },
    values: { content: (tenant, { id }) => idempotencyPlace(tenant, bytesOf(id)) },
    only: 'encrypted'
  }
]

/** The rows with a value under a former master key. */
function keyedRows (
  db: Kysely<SystemTables>,
  cipher: SecretCipher,
  { name, key, values, versions = [], only = 'true', isText = false }: ValueTable
) {
  const table = sql.table(name)
  const keys = sql.join(Object.keys(key).map((column) => sql.ref(column)))
  const named = new Set(['tenant_id', ...Object.keys(key), ...versions, ...Object.keys(values)])
  const columns = sql.join(Array.from(named, (column) => sql.ref(column)))
  // The header has nine bytes, so that base64 has no padding.
  const header = isText ? cipher.header.toString('base64') : cipher.header
  const start = sql.lit(isText ? header.length : headerLength)
  const isOther = Object.keys(values).map((column) => sql`substring(${sql.ref(column)} from 1 for ${start}) <> ${header}`)
  const others = sql`from ${table} where ${sql.raw(only)} and (${sql.join(isOther, sql` or `)})`

  async function read (after: Row | undefined): Promise<readonly Row[]> {
    const last = after === undefined ? [] : Object.entries(key).map(([column, type]) => sql`${after[column]}::${sql.raw(type)}`)
    const behind = last.length === 0 ? sql`` : sql`and (${keys}) > (${sql.join(last)})`
    return (await sql<Row>`select ${columns} ${others} ${behind} order by ${keys} limit ${batchSize}`.execute(db)).rows
  }

  function renewed (value: unknown, place: SecretPlace): Buffer | string | null {
    if (value === null) return null
    const bytes = isText ? Buffer.from(String(value), 'base64') : bytesOf(value)
    // A row may have one value under the current key already.
    const isCurrent = bytes.subarray(0, headerLength).equals(cipher.header)
    const moved = isCurrent ? bytes : cipher.renew(place, bytes)
    return isText ? moved.toString('base64') : moved
  }

  /** Writes the values under the current key; false if the row was changed meanwhile. Throws a SecretUnreadable. */
  async function move (tenant: Owner, row: Row): Promise<boolean> {
    const type = sql.raw(isText ? 'text' : 'bytea')
    const changes = Object.entries(values).map(([column, placeOf]) =>
      sql`${sql.ref(column)} = ${renewed(row[column], placeOf(tenant, row))}::${type}`
    )
    const same = [
      ...Object.entries(key).map(([column, type]) => sql`${sql.ref(column)} = ${row[column]}::${sql.raw(type)}`),
      ...Object.keys(values).map((column) => sql`${sql.ref(column)} is not distinct from ${row[column]}::${type}`)
    ]
    const { numAffectedRows = 0n } = await sql`update ${table} set ${sql.join(changes)} where ${sql.join(same, sql` and `)}`.execute(db)
    return numAffectedRows > 0n
  }

  return {
    /** In the order of their keys, a batch at a time. */
    async * rows () {
      for (let after: Row | undefined, isMore = true; isMore;) {
        const rows = await read(after)
        for (const row of rows) {
          const tenant = tenantRef(String(row['tenant_id']))
          const [place] = Object.values(values).map((placeOf) => placeOf(tenant, row))
          yield { tenant, key: place?.key ?? '', move: () => move(tenant, row) }
        }
        after = rows.at(-1)
        isMore = rows.length === batchSize
      }
    },
    async count (): Promise<number> {
      const { rows: [row] } = await sql<{ count: number }>`select count(*)::float8 as count ${others}`.execute(db)
      return row?.count ?? 0
    }
  }
}

function bytesOf (value: unknown): Buffer {
  if (Buffer.isBuffer(value)) return value
  throw new Error('a stored value is not bytes')
}
