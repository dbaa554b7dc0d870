/** The SQL of idempotency keys. The clock of the database decides, since those of servers may differ. */
import { CompiledQuery, type Kysely, sql } from 'kysely'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, serverRef, type TenantRef } from '../../lib/identity/tenant-ref.js'
import type { KeptResponse } from '../../lib/runtime/idempotency.js'
import { dayMs } from '../../lib/time/spans.js'
import { callerBytes, type KeptKeys, maxAnonymousBytes, maxAnonymousKeys, maxBytes, maxKeys, noted } from './quota.js'

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

/** The row that `take` reads. If there is no key, its columns are null. */
type Taking = { readonly taken: boolean | null } & (FoundKey | { readonly state: null })

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

export function createIdempotencyStore (dbFor: (tenant: TenantRef) => Kysely<SystemTables>) {
  return {
    /**
     * Claims the key for the holder if it is new or expired, or if its request has written nothing and counts as dead. Otherwise returns
     * the existing key; undefined if it is created or removed at this moment.
     */
    async take ({ tenant, id, holder, isAnonymous, encrypted, content }: NewKey): Promise<'taken' | FoundKey | undefined> {
      const { rows: [row] } = await sql<Taking>`with taken as (
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
      return row.state === null ? undefined : row
    },

    /** Runs one of the statements above after the write. */
    async run ({ tenant }: Holding, { text, values }: IdempotencyClaim['mark']): Promise<void> {
      await dbFor(tenant).executeQuery(CompiledQuery.raw(text, [...values]))
    },

    /** Frees the key of a request that has ended and has written nothing; true. If the request has written, ends its lease; false. */
    async release ({ tenant, id, holder }: Holding): Promise<boolean> {
      const held = sql`tenant_id = ${tenant} and id = ${id}::bytea and holder = ${holder}::uuid`
      const { rows } = await sql`with freed as (delete from tenantry.idempotency_keys where ${held} and state = 'running' returning 1),
        ended as (update tenantry.idempotency_keys set leased_until = now() where ${held} and state = 'written')
        select from freed`.execute(dbFor(tenant))
      return rows.length > 0
    },

    async kept (tenant: Owner): Promise<{ callers: KeptKeys, anonymous: KeptKeys }> {
      const { rows } = await sql<{ stranger: boolean, keys: number, bytes: number, noted: Record<string, [number, number]> | null }>`
        with callers as (
          select stranger, substr(id, 1, ${callerBytes}::int) as caller, count(*) as keys, coalesce(sum(octet_length(content)), 0) as bytes
          from tenantry.idempotency_keys where tenant_id = ${tenant} and expires_at > now() group by 1, 2
        )
        select stranger, sum(keys)::int as keys, sum(bytes)::float8 as bytes,
          jsonb_object_agg(encode(caller, 'hex'), jsonb_build_array(keys, bytes)) filter (
            where keys >= ${noted}::float8 * case when stranger then ${maxAnonymousKeys}::int else ${maxKeys}::int end
              or bytes >= ${noted}::float8 * case when stranger then ${maxAnonymousBytes}::int else ${maxBytes}::int end
          ) as noted
        from callers group by stranger`.execute(dbFor(tenant))
      const kept = (anonymous: boolean): KeptKeys => {
        const { keys = 0, bytes = 0, noted = null } = rows.find(({ stranger }) => stranger === anonymous) ?? {}
        const ofCallers = Object.entries(noted ?? {}).map(([caller, [keys, bytes]]) => [caller, { keys, bytes }] as const)
        return { keys, bytes, ofCallers: new Map(ofCallers) }
      }
      return { callers: kept(false), anonymous: kept(true) }
    },

    async sweep (): Promise<void> {
      await sweep(dbFor(serverRef), 'tenantry.idempotency_keys.sweep', [removal(table, sql`expires_at <= now()`)])
    }
  }
}

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>
