/** The SQL of documents and their text. */
import { type Kysely, sql } from 'kysely'
import { tenantColumn } from '../database/sql.js'
import type { SystemTables, SystemTransaction } from '../database/system-tables.js'
import { lockTenant } from '../database/tenant-lock.js'
import { failure } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import { stringifyJson } from '../json/stringify.js'
import { searchText } from '../queries/comparison.js'
import type {
  ChunkMatch,
  DocumentPage,
  DocumentText,
  Nearest,
  PutOptions,
  StaleDocument,
  StoredDocument,
  VectorDocument,
  VectorQuery,
  VectorSpace
} from './types.js'

const perStatement = 200 // chunks per statement
const maxRanked = 10_000 // chunks with the words, among which the best are selected
const maxRankedNodes = 200_000 // words and operators of the search, times ranked chunks: half a second of PostgreSQL
const maxWords = 100 // of a search: PostgreSQL compares each with all chunks of the tenant
const firstWords = new RegExp(`^(?:[^\\p{L}\\p{M}\\p{N}]*[\\p{L}\\p{M}\\p{N}]+){0,${maxWords}}`, 'u')

/** The vectors of a version that may have no document. */
export interface StaleVectors {
  readonly tenant: Owner
  readonly id: string
  readonly version: string
}

export type DocumentRecords = ReturnType<typeof createDocumentRecords>

export function createDocumentRecords (
  db: Kysely<SystemTables>,
  dbFor: (tenant: Owner) => Kysely<SystemTables>,
  { model, dimensions }: VectorSpace,
  store: string
) {
  const documents = 'tenantry.agent_documents'
  const space = { model, dimensions, store }

  return {
    dbFor,

    /** Replaces the document and its text. `version`: the replaced one, null for a new document. Returns null if it is not `only`. */
    async write (
      writer: SystemTransaction,
      tenant: Owner,
      { id, version, contentType, metadata, chunks }: VectorDocument,
      at: Date,
      { version: only, life }: Pick<PutOptions, 'version' | 'life'>
    ): Promise<{ readonly version: string | null } | null> {
      if (!await lockTenant(writer, tenant, 'shared', life)) throw failure('tenantUnknown')
      const row = { version, content_type: contentType, metadata: stringifyJson(metadata), chunks: chunks.length, ...space }
      const added = only === undefined && await writer.insertInto(documents).values({ tenant_id: tenant, id, ...row, created_at: at })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'id']).doNothing()).returning('id').executeTakeFirst() !== undefined
      let before: string | null = null
      if (!added) {
        const found = await writer.selectFrom(documents).select('version').where('tenant_id', '=', tenant).where('id', '=', id).forUpdate()
          .executeTakeFirst()
        if (found === undefined || (only !== undefined && found.version !== only)) return null
        before = found.version
        await writer.updateTable(documents).set(row).where('tenant_id', '=', tenant).where('id', '=', id).execute()
        await writer.deleteFrom('tenantry.agent_chunks').where('tenant_id', '=', tenant).where('document_id', '=', id).execute()
      }
      for (let start = 0; start < chunks.length; start += perStatement) {
        const part = chunks.slice(start, start + perStatement)
        await sql`insert into tenantry.agent_chunks (tenant_id, document_id, position, content)
          select ${tenant}::text, ${id}::text, position, content
          from unnest(${part.map(({ position }) => position)}::integer[], ${
          part.map(({ content }) => content)
        }::text[]) as given (position, content)`.execute(writer)
      }
      return { version: before }
    },

    /** The removed version; null if there is no such document. */
    async remove (writer: SystemTransaction, tenant: Owner, id: string): Promise<string | null> {
      const row = await writer.deleteFrom(documents).where('tenant_id', '=', tenant).where('id', '=', id).returning('version')
        .executeTakeFirst()
      return row?.version ?? null
    },

    async list (tenant: Owner, { limit, offset, after }: DocumentPage): Promise<{ data: StoredDocument[], total: number }> {
      const all = dbFor(tenant).selectFrom(documents).where('tenant_id', '=', tenant)
      const { total } = await all.select(sql<number>`count(*)::integer`.as('total')).executeTakeFirstOrThrow()
      // The first condition is a range of the index.
      const rest = after === undefined
        ? all
        : all.where('created_at', '<=', after.createdAt).where(({ eb, or }) =>
          or([eb('created_at', '<', after.createdAt), eb('id', '>', after.id)])
        )
      const rows = total <= offset
        ? []
        : await rest.select(['id', 'content_type', 'metadata', 'chunks', 'created_at']).orderBy('created_at', 'desc').orderBy('id')
          .limit(limit).offset(offset).execute()
      return {
        data: rows.map(({ content_type: contentType, created_at: createdAt, ...row }) => ({ ...row, contentType, createdAt })),
        total
      }
    },

    async read (tenant: Owner, id: string): Promise<DocumentText | null> {
      const { rows: [row] } = await sql<
        { version: string, contentType: string, metadata: Record<string, unknown>, contents: string[] | null }
      >`
        select d.version, d.content_type as "contentType", d.metadata, (select json_agg(c.content order by c.position) from tenantry.agent_chunks c
          where c.tenant_id = d.tenant_id and c.document_id = d.id) as contents
        from tenantry.agent_documents d where d.tenant_id = ${tenant} and d.id = ${id}`.execute(dbFor(tenant))
      return row === undefined ? null : { id, ...row, contents: row.contents ?? [] }
    },

    /** The found chunks, in their order, without chunks of outdated versions. */
    async found (tenant: Owner, nearest: readonly Nearest[]): Promise<ChunkMatch[]> {
      if (nearest.length === 0) return []
      const { rows } = await sql<ChunkMatch>`
        select d.id, c.position as chunk, c.content, n.score, d.metadata
        from unnest(${nearest.map(({ id }) => id)}::text[], ${nearest.map(({ chunk }) => chunk)}::integer[],
          ${nearest.map(({ score }) => score)}::float8[], ${
        nearest.map(({ version }) => version ?? null)
      }::uuid[]) with ordinality as n (id, chunk, score, version, place)
        join tenantry.agent_documents d on d.tenant_id = ${tenant} and d.id = n.id and d.version = coalesce(n.version, d.version)
        join tenantry.agent_chunks c on c.tenant_id = ${tenant} and c.document_id = n.id and c.position = n.chunk
        order by n.place`.execute(dbFor(tenant))
      return rows
    },

    async byText (tenant: Owner, text: string, { limit, threshold = 0, filter }: VectorQuery): Promise<ChunkMatch[]> {
      // The lexeme of the tenant; a tenant's id has no character that needs escaping.
      const own = `' ${tenant}'`
      const [search = ''] = firstWords.exec(text) ?? []
      const { rows } = await sql<ChunkMatch>`
        with asked as materialized (select websearch_to_tsquery('simple', ${searchText(search)}) as words),
        matching as materialized (
          select c.document_id, c.position, c.content, c.terms, d.metadata from asked, tenantry.agent_chunks c
          join tenantry.agent_documents d on d.tenant_id = c.tenant_id and d.id = c.document_id
          where c.tenant_id = ${tenant} and numnode(asked.words) > 0 and c.terms @@ (${own}::tsquery && asked.words) and d.metadata @> ${
        stringifyJson(filter)
      }::jsonb
          limit (select least(${maxRanked}::int, ${maxRankedNodes}::int / greatest(numnode(words), 1)) from asked)
        ), ranked as materialized (select m.*, ts_rank_cd(m.terms, asked.words, 32)::float8 as score from matching m, asked)
        select document_id as id, position as chunk, content, score, metadata from ranked
        where score >= ${threshold}::float8 order by score desc, document_id, position limit ${limit}`.execute(dbFor(tenant))
      return rows
    },

    /** Two index reads: documents of another space have a key below or above the keys of this space. */
    async stale (limit: number): Promise<StaleDocument[]> {
      const here = sql`(${model}::text, ${dimensions}::integer, ${store}::text)`
      const { rows } = await sql<StaleDocument>`
        select tenant_id as tenant, id, model, dimensions, store from (
          (select * from tenantry.agent_documents where (model, dimensions, store) < ${here} limit ${limit}) union all
          (select * from tenantry.agent_documents where (model, dimensions, store) > ${here} limit ${limit})) others limit ${limit}`
        .execute(db)
      return rows
    },

    /** Records that an external index may have vectors of the version. */
    async mark (writer: Kysely<SystemTables>, tenant: Owner, id: string, version: string, dueAt: Date): Promise<void> {
      await writer.insertInto('tenantry.agent_stale_vectors').values({ tenant_id: tenant, document_id: id, version, due_at: dueAt })
        .execute()
    },

    /** `dueAt`: false if the mark has another time. */
    async unmark (writer: Kysely<SystemTables>, tenant: Owner, version: string, id: string, dueAt?: Date): Promise<boolean> {
      const row = await writer.deleteFrom('tenantry.agent_stale_vectors').where('tenant_id', '=', tenant).where('document_id', '=', id)
        .where('version', '=', version).$if(dueAt !== undefined, (rest) => rest.where('due_at', '=', dueAt ?? null))
        .returning('version').executeTakeFirst()
      return row !== undefined
    },

    /** Moves a mark that is due to a later time. Returns false if it is gone, or another server has moved it. */
    async postpone (tenant: Owner, version: string, id: string, at: Date, dueAt: Date): Promise<boolean> {
      const row = await dbFor(tenant).updateTable('tenantry.agent_stale_vectors').set({ due_at: dueAt }).where('tenant_id', '=', tenant)
        .where('document_id', '=', id).where('version', '=', version).where('due_at', '<=', at)
        .returning('version').executeTakeFirst()
      return row !== undefined
    },

    /** Marks that are due, the oldest first, of tenants other than `without`. */
    async marked (at: Date, limit: number, without: readonly Owner[]): Promise<StaleVectors[]> {
      return await db.selectFrom('tenantry.agent_stale_vectors').select([tenantColumn, 'document_id as id', 'version'])
        .where('due_at', '<=', at).where('tenant_id', '<>', sql<string>`all(${without}::text[])`).orderBy('due_at').limit(limit).execute()
    }
  }
}
