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
