/** The commands that need a database: start, migrate and openapi. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer as listen } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { atOnce } from '../helpers/at-once.js'
import { nameAfterSystem } from '../helpers/migrations.js'
import { postgresDatabase, type RunSql } from '../helpers/postgres.js'
import { testEnv, testMasterKey } from '../helpers/server.js'
import { signToken, testSecret } from '../helpers/tokens.js'
import { programArguments } from '../helpers/typescript.js'
import { validate } from './openapi.js'
import { here, launch, tenantry } from './tenantry.js'

const notes = {
  tenantScoped: true,
  columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, text: { type: 'text', notNull: true } }
}
const routes = [
  { path: '/notes', method: 'get', requireAuth: true, queries: [{ table: 'notes', operation: 'select', select: 'text' }] },
  { path: '/settings', method: 'get', response: { name: '{{env.API_NAME}}' } }
]

/** A view that takes 0.3 seconds to read, and one that takes a minute. */
const slow = `
  create table single (id int primary key);
  insert into single values (1);
  create view waiting as select id, pg_sleep(0.3)::text as slept from single;
  create view stuck as select id, pg_sleep(60)::text as slept from single`

/** Prints at the end whether Node's fetch, which takes memory, was loaded. */
const reportFetch = '--import=data:text/javascript,' +
  encodeURIComponent("process.on('exit', () => console.log('fetch', process.moduleLoadList.includes('NativeModule internal/deps/undici/undici')))")

const lookMs = 20 // between polls: polling takes CPU from the awaited work

/** Resolves when the database runs a statement on the view. */
async function reading (view: string, query: RunSql): Promise<void> {
  for (;;) {
    const [found] = await query("select 1 from pg_stat_activity where state = 'active' and query like $1 and pid <> pg_backend_pid()", [
      `%${view}%`
    ])
    if (found !== undefined) return
    await pause(lookMs)
  }
}

// One of them waits for a start that never completes.
t.test('signals', (t) =>
  atOnce(t, {
    'start serves a document of the folder with the settings of `.env`; SIGTERM lets a running request finish': serves,
    'SIGINT stops without a delay too, and a second signal stops at once': stops,
    'a signal during a start ends it with 0: at once before there is a server, and even if a migration waits': endsAStart
  }))

async function serves (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t, { sql: slow })
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      databaseProvider: 'postgres',
      tables: { notes },
      routes: [...routes, { path: '/waiting', method: 'get', queries: [{ table: 'waiting', operation: 'select' }] }]
    }),
    '.env': `JWT_SECRET="${testSecret}"\nDATABASE_URL=${connectionString}\nSECRETS_MASTER_KEY=${testMasterKey}\nAPI_NAME=notes\nPORT=0`
  })
  const server = launch(t, folder, ['start'], { NODE_OPTIONS: reportFetch })
  const address = (await server.line(/^listening on /)).slice('listening on '.length)
  t.match(address, /^http:\/\/127\.0\.0\.1:\d+$/)
  t.strictSame(await (await fetch(`${address}/settings`)).json(), { name: 'notes' })
  await query("insert into notes (tenant_id, text) values ('acme', 'mine'), ('globex', 'theirs')")
  const response = await fetch(`${address}/notes`, { headers: { authorization: `Bearer ${signToken({ tenant_id: 'acme' })}` } })
  t.match(await response.json(), { data: [{ text: 'mine' }], pagination: { total: 1 } })

  const last = fetch(`${address}/waiting`)
  await reading('waiting', query)
  server.kill('SIGTERM')
  t.equal((await last).status, 200)
  const { code, errors, output } = await server.ended
  t.match({ code, errors }, { code: 0, errors: { length: 0 } })
  t.equal(output.at(-1), 'fetch false', 'a server without calls does not load fetch')
}

async function stops (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t, { sql: slow })
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      postgres: { connectionString },
      server: { stopDelayMs: 300_000 },
      routes: [...routes.slice(1), { path: '/stuck', method: 'get', queries: [{ table: 'stuck', operation: 'select' }] }]
    })
  })
  const server = launch(t, folder, ['start', '--port', '0', '--host', '127.0.0.1'], { ...testEnv, API_NAME: 'x' })
  const address = (await server.line(/^listening on /)).slice('listening on '.length)
  const broken = fetch(`${address}/stuck`).then(() => 'answered', () => 'cut off')
  await reading('stuck', query)
  server.kill('SIGINT')
  // When new requests are rejected, the first signal has been handled.
  while (await fetch(`${address}/settings`).then(({ status }) => status, () => 503) !== 503) await pause(lookMs)
  server.kill('SIGINT')
  t.equal((await server.ended).code, 1)
  t.equal(await broken, 'cut off')
}

async function endsAStart (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const folder = t.testdir({
    'reading.js': "console.log('reading')\nawait new Promise(() => { setInterval(() => {}, 1000) })\nexport default { routes: [] }",
    'tenantry.json': JSON.stringify({ postgres: { connectionString }, migrate: 'auto', server: { stopDelayMs: 300_000 }, routes: [] })
  })
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  // Another server that migrates the same database holds this lock.
  await holder.query('select pg_advisory_lock(7236815402)')
  const reading = launch(t, folder, ['start', 'reading.js', '--port', '0'])
  const migrating = launch(t, folder, ['start', '--port', '0'], { ...testEnv })
  await reading.line(/^reading$/)
  // A server that does not get the lock rolls back and waits until its next attempt.
  const refused = "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query = 'rollback'"
  while ((await query(refused)).length === 0) await pause(lookMs)
  for (const program of [reading, migrating]) program.kill('SIGTERM')
  t.match(await reading.ended, { code: 0, errors: { length: 0 } })
  t.match(await migrating.ended, { code: 0, output: { length: 0 }, errors: { length: 0 } })
}

t.test('a failed start exits with 1 and prints the obstacle in one line', async (t) => {
  const folder = t.testdir({
    'down.json': JSON.stringify({ postgres: { connectionString: 'postgres://someone:hunter2@127.0.0.1:1/none' }, routes: [] }),
    'tables.json': JSON.stringify({ postgres: { connectionString: '{{env.URL}}' }, jwt: { secret: testSecret }, routes }),
    'nothing.json': JSON.stringify({ postgres: { connectionString: '{{env.URL}}' }, routes: [] })
  })
  const { connectionString } = await postgresDatabase(t)
  const taken = listen().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const at = taken.address()
  const port = typeof at === 'object' && at !== null ? String(at.port) : ''
  const env = { ...testEnv, URL: connectionString, API_NAME: 'x' }
  const [down, unknown, tables, inUse] = await Promise.all([
    tenantry(t, folder, ['start', 'down.json', '--port', '0'], env),
    tenantry(t, folder, ['start', 'nothing.json', '--port', '0'], { ...env, URL: connectionString.replace(/[^/]+$/, 'none') }),
    tenantry(t, folder, ['start', 'tables.json', '--port', '0'], env),
    tenantry(t, folder, ['start', 'nothing.json', '--port', port], env)
  ])
  t.match(down, { code: 1, errors: [/^the database cannot be reached: .*ECONNREFUSED.*: start PostgreSQL, or correct the host or the port in/] })
  t.match(unknown, { code: 1, errors: [/^the database cannot be reached: database "none" does not exist: create the database, or correct/] })
  t.equal(down.errors.length, 1)
  t.notMatch(down.errors[0], 'hunter2')
  t.match(tables, { code: 1, errors: [/^\/routes\/0\/queries\/0\/table: there is no table "notes"/] })
  t.match(inUse, { code: 1, errors: [new RegExp(`^the port ${port} is used by another program`)] })
})

t.test('migrate --print shows the changes, migrate applies them once, and a second run changes nothing', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({ postgres: { connectionString, rowLevelSecurity: true }, tables: { notes }, routes: [] })
  })
  const tables = () => query("select table_name from information_schema.tables where table_name = 'notes'")

  const printed = await here(['migrate', `${folder}/tenantry.json`, '--print'])
  t.equal(printed.code, 0)
  t.match(printed.output.join('\n'), /create table .*notes/)
  t.strictSame(await tables(), [])

  const { code, output } = await tenantry(t, folder, ['migrate'])
  t.equal(code, 0)
  t.match(output, [/^001_/, /^002_tenants$/])
  t.equal(output.at(-1), nameAfterSystem('create_notes'))
  t.equal((await tables()).length, 1)
  t.strictSame(await here(['migrate', `${folder}/tenantry.json`]), { code: 0, output: [], errors: ['nothing is missing'] })
})

t.test('migrate continues to its end if the reader of its output leaves', async (t) => {
  const { connectionString } = await postgresDatabase(t, { empty: true })
  const folder = t.testdir({ 'tenantry.json': JSON.stringify({ postgres: { connectionString }, tables: { notes }, routes: [] }) })
  const words = [process.execPath, ...programArguments('bin/tenantry.ts'), 'migrate', `${folder}/tenantry.json`]
  const shell = spawn('sh', ['-c', '{ "$@" 2>&1; echo "migrate: $?" >&2; } | head -n 1', 'sh', ...words], { stdio: ['ignore', 'ignore', 'pipe'] })
  const [code] = await Promise.all([text(shell.stderr), once(shell, 'close')])
  t.equal(code, 'migrate: 0\n')
  t.strictSame(await here(['migrate', `${folder}/tenantry.json`]), { code: 0, output: [], errors: ['nothing is missing'] })
})

t.test('migrate creates the triggers of watched tables, so that a server that does not migrate can watch them', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const document = { postgres: { connectionString }, tables: { notes }, realtime: { tables: { notes: {} } }, routes: [] }
  const folder = t.testdir({
    'tenantry.json': JSON.stringify(document),
    'off.json': JSON.stringify({ ...document, realtime: { ...document.realtime, enabled: false } })
  })
  const triggers = () => query("select tgname from pg_trigger where tgrelid = 'notes'::regclass and tgname = 'tenantry_changes'")
  t.equal((await here(['migrate', `${folder}/off.json`])).output.at(-1), nameAfterSystem('create_notes'))
  t.equal((await triggers()).length, 0, 'realtime is off')
  t.match((await here(['migrate', `${folder}/tenantry.json`])).output, [/record_changes_of_notes$/])
  t.equal((await triggers()).length, 1)
  t.strictSame(await here(['migrate', `${folder}/tenantry.json`]), { code: 0, output: [], errors: ['nothing is missing'] })
})

t.test('migrate prints security rules without a database', async (t) => {
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      postgres: { connectionString: 'postgres://127.0.0.1:1/none' },
      firebase: { projectId: 'my-app' },
      routes: [{
        path: '/notes/:id',
        method: 'get',
        firebaseQueries: [{ collection: 'notes', operation: 'get', docId: '{{params.id}}', store: 'firestore' }]
      }]
    }),
    'without.json': JSON.stringify({ routes: [] })
  })
  const { code, output, errors } = await here(['migrate', `${folder}/tenantry.json`, '--print-rules'])
  t.strictSame([code, errors], [0, []])
  t.match(output.join('\n'), /^rules_version[^]*match \/tenants\/\{tenant\}\/notes\/\{document\} \{\s+allow get: if isOf\(tenant\);/)
  t.match(await here(['migrate', `${folder}/without.json`, '--print-rules']), { code: 1, output: { length: 0 }, errors: [/section `firebase`/] })
  t.match(await here(['migrate', `${folder}/tenantry.json`, '--print', '--print-rules']), { code: 1, output: { length: 0 }, errors: [/one of/] })
})

t.test('the printed migrations create the same database as migrate', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const folder = t.testdir({ 'tenantry.json': JSON.stringify({ postgres: { connectionString }, tables: { notes }, routes: [] }) })
  const { output } = await here(['migrate', `${folder}/tenantry.json`, '--print'])
  await query(output.join('\n'))
  t.strictSame(await here(['migrate', `${folder}/tenantry.json`]), { code: 0, output: [], errors: ['nothing is missing'] })
})

t.test('a closed pipe ends the command without an error', async (t) => {
  const folder = t.testdir({ 'tenantry.json': '{"routes": []}' })
  const child = spawn(process.execPath, [...programArguments('bin/tenantry.ts'), 'openapi'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const ended = once(child, 'close')
  // The document is larger than the pipe's buffer.
  child.stdout.once('data', () => child.stdout.destroy())
  t.strictSame(await ended, [0, null])
  t.equal(errors, '')
})

t.test("openapi prints the API's document and does not change the database", async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const document = { jwt: { secret: testSecret }, tables: { notes }, routes, plugins: { openapi: { title: 'Notes' } } }
  const folder = t.testdir({
    'postgres.json': JSON.stringify({ ...document, postgres: { connectionString } }),
    'embedded.json': JSON.stringify({ ...document, embedded: { dbPath: 'data' } }),
    'off.json': JSON.stringify({ routes: [], plugins: { openapi: false } })
  })
  for (const name of ['postgres.json', 'embedded.json']) {
    const { code, output } = await here(['openapi', `${folder}/${name}`], { ...testEnv, API_NAME: 'x' })
    t.equal(code, 0)
    const printed = JSON.parse(output.join('\n'))
    t.match(printed, { openapi: /^3\.1/, paths: { '/notes': { get: {} }, '/settings': { get: {} } } })
    t.ok(await validate(printed))
  }
  t.strictSame(await query("select nspname from pg_namespace where nspname = 'tenantry'"), [])
  t.match(await here(['openapi', `${folder}/off.json`]), { code: 1, errors: ['the document disables the plugin "openapi"'] })
})
