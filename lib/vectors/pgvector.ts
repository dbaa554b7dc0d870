/**
 * Vectors in the SQL database, in its extension vector (pgvector). A tenant with few chunks is searched exactly, because a
 * filtered search in the index of all tenants' vectors would find few of its rows, or none. Larger tenants use the index, which
 * continues (`iterative_scan`) until it has found enough rows.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { vectorTableName } from '../database/document-tables.js'
import type { SystemTables } from '../database/system-tables.js'
import { type Owner, platformRef } from '../identity/tenant-ref.js'
import { stringifyJson } from '../json/stringify.js'
import type { Nearest, VectorIndex, VectorQuery, VectorSpace } from './types.js'

const candidates = '100' // per step through the index; pgvector's default of 40 misses more of the nearest chunks
const perStatement = 100 // vectors per statement; a vector of 1,536 numbers has 20 kB as text

interface PgvectorParts {
  readonly space: VectorSpace
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  /** The number of a tenant's chunks up to which the search is exact. Default: 2,000. */
  readonly exactUpTo?: number | undefined
}

interface NearestRow {
  readonly id: string
  readonly chunk: number
  readonly distance: number
}

export function createPgvectorIndex ({ space, dbFor, exactUpTo = 2000 }: PgvectorParts): VectorIndex {
  const { model, dimensions } = space
  const table = sql.table(vectorTableName(dimensions))
  const type = sql.raw(`vector(${dimensions})`)
  const textOf = (embedding: readonly number[]) => JSON.stringify(embedding)

  const rowsOf = (tenant: Owner, distance: RawBuilder<unknown>, { limit, filter }: VectorQuery) =>
    sql<NearestRow>`
    select v.document_id as id, v.position as chunk, ${distance} as distance from ${table} v
    where v.tenant_id = ${tenant} and v.model = ${model} ${
      Object.keys(filter).length === 0
        ? sql``
        : sql`and exists (select from tenantry.agent_documents d where d.tenant_id = v.tenant_id and d.id = v.document_id and d.metadata @> ${
          stringifyJson(filter)
        }::jsonb)`
    }
    order by distance limit ${limit}`

  async function isLarge (tenant: Owner): Promise<boolean> {
    const { rows: [row] } = await sql<{ count: number }>`
      select count(*)::integer as count from (select from ${table} v where v.tenant_id = ${tenant} limit ${exactUpTo + 1}) counted`.execute(
      dbFor(tenant)
    )
    return (row?.count ?? 0) > exactUpTo
  }

  /** The expression in `order by` prevents the use of the index. */
  async function exact (tenant: Owner, given: RawBuilder<unknown>, query: VectorQuery): Promise<readonly NearestRow[]> {
    return (await rowsOf(tenant, sql`(v.embedding <=> ${given}) + 0`, query).execute(dbFor(tenant))).rows
  }

  async function indexed (tenant: Owner, given: RawBuilder<unknown>, query: VectorQuery): Promise<readonly NearestRow[]> {
    return await dbFor(tenant).transaction().execute(async (transaction) => {
      await sql`select set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', ${candidates}, true)`
        .execute(transaction)
      return (await rowsOf(tenant, sql`v.embedding <=> ${given}`, query).execute(transaction)).rows
    })
  }

  return {
    name: 'pgvector',
    external: false,

    async write (tenant, { id, chunks }, transaction) {
      for (let start = 0; start < chunks.length; start += perStatement) {
        const part = chunks.slice(start, start + perStatement)
        await sql`insert into ${table} (tenant_id, document_id, position, model, embedding)
          select ${tenant}::text, ${id}::text, position, ${model}::text, embedding::${type}
          from unnest(${part.map(({ position }) => position)}::integer[], ${
          part.map(({ embedding }) => textOf(embedding))
        }::text[]) as given (position, embedding)`
          .execute(transaction ?? dbFor(tenant))
      }
    },

    async discard () {},

    async nearest (tenant, embedding, query) {
      const given = sql`${textOf(embedding)}::${type}`
      let rows = await isLarge(tenant) ? await indexed(tenant, given, query) : null
      // The index gives up after 20,000 rows, and the filter may have removed most of them.
      if (rows === null || rows.length < query.limit) rows = await exact(tenant, given, query)
      const { threshold = -Infinity } = query
      return rows.map(({ id, chunk, distance }): Nearest => ({ id, chunk, score: Math.min(1, 1 - distance) })).filter(({ score }) =>
        score >= threshold
      )
    },

    async removeAll () {},

    async check () {
      await sql`select from ${table} limit 1`.execute(dbFor(platformRef))
    }
  }
}
