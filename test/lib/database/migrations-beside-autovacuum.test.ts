import pg from 'pg'
import { test } from 'tap'
import { startPrivateServer } from '../../helpers/postgres/private.js'
import { until } from '../../helpers/until.js'
import { openEngine } from './open.js'

test('a migration passes an autovacuum of its table', async (t) => {
  // One row's worth of work, then a long pause: the autovacuum of the table lasts for minutes.
  const server = await startPrivateServer({
    settings: {
      autovacuum: 'on',
      autovacuum_naptime: '1s',
      autovacuum_vacuum_threshold: '1',
      autovacuum_vacuum_cost_delay: '100ms',
      autovacuum_vacuum_cost_limit: '1'
    }
  })
  t.teardown(() => server.remove())
  const connectionString = `postgres://postgres:postgres@127.0.0.1:${server.port}/postgres`
  const client = new pg.Client({ connectionString })
  await client.connect()
  t.teardown(() => client.end())
  await client.query(`create table notes (id int primary key, title text);
    insert into notes select n, repeat('x', 500) from generate_series(1, 50000) n; update notes set title = 'y'`)
  await until('the autovacuum is running', async () => {
    const { rowCount } = await client.query("select from pg_stat_progress_vacuum where relid = 'notes'::regclass")
    return rowCount === 1
  })
  const engine = await openEngine(t, {
    provider: 'postgres',
    migrate: 'manual',
    postgres: { connectionString, pool: { statementTimeoutMs: 5000 } },
    tables: { notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' }, open: { type: 'boolean' } } } }
  })
  const applied = await engine.migration.apply(undefined, () => {})
  t.match(applied.at(-1), /alter_notes$/)
})
