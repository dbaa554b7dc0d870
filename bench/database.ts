/** The benchmark's database: PostgreSQL from npm with the settings of a small production server, and its table. */
import pg from 'pg'
import { startPrivateServer } from '../test/helpers/postgres/private.js'
import { postgresCpu } from './postgres-cpu.js'

/** Rows of the table, spread evenly over the tenants. */
export const rowCount = 10_000
export const tenantCount = 10

export const tenants: readonly string[] = Array.from({ length: tenantCount }, (_, index) => `tenant-${index}`)

/** The title of the rows that the insert case adds, which are removed after each round. */
export const insertedTitle = 'A row of the insert case'

const settings = {
  shared_buffers: '256MB',
  effective_cache_size: '1GB',
  work_mem: '8MB',
  max_connections: '60',
  random_page_cost: '1.1',
  timezone: 'UTC'
}

export interface BenchDatabase {
  readonly connectionString: string
  /** Some ids of each tenant's rows. */
  readonly ids: ReadonlyMap<string, readonly string[]>
  /** CPU time of all PostgreSQL processes, in microseconds; null if the system does not report it. */
  cpu(): Promise<number | null>
  /** Removes the rows that the insert case added, so that every round starts with the same table. */
  reset(): Promise<void>
  stop(): Promise<void>
}

export async function startDatabase (): Promise<BenchDatabase> {
  // Its supervisor ends it when this process ends, even after a crash.
  const server = await startPrivateServer({ settings })
  const connectionString = `postgres://postgres:postgres@127.0.0.1:${server.port}/postgres`
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query(`
    create table articles (
      id uuid primary key default gen_random_uuid(),
      tenant_id text not null,
      title text not null,
      body text not null,
      status text not null default 'draft',
      views integer not null default 0,
      created_at timestamptz not null default now()
    )`)
  await client.query(`
    insert into articles (tenant_id, title, body, status, views, created_at)
    select 'tenant-' || n % ${tenantCount},
      'Article number ' || n,
      left(repeat('Some text of article "' || n || '", with a line
break. ', 6), 200),
      (array['draft', 'pending_review', 'published'])[1 + n % 3],
      n % 1000,
      timestamptz '2026-01-01' + n * interval '1 minute' + n % 1000 * interval '1 millisecond'
    from generate_series(1, ${rowCount}) n`)
  await client.query('create index on articles (tenant_id, created_at desc, id)')
  await settle(client)
  const { rows } = await client.query<{ tenant_id: string, ids: string[] }>(`
    select tenant_id, (array_agg(id::text order by created_at))[1:200] as ids from articles group by tenant_id`)
  const { rows: [own] } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return {
    connectionString,
    ids: new Map(rows.map(row => [row.tenant_id, row.ids])),
    cpu: async () => own === undefined ? null : await postgresCpu(own.pid),
    async reset () {
      await client.query('delete from articles where title = $1', [insertedTitle])
      await settle(client)
    },
    async stop () {
      await client.end()
      await server.remove()
    }
  }
}

/**
 * Makes the table look long-lived: all its pages are marked visible, so a count reads only the index. One vacuum after the inserts does not
 * always do that, and the cost of a count must not depend on it.
 */
async function settle (client: pg.Client): Promise<void> {
  for (let attempt = 0; attempt < 10; attempt++) {
    await client.query('vacuum (analyze, freeze) articles')
    const { rows: [table] } = await client.query<{ settled: boolean }>(
      "select relallvisible > 0.9 * relpages as settled from pg_class where oid = 'articles'::regclass"
    )
    if (table?.settled === true) return
  }
  throw new Error("cannot vacuum the benchmark's table: is another session in a transaction?")
}
