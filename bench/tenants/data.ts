/** Tenants in bulk: rows in `tenantry.tenants` and documents, inserted by SQL in the form that thousands of saves would leave. */
import pg from 'pg'
import type { TenantDocument } from './document.js'

const batch = 500 // tenants in a statement

/** The id of the tenant with this number. */
export function tenantId (index: number): string {
  return `bench-${index}`
}

export function numberOfTenant (id: string): number {
  return Number(id.slice('bench-'.length))
}

/** Creates the missing tenants and their documents. */
export async function insertTenants (
  connectionString: string,
  count: number,
  documentOf: (index: number) => TenantDocument
): Promise<void> {
  await withClient(connectionString, async (client) => {
    for (let start = 0; start < count; start += batch) {
      const indexes = Array.from({ length: Math.min(batch, count - start) }, (_, offset) => start + offset)
      const ids = indexes.map(tenantId)
      await client.query(
        "insert into tenantry.tenants (id, name, plan) select id, id, 'enterprise' from unnest($1::text[]) as id on conflict do nothing",
        [ids]
      )
      await client.query(
        "insert into tenantry.tenant_configs (tenant_id, version, document, created_by) select id, 1, document::json, 'bench' from unnest($1::text[], $2::text[]) as t (id, document) on conflict do nothing",
        [ids, indexes.map((index) => JSON.stringify(documentOf(index)))]
      )
    }
    await client.query('analyze tenantry.tenants; analyze tenantry.tenant_configs')
  })
}

/** The same number of rows for each tenant. */
export async function insertArticles (connectionString: string, count: number, rows: number): Promise<void> {
  await withClient(connectionString, async (client) => {
    await client.query(
      `
      insert into articles (tenant_id, title, body, status, views)
      select 'bench-' || t, 'Article ' || n, repeat('Some text. ', 18), 'draft', n from generate_series(0, $1::int - 1) t, generate_series(1, $2::int) n`,
      [count, rows]
    )
    await client.query('vacuum (analyze, freeze) articles')
  })
}

/** A connection for one piece of work. */
export async function withClient<T> (connectionString: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
