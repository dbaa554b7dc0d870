/** The vector extension and tables, on databases that have them, lack them, or get them later. */
import { join } from 'node:path'
import { test } from 'tap'
import { createEngine } from '../../../lib/database/index.js'
import { platformRef } from '../../../lib/identity/tenant-ref.js'
import { pgvectorDatabase } from '../../helpers/pgvector.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { runIn } from '../../helpers/system-postgres.js'
import { openEngine, rejection, run } from '../database/open.js'

test('the migration reports a missing pgvector, and how to install it', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const options = { postgres: { connectionString }, vectorTable: { dimensions: 8 } }
  t.match(await rejection(createEngine({ ...options, migrate: 'auto' })), {
    code: 'TENANTRY_CONFLICT',
    message:
      /agent_vectors_8 cannot be applied.*lacks the extension vector: install pgvector 0\.8 or later \(Debian: postgresql-<version>-pgvector\), or name another agent\.vectorStore/
  })
  await openEngine(t, { postgres: { connectionString }, migrate: 'auto' })
})

test('the tables are planned only if the configuration needs them, and are isolated', async (t) => {
  const { owner } = await pgvectorDatabase(t)
  const postgres = { connectionString: owner }
  const none = await openEngine(t, { postgres, migrate: 'auto' })
  t.same((await none.migration.plan()).migrations, [])
  const engine = await openEngine(t, { postgres, migrate: 'manual', vectorTable: { dimensions: 8 } })
  const { migrations, tables } = await engine.migration.plan()
  t.same(migrations.map(({ name }) => name.replace(/^\d+_/, '')), ['agent_vectors_8', 'agent_vectors_index_8'])
  t.equal(tables['tenantry.agent_vectors_8'], false)
  t.match(await rejection(engine.migration.apply()), {
    message: /this role may not create the extension vector: run "create extension vector" in this database as a superuser/
  })
  await runIn(owner, 'create extension vector', 'postgres')
  await engine.migration.apply()
  t.same((await engine.migration.plan()).migrations, [])
  const state = await engine.transaction({ tenant: platformRef }, (session) =>
    session.rows({
      text: `select relrowsecurity as enabled, relforcerowsecurity as forced,
    (select count(*)::int from pg_policy where polrelid = c.oid) as policies, (select count(*)::int from pg_indexes where tablename = relname) as indexes
    from pg_class c where oid = 'tenantry.agent_vectors_8'::regclass`
    }))
  t.same(state, [{ enabled: true, forced: true, policies: 2, indexes: 2 }])
  const other = await openEngine(t, { postgres, migrate: 'auto', vectorTable: { dimensions: 16 } })
  t.same((await other.migration.plan()).migrations, [], 'another number of dimensions has its own table')
  t.same((await none.migration.plan()).migrations, [], 'and the others include it')
})

test('an outdated version of pgvector is rejected', async (t) => {
  const { connectionString } = await pgvectorDatabase(t)
  const engine = await openEngine(t, { postgres: { connectionString }, migrate: 'auto' })
  await run(engine, 'create extension vector', "update pg_extension set extversion = '0.7.4' where extname = 'vector'")
  t.match(await rejection(createEngine({ postgres: { connectionString }, migrate: 'auto', vectorTable: { dimensions: 8 } })), {
    message: /the extension vector is 0\.7\.4: install pgvector 0\.8 or later/
  })
})

test('an older folder of the embedded engine gets the extension, and keeps it', async (t) => {
  const dbPath = join(t.testdir(), 'data')
  const before = await createEngine({ provider: 'embedded', embedded: { dbPath } })
  await run(before, "insert into tenantry.tenants (id, name) values ('acme', 'A')")
  await before.close()
  for (const vectorTable of [{ dimensions: 8 }, { dimensions: 8 }, undefined, { dimensions: 16 }]) {
    const engine = await createEngine({ provider: 'embedded', embedded: { dbPath }, vectorTable })
    const rows = await engine.transaction(
      { tenant: platformRef },
      (session) => session.rows({ text: "select id, '[1,2]'::vector <=> '[1,2]'::vector as distance from tenantry.tenants" })
    )
    t.same(rows, [{ id: 'acme', distance: 0 }])
    await engine.close()
  }
})
