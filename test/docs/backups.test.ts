/** Runs the drill of docs/operations/backups.md as written. */
import { writeFileSync } from 'node:fs'
import { test } from 'tap'
import { runIn, systemPostgres } from '../helpers/system-postgres.js'
import { blocksOf, page } from './markdown.js'
import { openShell } from './shell.js'

test('the drill backs up a database and restores it', async (t) => {
  const postgres = await systemPostgres(t)
  const [database, restored] = await Promise.all([postgres.makeDatabase(), postgres.makeDatabase()])
  // The drill creates the second database itself, with the name from the page.
  const target = new URL(restored.connectionString)
  target.pathname = '/restored'
  const folder = t.testdir({})
  const columns = { id: { type: 'integer', primaryKey: true } }
  writeFileSync(
    `${folder}/tenantry.json`,
    JSON.stringify({ databaseProvider: 'postgres', tables: { notes: { columns, tenantScoped: true } }, routes: [] })
  )
  const shell = await openShell(t, folder)
  await shell.run(
    `export DATABASE_URL=${database.connectionString} RESTORED_URL=${target.href} PGHOST=127.0.0.1 PGPORT=${postgres.server.port} PGUSER=postgres PATH=${postgres.programs}:$PATH`
  )
  await shell.run('createdb() { command createdb --owner app "$@"; }')
  t.match(await shell.run('npx tenantry migrate'), { code: 0 })
  await runIn(
    database.connectionString,
    "set app.tenant_id = '*'; insert into notes (id, tenant_id) select n, 'tenant-' || n % 3 from generate_series(1, 100) n"
  )

  const [drill] = blocksOf(page('docs/operations/backups.md')).filter(({ language }) => language === 'sh')
  for (const line of drill!.text.trim().split('\n')) {
    const { code, output } = await shell.run(line)
    t.equal(code, 0, `${line}: ${output}`)
  }
  t.strictSame(
    await runIn(target.href, "set app.tenant_id = '*'; select count(*)::int as rows, count(distinct tenant_id)::int as tenants from notes"),
    [{ rows: 100, tenants: 3 }]
  )
})

test('the rows of one tenant are copied, and nothing else changes', async (t) => {
  const postgres = await systemPostgres(t)
  const [database, restored] = await Promise.all([postgres.makeDatabase(), postgres.makeDatabase()])
  const folder = t.testdir({})
  const id = { type: 'integer', primaryKey: true }
  const tables = {
    projects: { tenantScoped: true, columns: { id, name: { type: 'text' } } },
    tasks: { tenantScoped: true, columns: { id, project_id: { type: 'integer', references: 'projects.id' } } }
  }
  writeFileSync(`${folder}/tenantry.json`, JSON.stringify({ databaseProvider: 'postgres', tables, routes: [] }))
  const shell = await openShell(t, folder)
  await shell.run(`export DATABASE_URL=${database.connectionString} RESTORED_URL=${restored.connectionString} PATH=${postgres.programs}:$PATH`)
  for (const { connectionString } of [database, restored]) {
    t.match(await shell.run(`DATABASE_URL=${connectionString} npx tenantry migrate`), { code: 0 })
  }
  await runIn(
    restored.connectionString,
    `set app.tenant_id = '*';
    insert into projects (id, tenant_id, name) select n, t, 'then' from unnest(array['acme', 'globex']) t, generate_series(1, 3) n;
    insert into tasks (id, tenant_id, project_id) select id, tenant_id, id from projects`
  )
  await runIn(database.connectionString, "set app.tenant_id = 'acme'; insert into projects (id, tenant_id, name) values (1, 'acme', 'now')")

  const [, rows] = blocksOf(page('docs/operations/backups.md')).filter(({ language }) => language === 'sh')
  for (const line of rows!.text.trim().split('\n')) {
    const { code, output } = await shell.run(line)
    t.equal(code, 0, `${line}: ${output}`)
  }
  const found = await runIn(
    database.connectionString,
    `set app.tenant_id = '*';
    select p.tenant_id, p.id, p.name, t.id as task from projects p left join tasks t using (tenant_id, id) order by p.id`
  )
  t.strictSame(found, [
    { tenant_id: 'acme', id: 1, name: 'now', task: 1 },
    { tenant_id: 'acme', id: 2, name: 'then', task: 2 },
    { tenant_id: 'acme', id: 3, name: 'then', task: 3 }
  ])
})
