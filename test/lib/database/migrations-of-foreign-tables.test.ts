import { test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine } from './open.js'

test('a declared foreign table gets its missing columns', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create foreign data wrapper elsewhere; create server other foreign data wrapper elsewhere;
      create foreign table notes (id int, title text) server other`
  })
  const engine = await openEngine(t, {
    provider: 'postgres',
    migrate: 'auto',
    postgres: { connectionString },
    tables: { notes: { columns: { id: { type: 'integer' }, title: { type: 'text' }, open: { type: 'boolean' } } } }
  })
  t.ok(engine.catalogue.tables.get('notes')?.columns.has('open'))
  t.strictSame(await engine.pendingMigrations(), [])
})
