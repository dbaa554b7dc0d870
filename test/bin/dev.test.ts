/** `tenantry dev`. */
import { once } from 'node:events'
import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { signToken, testSecret } from '../helpers/tokens.js'
import { here, launch, type Running } from './tenantry.js'

const notes = {
  tenantScoped: true,
  columns: { id: { type: 'integer', primaryKey: true }, text: { type: 'text', notNull: true } }
}
const write = {
  method: 'patch',
  requireAuth: true,
  request: { params: { id: { type: 'integer' } }, body: { text: { type: 'string' } } },
  queries: [{ table: 'notes', operation: 'update', id: '{{params.id}}' }]
}

function documentOf (greeting: string, { unique = false } = {}): string {
  return JSON.stringify({
    jwt: {},
    auth: { registration: 'open' },
    tables: { notes: { ...notes, columns: { ...notes.columns, text: { ...notes.columns.text, unique } } } },
    routes: [
      {
        path: '/notes/:id',
        method: 'get',
        requireAuth: true,
        queries: [{ table: 'notes', operation: 'select', id: '{{params.id}}', select: 'text' }]
      },
      { path: '/notes', method: 'get', requireAuth: true, queries: [{ table: 'notes', operation: 'select', select: 'text' }] },
      { ...write, path: '/notes/:id' },
      { ...write, path: '/renamed/:id' },
      { path: '/greeting', method: 'get', response: { greeting } }
    ]
  })
}

const seed = `
  -- Two notes; and what makes each change of them fail.
  insert into notes (tenant_id, id, text) values ('acme', 1, 'it''s; seeded'), ('acme', 2, 'it''s; seeded');
  create function refuse () returns trigger language plpgsql as $$
  begin
    raise exception 'the trigger is broken; see its author' using errcode = 'XX000';
  end $$;
  create trigger refuse before update on notes for each row execute function refuse()`

const json = { 'content-type': 'application/json' }
const first = (pattern: RegExp, line: string) => pattern.exec(line)?.[1] ?? ''

async function addressOf (dev: Running): Promise<string> {
  return first(/^listening on (.*)$/, await dev.line(/^listening on /))
}

async function greetingOf (address: string): Promise<unknown> {
  return await (await fetch(`${address}/greeting`)).json()
}

t.test('dev serves a document, its changes and its faults', async (t) => {
  const folder = t.testdir({ 'tenantry.json': documentOf('one'), '.env': `JWT_SECRET=${testSecret}\n`, 'seed.sql': seed })
  const save = (text: string) => writeFile(join(folder, 'tenantry.json'), text)
  const dev = launch(t, folder, ['dev', '--port', '0', '--seed', 'seed.sql'], { LOG_LEVEL: 'info' })
  const address = await addressOf(dev)
  const token = first(/export TOKEN=(\S+)/, await dev.line(/export TOKEN=/))
  const platform = first(/export PLATFORM_TOKEN=(\S+)/, await dev.line(/export PLATFORM_TOKEN=/))
  const authorization = { authorization: `Bearer ${token}` }
  const list = async () => await (await fetch(`${address}/notes`, { headers: authorization })).json()
  const update = (path: string) =>
    fetch(`${address}${path}`, { method: 'PATCH', headers: { ...json, ...authorization }, body: '{"text":"new"}' })

  t.test('dev prints its address and valid tokens, and seeds the empty database', async (t) => {
    t.equal(await dev.line(/^documentation: /), `documentation: ${address}/ui`)
    t.equal(await dev.line(/^try: /), `try: curl -H "Authorization: Bearer $TOKEN" ${address}/notes`)
    t.match(await list(), { data: [{ text: "it's; seeded" }, { text: "it's; seeded" }] })
    t.equal((await fetch(`${address}/tenants`, { headers: { authorization: `Bearer ${platform}` } })).status, 200)
    t.match(await dev.line(/GET \/notes 200/), /^\[\d\d:\d\d:\d\d\] INFO: GET \/notes 200 [\d.]+ ms \(acme\)$/)
  })

  t.test('the first 500 of each route prints its cause', async (t) => {
    for (const [index, path] of ['/notes/1', '/renamed/1'].entries()) {
      t.equal((await update(path)).status, 500)
      await dev.line(/the trigger is broken; see its author/, index + 1)
      await dev.line(new RegExp(`PATCH ${path} 500 `))
    }
    t.notMatch(await (await update('/notes/1')).text(), /trigger/, 'the response hides the cause')
  })

  t.test("dev prints users' mails", async (t) => {
    const registered = await fetch(`${address}/auth/register`, {
      method: 'POST',
      headers: { ...json, 'x-tenant-id': 'acme' },
      body: JSON.stringify({ email: 'ada@example.com', password: 'correct horse' })
    })
    t.equal(registered.status, 201)
    await dev.line(/^mail to ada@example\.com: /)
    await dev.line(/^http:\/\/localhost:3000\/verify-email#token=/)
  })

  t.test('a document with faults leaves the previous version running', async (t) => {
    await save('{ "routes": [}')
    await dev.errorLine(/^still serving the previous version/)
    t.strictSame(await greetingOf(address), { greeting: 'one' })
    await save(documentOf('one'))
    await dev.errorLine(/^no faults, and no change to the served document/)
  })

  t.test('a change is served on the same port, and the in-memory database keeps its data', async (t) => {
    await save(documentOf('two'))
    await dev.line(/^reloaded in \d+ ms$/)
    t.strictSame(await greetingOf(address), { greeting: 'two' })
    t.match(await list(), { data: [{ text: "it's; seeded" }, { text: "it's; seeded" }] })
  })

  t.test('a document that the database rejects leaves the previous version running', async (t) => {
    await save(documentOf('three', { unique: true }))
    await dev.errorLine(/cannot be applied: could not create unique index/)
    await dev.errorLine(/^still serving the previous version; save a file to try again$/)
    t.strictSame(await greetingOf(address), { greeting: 'two' })
    await save(documentOf('three'))
    await dev.line(/^reloaded in \d+ ms$/, 2)
    t.strictSame(await greetingOf(address), { greeting: 'three' })
  })

  t.test('a change of .env reloads the document', async (t) => {
    const other = 'another secret of the tests, of 32 characters'
    await writeFile(join(folder, '.env.draft'), `JWT_SECRET=${other}\n`)
    // Like editors that never leave a half-written file.
    await rename(join(folder, '.env.draft'), join(folder, '.env'))
    await dev.line(/^reloaded in \d+ ms$/, 3)
    t.equal((await fetch(`${address}/notes`, { headers: authorization })).status, 401)
    t.equal(
      (await fetch(`${address}/notes`, { headers: { authorization: `Bearer ${signToken({ tenant_id: 'acme' }, { key: other })}` } }))
        .status,
      200
    )
  })

  t.test('a signal ends dev with 0; it prints its address and tokens once, and no secret', async (t) => {
    dev.kill('SIGTERM')
    const { code, output, errors } = await dev.ended
    t.equal(code, 0)
    t.notOk([...output, ...errors].some((line) => line.includes(testSecret)))
    for (const line of [/^listening on /, /export TOKEN=/, /export PLATFORM_TOKEN=/, /Server listening/]) {
      t.equal(output.filter((text) => line.test(text)).length, line.source === 'Server listening' ? 0 : 1, line.source)
    }
    await t.rejects(fetch(`${address}/greeting`), { cause: { code: 'ECONNREFUSED' } })
  })
})

t.test('a change that is saved right after the start is served', async (t) => {
  const folder = t.testdir({ 'tenantry.json': documentOf('one'), '.env': `JWT_SECRET=${testSecret}\n` })
  const dev = launch(t, folder, ['dev', '--port', '0'])
  const address = await addressOf(dev)
  await writeFile(join(folder, 'tenantry.json'), documentOf('two'))
  await dev.line(/^reloaded in /)
  t.same(await greetingOf(address), { greeting: 'two' })
})

t.test('a document module is reloaded with the modules that it imports', async (t) => {
  const routes = "[{ path: '/greeting', method: 'get' as const, response: { greeting: greeting() } }]"
  const folder = t.testdir({
    'package.json': '{"type":"module"}',
    shared: {
      'greeting.ts': "import { word } from './word.ts'\nexport const greeting = (): string => word",
      'word.ts': "export const word = 'one'"
    },
    api: {
      'tenantry.ts':
        `import { greeting } from '../shared/greeting.ts'\nexport default { jwt: { secret: '${testSecret}' }, embedded: { dbPath: 'data' }, routes: ${routes} }`
    }
  })
  const api = join(folder, 'api')
  const dev = launch(t, api, ['dev', '--port', '0'])
  const address = await addressOf(dev)
  t.strictSame(await greetingOf(address), { greeting: 'one' })
  await writeFile(join(folder, 'shared', 'word.ts'), "export const word = 'two'")
  await dev.line(/^reloaded in /)
  t.strictSame(await greetingOf(address), { greeting: 'two' }, 'a module in another folder that an imported module imports')

  await writeFile(join(folder, 'shared', 'word.ts'), "export const word = 'three'\nprocess.exit(3)")
  await dev.errorLine(/tenantry\.ts: the module cannot be loaded: it ended its process with 3/)
  t.strictSame(await greetingOf(address), { greeting: 'two' })

  // A folder that did not exist at the start, and that the document then imports from.
  await mkdir(join(api, 'parts'))
  await writeFile(join(api, 'parts', 'greeting.ts'), "export const greeting = () => 'three'")
  await writeFile(
    join(api, 'tenantry.ts'),
    `import { greeting } from './parts/greeting.ts'\nexport default { jwt: { secret: '${testSecret}' }, embedded: { dbPath: 'data' }, routes: ${routes} }`
  )
  await dev.line(/^reloaded in /, 2)
  await writeFile(join(api, 'parts', 'greeting.ts'), "export const greeting = () => 'four'")
  await dev.line(/^reloaded in /, 3)
  t.strictSame(await greetingOf(address), { greeting: 'four' })
  dev.kill('SIGINT')
  t.equal((await dev.ended).code, 0)
})

t.test('routes call functions that the seed creates', async (t) => {
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      jwt: {},
      functions: { twice: { arguments: { number: 'integer' }, returns: 'integer', tenantScoped: false } },
      routes: [{
        path: '/twice/:number',
        method: 'get',
        queries: [{ operation: 'call', function: 'twice', arguments: { number: '{{params.number}}' } }]
      }]
    }),
    '.env': `JWT_SECRET=${testSecret}\n`,
    'seed.sql': "create function twice (number integer) returns integer immutable language sql as 'select number * 2'"
  })
  const dev = launch(t, folder, ['dev', '--port', '0', '--seed', 'seed.sql'])
  const address = await addressOf(dev)
  t.strictSame(await (await fetch(`${address}/twice/21`)).json(), { result: 42 })
  dev.kill('SIGINT')
  t.equal((await dev.ended).code, 0)
})

t.test('dev of a module whose first start fails ends with 1, and leaves no folder', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const at = taken.address()
  const port = typeof at === 'object' && at !== null ? at.port : 0
  const folder = t.testdir({
    'package.json': '{"type":"module"}',
    'tenantry.ts': `export default { jwt: { secret: '${testSecret}' }, routes: [] }`,
    temporary: {}
  })
  const dev = launch(t, folder, ['dev', 'tenantry.ts', '--port', String(port)], { TMPDIR: join(folder, 'temporary') })
  t.match(await dev.ended, { code: 1, errors: [new RegExp(`^the port ${port} is used by another program`)] })
  t.strictSame((await readdir(join(folder, 'temporary'))).filter((name) => name.startsWith('tenantry-dev-')), [])
})

t.test('a call that cannot succeed exits with 1 and explains why', async (t) => {
  const folder = t.testdir({ 'tenantry.json': documentOf('one'), 'seed.txt': '', 'list.json': '[]', 'rows.json': '{"notes": [1]}' })
  const calls: [string[], RegExp, Record<string, string>?][] = [
    [[], /NODE_ENV is "production".*"tenantry start"/, { NODE_ENV: 'production' }],
    [['--port', 'x'], /the port "x" is invalid/],
    [['--seed', `${folder}/none.sql`], /none\.sql: there is no such file/],
    [['--seed', `${folder}/seed.txt`], /expected a file that ends in \.sql or \.json/],
    [['--seed', `${folder}/list.json`], /expected an object with a list of rows for each table/],
    [['--seed', `${folder}/rows.json`], /\/notes: expected a list of rows/]
  ]
  for (const [words, message, env] of calls) {
    t.match(await here(['dev', `${folder}/tenantry.json`, ...words], env), { code: 1, errors: [message] }, words.join(' '))
  }
})
