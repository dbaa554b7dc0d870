import pg from 'pg'
import { type Test, test } from 'tap'
import type { EngineOptions } from '../../../lib/database/index.js'
import { startPrivateServer } from '../../helpers/postgres/private.js'
import { until } from '../../helpers/until.js'
import { openEngine } from './open.js'

const notes = { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } as const
const authors = { columns: { id: { type: 'integer', primaryKey: true } } } as const
const patience = 10_000 // ms, twice the statement timeout
const content = "select n, repeat('x', 500) from generate_series(1, 50000) n"

test('a migration passes an autovacuum of its table', async (t) => {
  const { open, run, vacuum } = await startServer(t)
  await run(`create table notes (id int primary key, title text); insert into notes ${content}`)
  await vacuum('notes', "title = 'y'")
  const engine = await open({ notes: { columns: { ...notes, open: { type: 'boolean' } } } })
  const applied = await engine.migration.apply(undefined, () => {})
  t.match(applied.at(-1), /alter_notes$/)
})

test('a migration passes an autovacuum of a table to which a new table or column refers', async (t) => {
  const { open, run, vacuum } = await startServer(t)
  await run(`create table authors (id int primary key, title text); insert into authors ${content};
    create table notes (id int primary key)`)
  await vacuum('authors', "title = 'y'")
  const reference = { type: 'integer', references: 'authors.id' } as const
  const engine = await open({
    authors,
    notes: { columns: { id: notes.id, author_id: reference } },
    reviews: { columns: { id: notes.id, author_id: reference } }
  })
  const applied = await engine.migration.apply(undefined, () => {})
  t.match(applied.at(-1), /create_reviews$/)
  for (const table of ['notes', 'reviews']) t.match(engine.catalogue.tables.get(table), { foreignKeys: [{ referencedTable: 'authors' }] })
})

test("a migration passes an autovacuum of the server's own table to which a new one refers", async (t) => {
  const { open, run, vacuum } = await startServer(t)
  await (await open({})).migration.apply()
  await run(`drop table tenantry.refresh_tokens; delete from tenantry.migrations where name ~ '_(refresh_tokens|session_token_ends)$';
    insert into tenantry.users (tenant_id, id, email, password_hash, role)
    select '', gen_random_uuid(), n || '@example.com', '$argon2id$' || repeat('x', 500), 'user' from generate_series(1, 50000) n`)
  await vacuum('tenantry.users', "role = 'admin'")
  const engine = await open({})
  const applied = await engine.migration.apply(undefined, () => {})
  t.match(applied, [/refresh_tokens$/, /session_token_ends$/])
})

/** A server for one test, whose autovacuum leaves all tables alone but one. */
async function startServer (t: Test) {
  const settings = { autovacuum: 'on', autovacuum_naptime: '1s', autovacuum_vacuum_threshold: '1000000' }
  const server = await startPrivateServer({ settings })
  t.teardown(() => server.remove())
  const connectionString = `postgres://postgres:postgres@127.0.0.1:${server.port}/postgres`
  const client = new pg.Client({ connectionString })
  await client.connect()
  t.teardown(() => client.end())
  return {
    run: (sql: string) => client.query(sql),
    open: (tables: EngineOptions['tables']) =>
      openEngine(t, {
        provider: 'postgres',
        migrate: 'manual',
        postgres: { connectionString, pool: { statementTimeoutMs: patience / 2 } },
        tables
      }),
    /** Resolves when an autovacuum of the table runs. It does one row's worth of work between long pauses, and so lasts for minutes. */
    vacuum: async (table: string, change: string) => {
      await client.query(`alter table ${table} set (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1); update ${table} set ${change}`)
      await until('the autovacuum is running', async () => {
        const { rowCount } = await client.query(`select from pg_stat_progress_vacuum where relid = '${table}'::regclass`)
        return rowCount === 1
      })
    }
  }
}
