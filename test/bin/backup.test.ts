/** `tenantry backup` and `tenantry restore`. */
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import pg from 'pg'
import { type Test, test } from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { testMasterKey } from '../helpers/server.js'
import { runIn, type SystemPostgres, systemPostgres } from '../helpers/system-postgres.js'
import { until } from '../helpers/until.js'
import { here, tenantry } from './tenantry.js'

const tables = { 'odd "name': { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } }, tenantScoped: true } }
const table = '"odd ""name"'
/** Line breaks of all kinds, and the end-of-table marker: each value is one row. */
const titles = ["'x'", "E'a\\nb\\rc'", "U&'a\\2028b\\2029c'", "E'\\\\.'", "E'COPY public.x (id) FROM stdin;'", 'null']

async function filled (t: Test, postgres: SystemPostgres) {
  const { connectionString } = await postgres.makeDatabase()
  const folder = t.testdir({})
  const document = `${folder}/tenantry.json`
  writeFileSync(
    document,
    JSON.stringify({ databaseProvider: 'postgres', migrate: 'manual', tables: { odd_name: tables['odd "name'] }, routes: [] })
  )
  const run = (words: string[], url = connectionString) =>
    here([words[0]!, document, ...words.slice(1)], {
      DATABASE_URL: url,
      SECRETS_MASTER_KEY: testMasterKey,
      PATH: process.env['PATH'] ?? ''
    })
  t.equal((await run(['migrate'])).code, 0)
  const rows = titles.flatMap((title, place) => ['a', 'b'].map((tenant) => `(${place}, ${title}, '${tenant}')`))
  await runIn(
    connectionString,
    `set app.tenant_id = '*';
    alter table odd_name rename to ${table};
    insert into ${table} (id, title, tenant_id) values ${rows.join(', ')};
    insert into tenantry.tenants (id, name) values ('a', 'A'), ('b', 'B')`
  )
  return { connectionString, folder, run }
}

test("a backup by the tables' owner contains every tenant's rows, and a restore brings them back", async (t) => {
  const postgres = await systemPostgres(t)
  const { connectionString, folder, run } = await filled(t, postgres)
  const to = `${folder}/backup`
  mkdirSync(to, { mode: 0o755 })
  const bin = ['--pg-bin', postgres.programs]
  const backedUp = await run(['backup', '--to', to, ...bin])
  t.match(backedUp, {
    code: 0,
    output: [/^\d+ rows of \d+ tables backed up to .*backup$/],
    errors: [/SECRETS_MASTER_KEY, which is not part of a backup/]
  })
  const manifest = JSON.parse(readFileSync(`${to}/manifest.json`, 'utf8'))
  t.match(manifest, {
    server: postgres.major,
    pgDump: postgres.major,
    rows: { [`public.${table}`]: titles.length * 2, 'tenantry.tenants': 2 }
  })
  t.notMatch(readFileSync(`${to}/manifest.json`, 'utf8'), /a-password/)
  for (const file of ['database.dump', 'manifest.json']) {
    t.equal(statSync(`${to}/${file}`).mode & 0o777, 0o600, `other users of the machine cannot read ${file}, whatever the mode of the folder`)
  }
  t.match(await run(['backup', '--to', to, ...bin]), { code: 1, errors: [/is not empty: choose a new folder/] })

  const { connectionString: target } = await postgres.makeDatabase()
  t.match(await run(['restore', '--from', to, ...bin], target), {
    code: 0,
    output: [backedUp.output[0]!.replace('backed up to', 'restored from')],
    errors: [
      /SECRETS_MASTER_KEY/,
      /^before you start a server with this database: it runs jobs, webhooks and schedules .* deletes expired files/,
      /valid again: .* JWT_SECRET/
    ]
  })
  const all = `select id, title, tenant_id from ${table} order by tenant_id, id`
  t.strictSame(await runIn(target, `set app.tenant_id = '*'; ${all}`), await runIn(connectionString, `set app.tenant_id = '*'; ${all}`))
  t.equal((await runIn(target, `set app.tenant_id = 'a'; ${all}`)).length, titles.length, 'the policies are restored too')
  await t.rejects(runIn(target, all), { code: '42704' })
  t.match(await run(['restore', '--from', to, ...bin], target), {
    code: 1,
    errors: [/^the database is not empty, it has public\..+ and \d+ more tables: restore into a new database/]
  })
})

test('a restored database repeats no realtime position of the lost one', async (t) => {
  const postgres = await systemPostgres(t)
  const { connectionString, folder, run } = await filled(t, postgres)
  await runIn(
    connectionString,
    "set app.tenant_id = '*'; insert into tenantry.realtime_heads (tenant_id, position, stamp) values ('a', 7, 1)"
  )
  const bin = ['--pg-bin', postgres.programs]
  t.equal((await run(['backup', '--to', `${folder}/backup`, ...bin])).code, 0)
  const { connectionString: target } = await postgres.makeDatabase()
  t.equal((await run(['restore', '--from', `${folder}/backup`, ...bin], target)).code, 0)
  const heads = await runIn(target, "set app.tenant_id = '*'; select tenant_id, position, floor from tenantry.realtime_heads order by 1")
  t.strictSame(heads.map(({ tenant_id: tenant }) => tenant), ['a', 'b'], 'also of a tenant whose first watch may have followed the backup')
  for (const { position, floor } of heads) {
    t.ok(Number(position) > 1_000_000_000, 'new positions are beyond those of the lost database')
    t.equal(floor, position, 'each earlier position is a gap')
  }
})

test('an incomplete backup or restore fails and names the tables', async (t) => {
  const postgres = await systemPostgres(t)
  const { connectionString, folder, run } = await filled(t, postgres)
  const programs = `${folder}/bin`
  mkdirSync(programs)
  /** A program whose output is incomplete. */
  const replace = (name: 'pg_dump' | 'pg_restore', words: string) => {
    writeFileSync(`${programs}/${name}`, `#!/bin/sh\nexec ${postgres.programs}/${name} "$@" ${words}\n`)
    chmodSync(`${programs}/${name}`, 0o755)
  }
  replace('pg_restore', '')
  replace('pg_dump', "--exclude-table-data='public.*'")
  const bin = ['--pg-bin', programs]
  t.match(await run(['backup', '--to', `${folder}/one`, ...bin]), {
    code: 1,
    errors: ['the dump is not complete:', `public.${table}: ${titles.length * 2} rows in the backup's snapshot, no table in the dump`]
  })
  t.notOk(existsSync(`${folder}/one/database.dump`))
  t.match(await run(['restore', '--from', `${folder}/one`, ...bin]), { code: 1, errors: [/does not contain a complete backup/] })

  replace('pg_dump', '')
  t.equal((await run(['backup', '--to', `${folder}/two`, ...bin])).code, 0)
  const { connectionString: target } = await postgres.makeDatabase()
  replace('pg_restore', '--schema-only')
  const broken = await run(['restore', '--from', `${folder}/two`, ...bin], target)
  t.match(broken, { code: 1, errors: ['the database does not have the rows of the backup:'] })
  t.ok(broken.errors.includes(`public.${table}: ${titles.length * 2} rows in the backup's snapshot, 0 in the database`))
  const [stamps] = await runIn(target, 'select last_value from tenantry.realtime_stamps')
  t.ok(Number(stamps?.['last_value']) > 1000, 'its positions have moved all the same')

  writeFileSync(`${folder}/two/database.dump`, 'x', { flag: 'a' })
  t.match(await run(['restore', '--from', `${folder}/two`, ...bin], (await postgres.makeDatabase()).connectionString), {
    code: 1,
    errors: [/is damaged: its SHA-256/]
  })

  await runIn(connectionString, `create policy own on ${table} as restrictive using (title = 'x')`)
  t.match(await run(['backup', '--to', `${folder}/three`, ...bin]), {
    code: 1,
    errors: [/your own policies can hide rows of "odd ""name" from this role: use a role with BYPASSRLS/]
  })
})

test('a restore whose rows differ names the tables also if the positions of realtime cannot be moved', async (t) => {
  const postgres = await systemPostgres(t)
  const { connectionString, folder, run } = await filled(t, postgres)
  await runIn(connectionString, 'drop sequence tenantry.realtime_stamps cascade')
  const bin = ['--pg-bin', postgres.programs]
  t.equal((await run(['backup', '--to', `${folder}/backup`, ...bin])).code, 0)
  const manifest = readFileSync(`${folder}/backup/manifest.json`, 'utf8')
  writeFileSync(`${folder}/backup/manifest.json`, manifest.replace('"tenantry.tenants": 2', '"tenantry.tenants": 3'))
  const { connectionString: target } = await postgres.makeDatabase()
  t.strictSame(await run(['restore', '--from', `${folder}/backup`, ...bin], target), {
    code: 1,
    output: [],
    errors: [
      'the database does not have the rows of the backup:',
      "tenantry.tenants: 3 rows in the backup's snapshot, 2 in the database",
      'the positions of realtime are not moved, so that clients can miss changes: relation "tenantry.realtime_stamps" does not exist'
    ]
  })
})

test('a restore whose rows own policies hide says that the rows are restored but not counted', async (t) => {
  const postgres = await systemPostgres(t)
  const { connectionString, folder, run } = await filled(t, postgres)
  await runIn(connectionString, `create policy own on ${table} as restrictive using (title = 'x')`)
  const bin = ['--pg-bin', postgres.programs]
  const superuser = new URL(connectionString)
  superuser.username = 'postgres'
  t.equal((await run(['backup', '--to', `${folder}/backup`, ...bin], superuser.href)).code, 0)
  const { connectionString: target } = await postgres.makeDatabase()
  t.match(await run(['restore', '--from', `${folder}/backup`, ...bin], target), {
    code: 1,
    output: { length: 0 },
    errors: [/^the database is restored, but its rows are not counted: your own policies can hide rows of "odd ""name" from this role/]
  })
  t.match(await runIn(target, `select count(*)::int from ${table}`, 'postgres'), [{ count: titles.length * 2 }])
})

test('a backup whose count fails ends pg_dump', async (t) => {
  const postgres = await systemPostgres(t)
  const { connectionString, folder, run } = await filled(t, postgres)
  const programs = `${folder}/bin`
  const pidFile = `${folder}/pid`
  mkdirSync(programs)
  symlinkSync(`${postgres.programs}/pg_restore`, `${programs}/pg_restore`)
  writeFileSync(
    `${programs}/pg_dump`,
    `#!/bin/sh\n[ "$1" = --version ] && exec ${postgres.programs}/pg_dump --version\necho $$ > ${pidFile}\nexec sleep 100000\n`,
    { mode: 0o755 }
  )
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  await holder.query(`begin; lock table ${table} in access exclusive mode`)
  const backup = run(['backup', '--to', `${folder}/backup`, '--pg-bin', programs])
  await until('pg_dump runs', () => existsSync(pidFile) && readFileSync(pidFile, 'utf8').endsWith('\n'))
  const pid = Number(readFileSync(pidFile, 'utf8'))
  const isRunning = () => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }
  t.teardown(() => isRunning() && process.kill(pid, 'SIGKILL'))
  await until('the connection of the count is lost', async () => {
    const ended = await runIn(
      connectionString,
      `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like 'select count%'`,
      'postgres'
    )
    return ended.length > 0
  })
  t.match(await backup, { code: 1, errors: [/terminat/] })
  t.notOk(isRunning())
  t.notOk(existsSync(`${folder}/backup/database.dump`))
})

test('a backup and its restore trust the same certificates as the server', async (t) => {
  const postgres = await systemPostgres(t)
  const { query } = postgres.server
  // In the folder of the data, as the owner of the server's files. The program gets its row.
  const certificate = '-x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=test -addext subjectAltName=IP:127.0.0.1,DNS:db.test'
  await query(
    `copy (select '') to program $$cat > /dev/null && openssl req ${certificate} -keyout server.key -out server.crt 2> /dev/null$$`
  )
  const [file] = await query("select pg_read_file('server.crt') as text")
  const folder = t.testdir({ 'authority.pem': String(file?.['text']) })
  await query('alter system set ssl = on')
  await query('select pg_reload_conf()')
  await until('the server has TLS', async () => (await query('show ssl'))[0]?.['ssl'] === 'on')
  const withTls = async (words: string[], parameters: string, ssl: unknown, host: string) => {
    const database = await postgres.makeDatabase()
    const connectionString = database.connectionString.replace('127.0.0.1', host)
    writeFileSync(
      `${folder}/tenantry.json`,
      JSON.stringify({ databaseProvider: 'postgres', postgres: { connectionString: connectionString + parameters, ssl }, routes: [] })
    )
    return await tenantry(t, folder, [...words, '--pg-bin', postgres.programs], { NODE_EXTRA_CA_CERTS: `${folder}/authority.pem` })
  }
  const cases: [string, unknown, string?][] = [
    ['?sslmode=verify-full', undefined],
    ['', true],
    ['', { servername: 'db.test' }],
    // The certificate does not have this name.
    ['', { servername: 'db.test' }, 'localhost']
  ]
  for (const [index, [parameters, ssl, host = '127.0.0.1']] of cases.entries()) {
    const place = `${folder}/backup${index}`
    const name = `${parameters} ${JSON.stringify(ssl)} ${host}`
    t.match(await withTls(['backup', '--to', place], parameters, ssl, host), { code: 0, errors: [/^secrets are encrypted/] }, name)
    t.match(await withTls(['restore', '--from', place], parameters, ssl, host), { code: 0, errors: [/^secrets are encrypted/] }, name)
  }
})

test('a missing or outdated pg_dump is reported with the fix', async (t) => {
  const postgres = await systemPostgres(t)
  const { connectionString } = await postgresDatabase(t)
  const folder = t.testdir({ 'tenantry.json': JSON.stringify({ postgres: { connectionString }, routes: [] }) })
  const run = (...words: string[]) => here(['backup', `${folder}/tenantry.json`, '--to', `${folder}/backup`, ...words])
  t.match(await run('--pg-bin', folder), {
    code: 1,
    errors: [/^pg_dump is missing in .*: install PostgreSQL's client programs .*--pg-bin/]
  })
  if (postgres.major < 18) {
    t.match(await run('--pg-bin', postgres.programs), {
      code: 1,
      errors: [new RegExp(`^pg_dump ${postgres.major} cannot back up PostgreSQL 18: install`)]
    })
  }
  t.match(await here(['backup', `${folder}/tenantry.json`]), { code: 1, errors: [/^--to is missing/, /^usage:/] })
})

test('the command explains how to copy an embedded database by hand', async (t) => {
  const folder = t.testdir({ 'tenantry.json': JSON.stringify({ embedded: { dbPath: '.data' }, routes: [] }) })
  t.match(await here(['backup', `${folder}/tenantry.json`, '--to', `${folder}/backup`]), {
    code: 1,
    errors: [/embedded: stop the server, then copy the folder \S*\.data as a whole/]
  })
})
