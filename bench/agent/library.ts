/** Documents of many tenants, inserted by SQL in the form of uploads, and the true nearest neighbours of a text. */
import type pg from 'pg'
import { vectorOf } from './provider.js'

const perDocument = 10 // chunks
const perStatement = 1000 // chunks

export interface Library {
  readonly tenants: ReadonlyArray<{ readonly id: string, readonly chunks: number }>
}

/**
 * Chunks of tenants whose sizes are skewed like those of customers: a few hold a tenth of all, most hold few. The vector index is built
 * after all inserts, which is ten times faster.
 */
export async function fillLibrary (
  client: pg.Client,
  { tenants, chunks, dimensions }: { readonly tenants: number, readonly chunks: number, readonly dimensions: number }
): Promise<Library> {
  const sizes = sizesOf(tenants, chunks)
  const table = `tenantry.agent_vectors_${dimensions}`
  const { rows: [index] } = await client.query<{ name: string, definition: string }>(
    'select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index join pg_class i on i.oid = indexrelid join pg_am a on a.oid = relam where indrelid = $1::regclass and amname = $2',
    [table, 'hnsw']
  )
  if (index === undefined) throw new Error('the vector table has no index')
  await client.query(`drop index ${index.name}`)
  const library = sizes.map((size, number) => ({ id: `library-${number}`, chunks: size }))
  await client.query("insert into tenantry.tenants (id, name, plan) select id, id, 'open' from unnest($1::text[]) as id", [
    library.map(({ id }) => id)
  ])
  let waiting: Array<readonly [tenant: string, document: string, position: number, content: string]> = []
  for (const { id, chunks: size } of library) {
    for (let chunk = 0; chunk < size; chunk++) {
      waiting.push([id, `document-${Math.floor(chunk / perDocument)}`, chunk % perDocument, textOf(id, chunk)])
      if (waiting.length < perStatement) continue
      await insert(client, table, dimensions, waiting)
      waiting = []
    }
  }
  await insert(client, table, dimensions, waiting)
  await client.query("set maintenance_work_mem = '1GB'")
  await client.query(index.definition)
  await client.query('vacuum (analyze) tenantry.agent_documents, tenantry.agent_chunks')
  await client.query(`vacuum (analyze) ${table}`)
  return { tenants: library }
}

export function textOf (tenant: string, chunk: number): string {
  return `Chunk ${chunk} of ${tenant}`
}

/** Integers of at least 10 with the given sum, which decrease like 1 / n. */
function sizesOf (count: number, sum: number): number[] {
  const least = 10
  const shares = Array.from({ length: count }, (_, index) => 1 / (index + 1))
  const whole = shares.reduce((total, share) => total + share, 0)
  const sizes = shares.map((share) => least + Math.floor(share / whole * (sum - least * count)))
  sizes[0] = (sizes[0] ?? 0) + sum - sizes.reduce((total, size) => total + size, 0)
  return sizes
}

async function insert (
  client: pg.Client,
  table: string,
  dimensions: number,
  rows: ReadonlyArray<readonly [tenant: string, document: string, position: number, content: string]>
): Promise<void> {
  const column = (index: 0 | 1 | 2 | 3) => rows.map((row) => row[index])
  await client.query(
    `insert into tenantry.agent_documents (tenant_id, id, version, content_type, metadata, chunks, model, dimensions, store, created_at)
    select distinct tenant, document, gen_random_uuid(), 'text/plain', '{}'::jsonb, 10, 'vectors', $3::int, 'pgvector', now() from unnest($1::text[], $2::text[]) as d (tenant, document) on conflict do nothing`,
    [column(0), column(1), dimensions]
  )
  await client.query(
    'insert into tenantry.agent_chunks (tenant_id, document_id, position, content) select * from unnest($1::text[], $2::text[], $3::int[], $4::text[])',
    [column(0), column(1), column(2), column(3)]
  )
  await client.query(
    `insert into ${table} (tenant_id, document_id, position, model, embedding) select tenant, document, position, 'vectors', embedding::vector(${dimensions})
    from unnest($1::text[], $2::text[], $3::int[], $4::text[]) as v (tenant, document, position, embedding)`,
    [
      column(0),
      column(1),
      column(2),
      rows.map((row) => JSON.stringify(vectorOf(row[3], dimensions)))
    ]
  )
}

/** The texts of the tenant's nearest chunks, found by comparing all of them. */
export async function nearestTexts (
  client: pg.Client,
  tenant: string,
  text: string,
  dimensions: number,
  limit: number
): Promise<Set<string>> {
  const { rows } = await client.query<{ content: string }>(
    `select content from (
      select document_id, position, embedding <=> $2::vector as distance from tenantry.agent_vectors_${dimensions} where tenant_id = $1 order by (embedding <=> $2::vector) + 0 limit $3) n
    join tenantry.agent_chunks c on c.tenant_id = $1 and c.document_id = n.document_id and c.position = n.position`,
    [tenant, JSON.stringify(vectorOf(text, dimensions)), limit]
  )
  return new Set(rows.map(({ content }) => content))
}
