/** The SQL of idempotency keys. The clock of the database decides, since those of servers may differ. */
import { CompiledQuery, type Kysely, sql } from 'kysely'
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure, retryIn } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import type { KeptResponse } from '../../lib/runtime/idempotency.js'
import { dayMs } from '../../lib/time/spans.js'

/** One request under a key. */
export interface Holding {
  readonly tenant: Owner
  readonly id: Buffer
  readonly holder: string
}

interface NewKey extends Holding {
  readonly isAnonymous: boolean
  readonly encrypted: boolean
  readonly content: Buffer
}

/** A key of another current or earlier request. */
export interface FoundKey extends Pick<SystemTables['tenantry.idempotency_keys'], 'state' | 'encrypted' | 'content' | 'status'> {
  readonly headers: Readonly<Record<string, string>> | null
  /** Whether its request may still run. */
  readonly isLeased: boolean
}

/** The keys and bytes that a tenant has stored. */
interface KeyTotal {
  keys: number
  bytes: number
}

const table = 'tenantry.idempotency_keys'
const leaseMs = 120_000 // ms for a running request; longer than any request that writes
const own = 'tenant_id = $1 and id = $2 and holder = $3::uuid'

/** Marks the claim as written, in the transaction of the write. */
export function markStatement ({ tenant, id, holder }: Holding): IdempotencyClaim['mark'] {
  return {
    text: `update ${table} set state = 'written' where ${own} and state in ('running', 'written') returning true as marked`,
    values: [tenant, id, holder]
  }
}

/** Stores the response: in the transaction of the write, or after it. */
export function responseStatement (
  { tenant, id, holder }: Holding,
  { status, headers }: KeptResponse,
  content: Buffer
): IdempotencyClaim['mark'] {
  return {
    text:
      `update ${table} set state = 'answered', status = $4, headers = $5::jsonb, content = $6 where ${own} and state in ('running', 'written') returning true as marked`,
    values: [tenant, id, holder, status, JSON.stringify(headers), content]
  }
}

/** Marks the claim of a request that has ended as written, without its response. */
export function lostStatement ({ tenant, id, holder }: Holding): IdempotencyClaim['mark'] {
  return {
    text: `update ${table} set state = 'written', leased_until = now() where ${own} and state in ('running', 'written')`,
    values: [tenant, id, holder]
  }
}

export function createIdempotencyStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  return {
    /**
     * Claims the key for the holder if it is new or expired, or if its request has written nothing and counts as dead. Otherwise returns
     * the existing key; undefined if it is created or removed at this moment.
     */
    async take ({ tenant, id, holder, isAnonymous, encrypted, content }: NewKey): Promise<'taken' | FoundKey | undefined> {
      const { rows: [row] } = await sql<FoundKey & { readonly taken: boolean | null }>`with taken as (
          insert into tenantry.idempotency_keys as k (tenant_id, id, holder, state, stranger, encrypted, content, leased_until, expires_at)
          select ${tenant}, ${id}::bytea, ${holder}::uuid, 'running', ${isAnonymous}::boolean, ${encrypted}::boolean, ${content}::bytea,
            now() + ${leaseMs} * interval '1 ms', now() + ${dayMs} * interval '1 ms'
          on conflict (tenant_id, id) do update set holder = excluded.holder, state = excluded.state, stranger = excluded.stranger, encrypted = excluded.encrypted,
            content = excluded.content, status = null, headers = null, leased_until = excluded.leased_until, expires_at = excluded.expires_at
          where k.expires_at <= now() or (k.state = 'running' and k.leased_until <= now())
          returning true as taken
        )
        select (select taken from taken) as taken, k.state, k.encrypted, k.content, k.status, k.headers, k.leased_until > now() as "isLeased"
        from (select 1) as one left join tenantry.idempotency_keys k on k.tenant_id = ${tenant} and k.id = ${id}::bytea`.execute(
        dbFor(tenant)
      )
      if (row === undefined) return undefined
      if (row.taken === true) return 'taken'
      // The left join found no row.
      return Object(row).state === null ? undefined : row
    },

    /** Runs one of the statements above after the write. */
    async run ({ tenant }: Holding, { text, values }: IdempotencyClaim['mark']): Promise<void> {
      await dbFor(tenant).executeQuery(CompiledQuery.raw(text, [...values]))
    },

    /** Frees the key of a request that has ended and has written nothing. If it has written, ends its lease. */
    async release ({ tenant, id, holder }: Holding): Promise<void> {
      const held = sql`tenant_id = ${tenant} and id = ${id}::bytea and holder = ${holder}::uuid`
      await sql`with freed as (delete from tenantry.idempotency_keys where ${held} and state = 'running')
        update tenantry.idempotency_keys set leased_until = now() where ${held} and state = 'written'`.execute(dbFor(tenant))
    },

    async kept (tenant: Owner) {
      const { rows } = await sql<
        KeyTotal & { stranger: boolean }
      >`select stranger, count(*)::int as keys, coalesce(sum(octet_length(content)), 0)::float8 as bytes
        from tenantry.idempotency_keys where tenant_id = ${tenant} and expires_at > now() group by stranger`.execute(dbFor(tenant))
      const totalOf = (anonymous: boolean): KeyTotal => rows.find(({ stranger }) => stranger === anonymous) ?? { keys: 0, bytes: 0 }
      return { callers: totalOf(false), anonymous: totalOf(true) }
    },

    async sweep (): Promise<void> {
      await sweep(dbFor(platformRef), 'tenantry.idempotency_keys.sweep', [removal(table, sql`expires_at <= now()`)])
    }
  }
}

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>

export const maxKeys = 10_000 // of a tenant, by callers with credentials
export const maxBytes = 33_554_432
// Callers without credentials have bounds of their own, so that they cannot use up those of others.
export const maxAnonymousKeys = 1000
export const maxAnonymousBytes = 4_194_304

const maxAge = 10_000 // ms after which the figures are read again
const maxTenants = 1000 // tenants with figures in memory
const retryAfter = 60 // s

export function createKeyQuota (store: Pick<IdempotencyStore, 'kept'>, now?: () => number) {
  const known = createAsyncCache<Awaited<ReturnType<IdempotencyStore['kept']>>, Owner>({
    max: maxTenants,
    maxAgeMs: maxAge,
    load: (tenant) => store.kept(tenant),
    ...now !== undefined && { now }
  })

  return {
    /** Counts the key. Throws `idempotencyFull` beyond the limit. */
    async take (tenant: Owner, isAnonymous: boolean): Promise<void> {
      const { callers, anonymous } = await known.get(tenant)
      const total = isAnonymous ? anonymous : callers
      const [keys, bytes] = isAnonymous ? [maxAnonymousKeys, maxAnonymousBytes] : [maxKeys, maxBytes]
      if (total.keys >= keys || total.bytes >= bytes) throw failure('idempotencyFull', retryIn(retryAfter))
      total.keys++
    },
    /** Counts bytes of a stored response. */
    keep (tenant: Owner, isAnonymous: boolean, bytes: number): void {
      const figures = known.peek(tenant)
      if (figures !== undefined) figures[isAnonymous ? 'anonymous' : 'callers'].bytes += bytes
    }
  }
}
