/**
 * Vectors in the SQL database, in its extension vector (pgvector). A tenant with few chunks is searched exactly: an index of
 * all tenants' vectors with a filter finds few of its rows, or none. Larger tenants use the index, which goes on
 * (`iterative_scan`) until it has found enough of them.
 */
import { platformRef, type Owner } from '../identity/tenant-ref.js'
import type { Kysely, RawBuilder } from 'kysely'
import type { SystemTables } from '../database/system-tables.js'
import type { Nearest, VectorIndex, VectorQuery, VectorSpace } from './types.js'
import { sql } from 'kysely'
import { vectorTableName } from '../database/document-tables.js'

export const exactUpTo = 2000 // chunks of a tenant

const candidates = '100' // of each step through the index; pgvector's own 40 miss more of the nearest chunks
const perStatement = 100 // vectors of 1,536 numbers have 20 kB as text

export interface PgvectorParts {
  readonly space: VectorSpace
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  /** Chunks of a tenant that are searched exactly. Default: 2,000. */
  readonly exactUpTo?: number | undefined
}

interface NearestRow {
  readonly id: string
  readonly chunk: number
  readonly distance: number
}

export function createPgvectorIndex ({ space, dbFor, exactUpTo: most = exactUpTo }: PgvectorParts): VectorIndex {
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
          JSON.stringify(filter)
        }::jsonb)`
    }
    order by distance limit ${limit}`

  async function isLarge (tenant: Owner): Promise<boolean> {
    const { rows: [row] } = await sql<{ count: number }>`
      select count(*)::integer as count from (select from ${table} v where v.tenant_id = ${tenant} limit ${most + 1}) counted`.execute(
      dbFor(tenant)
    )
    return (row?.count ?? 0) > most
  }

  /** An index does not fit the expression that is sorted by. */
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
    space,
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
      // The index gives up after 20,000 rows, of which a filter may have left few.
      if (rows === null || rows.length < query.limit) rows = await exact(tenant, given, query)
      const { threshold = -Infinity } = query
      return rows.map(({ id, chunk, distance }): Nearest => ({ id, chunk, score: Math.min(1, 1 - distance) })).filter(({ score }) =>
        score >= threshold
      )
    },

    async removeAll () {},

    async check () {
      await sql`select from ${table} limit 1`.execute(dbFor(platformRef))
    },

    async close () {}
  }
}
