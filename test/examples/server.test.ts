/** The bundled example, started as `npm start` does, and used over HTTP. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { promisify } from 'node:util'
import t from 'tap'
import { type Program, runProgram, startProgram } from '../helpers/program.js'
import { callerOf, type Reply } from './caller.js'

const run = promisify(execFile)
const file = 'examples/server/index.ts'
const folder = t.testdir()
const program = await startProgram(t, file, { DATA_FOLDER: folder })
const { author, editor, administrator, stranger, platform } = callersOf(program)
const anybody = callerOf(program.address)

function tokenOf (setting: string): string {
  return new RegExp(`^export ${setting}=(\\S+)$`, 'm').exec(readFileSync(`${folder}/tokens.env`, 'utf8'))?.[1] ?? ''
}

function callersOf (program: Program) {
  const as = (setting: string) => callerOf(program.address, tokenOf(setting))
  return {
    author: as('AUTHOR_TOKEN'),
    editor: as('EDITOR_TOKEN'),
    administrator: as('ADMIN_TOKEN'),
    stranger: as('OTHER_TENANT_TOKEN'),
    platform: as('PLATFORM_TOKEN')
  }
}

function titlesOf ({ body }: Reply): string[] {
  return body.data.map(({ title }) => title)
}

async function draft (title: string): Promise<string> {
  const { body: { data: [someone] } } = await author('GET', '/authors')
  const { body } = await author('POST', '/articles', { title, author_id: someone.id })
  return body.id
}

t.test('the example prints its address and a request to try', async (t) => {
  t.match(program.output(), `documentation: ${program.address}/ui`)
  const lines = program.output().trim().split('\n').filter((line) => !line.startsWith('{') && line !== '')
  t.ok(lines.length <= 12, `${lines.length} lines`)
  t.equal(lines.filter((line) => line.includes('export ')).length, 1, 'one token')
  const commands = lines.filter((line) => line.startsWith('  ')).map((line) => line.trim())
  t.equal(commands.length, 4)
  const { stdout } = await run('sh', [
    '-c',
    commands.map((command) => command.replace('curl', 'curl -s -w "\\n%{http_code}\\n"')).join('\n')
  ])
  t.strictSame(stdout.match(/^\d{3}$/gm), ['200', '200', '201'], stdout)
  t.equal((await fetch(`${program.address}/ui`)).status, 200)
  const { status, body } = await anybody('GET', '/published', undefined, { 'x-tenant-id': 'harbour' })
  t.equal(status, 200)
  t.match(body, {
    data: [{ title: 'Night ferries return', author: { name: 'Ada Brandt' }, reviews: [{ count: 1 }] }],
    pagination: { total: 1 }
  })
  t.notOk('body' in body.data[0])
})

t.test('an article is drafted, submitted, published and withdrawn', async (t) => {
  const { body: { data: [someone] } } = await author('GET', '/authors')
  const created = await author('POST', '/articles', { title: 'The long quay', author_id: someone.id })
  t.equal(created.status, 201)
  const { id } = created.body
  t.match((await author('GET', `/articles/${id}`)).body, { status: 'draft', published_at: null, created_by: 'ada' })
  t.equal((await editor('POST', `/articles/${id}/publish`)).status, 404, 'a draft cannot be published')

  t.match((await author('POST', `/articles/${id}/submit`)).body, { status: 'pending_review' })
  t.equal((await author('POST', `/articles/${id}/publish`)).status, 403, 'an author cannot publish')
  const published = await editor('POST', `/articles/${id}/publish`)
  t.equal(published.status, 200)
  t.match(published.body, { status: 'published', published_by: 'edith' })
  t.ok(Math.abs(Date.parse(published.body.published_at) - Date.now()) < 60_000)

  t.equal((await author('PATCH', `/articles/${id}`, { title: 'Other' })).status, 404, 'a published article cannot be edited')
  t.match((await editor('POST', `/articles/${id}/unpublish`)).body, { status: 'draft', published_at: null, published_by: null })
  t.match((await author('PATCH', `/articles/${id}`, { title: 'The longer quay' })).body, { title: 'The longer quay', status: 'draft' })
})

t.test('the query string filters a list', async (t) => {
  const titles = async (query: string) => titlesOf(await editor('GET', `/articles?${query}`))
  t.strictSame(await titles('search=CRANES'), ['Where the cranes came from'])
  t.strictSame(await titles('status=published'), ['Night ferries return'])
  t.strictSame(await titles('topic=history'), ['Where the cranes came from'])
  t.strictSame(await titles('search=no-such-title'), [])
  t.match((await editor('GET', '/articles?limit=1')).body, { pagination: { limit: 1, offset: 0 } })
  t.match((await editor('GET', '/articles?status=lost')).body, { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path: '/query/status' }] })
  t.match((await editor('GET', '/articles?stauts=draft')).body, { details: [{ path: '/query/stauts' }] })
})

t.test('one article includes its author and its reviews', async (t) => {
  const { body: { data: [{ id }] } } = await editor('GET', '/articles?status=published')
  t.match((await author('GET', `/articles/${id}`)).body, { author: { name: 'Ada Brandt' }, reviews: [{ rating: 5, reviewer: 'edith' }] })
  t.equal((await author('POST', `/articles/${id}/reviews`, { rating: 2 })).status, 201)
  t.equal((await author('POST', `/articles/${id}/reviews`, { rating: 3 })).status, 409, 'one review for each reviewer')
  t.match((await author('POST', `/articles/${id}/reviews`, { rating: 6 })).body, {
    details: [{ path: '/body/rating', keyword: 'maximum' }]
  })
  t.match((await author('GET', `/articles/${id}/reviews`)).body.data, [{ rating: 5, label: 'recommended' }, { rating: 2, label: 'mixed' }])
})

t.test('a published article is mapped for its page', async (t) => {
  const { body: { data: [{ id }] } } = await editor('GET', '/articles?status=published')
  const { status, body } = await anybody('GET', `/published/${id}`, undefined, { 'x-tenant-id': 'harbour' })
  t.equal(status, 200)
  t.match(body, { headline: 'Night ferries return', byline: 'by Ada Brandt', links: { self: `/published/${id}` } })
  t.notOk('id' in body)
})

t.test('the public list is cached and rate limited', async (t) => {
  const ask = () => anybody('GET', '/published?topic=sea', undefined, { 'x-tenant-id': 'harbour' })
  t.equal((await ask()).headers.get('x-cache'), 'MISS')
  const second = await ask()
  t.equal(second.headers.get('x-cache'), 'HIT')
  t.equal(second.headers.get('x-ratelimit-limit'), '60')
  let last = second
  for (let count = 0; count < 60 && last.status === 200; count++) last = await ask()
  t.equal(last.status, 429)
  t.match(last.body, { code: 'TENANTRY_RATE_LIMITED', message: 'At most 60 requests a minute; ask again later', retryAfter: Number })
})

t.test('only administrators and dashboards read internal notes', async (t) => {
  const find = async (caller: typeof author, headers?: Record<string, string>) =>
    (await caller('GET', '/articles?search=bollard', undefined, headers)).body.data[0]
  t.match(await find(administrator), { internal_notes: /permission of the port/ })
  const seen = await find(author)
  t.equal(seen.title, 'A map of every bollard')
  t.notOk('internal_notes' in seen)
  t.match(await find(author, { 'x-tenant-id': 'harbour' }), { internal_notes: /permission of the port/ }, 'the documented bypass')

  const edited = await author('PATCH', `/articles/${seen.id}`, { internal_notes: 'overwritten' })
  t.equal(edited.status, 200)
  t.match(await find(administrator), { internal_notes: /permission of the port/ }, 'others cannot write them either')
})

t.test('a deleted article is gone from every read', async (t) => {
  const id = await draft('Not for long')
  t.equal((await author('DELETE', `/articles/${id}`)).status, 403)
  t.strictSame((await editor('DELETE', `/articles/${id}`)).body, { success: true, softDeleted: true })
  t.equal((await editor('GET', `/articles/${id}`)).status, 404)
  t.strictSame((await editor('GET', '/articles?search=Not for long')).body.data, [])
  const other = await draft('Gone for good')
  t.strictSame((await editor('DELETE', `/articles/${other}?hard=true`)).body, { success: true })
})

t.test('the dashboard returns several queries in one response', async (t) => {
  const { body } = await editor('GET', '/dashboard')
  t.match(body, {
    waiting: { data: [{ title: 'Where the cranes came from', author: { name: 'Ben Okafor' } }], pagination: { total: 1 } },
    drafts: { pagination: { limit: 5 } }
  })
  t.match(body, { latestReviews: { data: [{ rating: 2 }, { article: { title: 'Night ferries return' } }] } })
  t.equal((await author('GET', '/dashboard')).status, 403)
})

t.test('preferences are documents of a single user', async (t) => {
  t.equal((await author('GET', '/preferences')).status, 404)
  t.equal((await author('PUT', '/preferences', { language: 'de', topics: ['sea'] })).status, 200)
  t.match((await author('GET', '/preferences')).body, { language: 'de', topics: ['sea'] })
  t.equal((await editor('GET', '/preferences')).status, 404)
  t.equal((await author('PUT', '/preferences', { language: 'xx' })).status, 400)
})

t.test("neither tenant reaches the other's rows", async (t) => {
  const id = await draft('Ours')
  t.equal((await stranger('GET', `/articles/${id}`)).status, 404)
  t.equal((await stranger('PATCH', `/articles/${id}`, { title: 'Theirs' })).status, 404)
  t.equal((await stranger('DELETE', `/articles/${id}`)).status, 404)
  t.equal((await stranger('POST', `/articles/${id}/reviews`, { rating: 1 })).status, 400, 'not even by a reference')
  t.strictSame(titlesOf(await stranger('GET', '/articles')), ['Grafting in wet winters'])
  t.equal((await stranger('GET', '/articles', undefined, { 'x-tenant-id': 'harbour' })).status, 403)
  t.match((await author('GET', `/articles/${id}`)).body, { title: 'Ours' })
})

t.test('a request without a token is rejected with a reason', async (t) => {
  t.match(await anybody('GET', '/articles'), { status: 401, body: { code: 'TENANTRY_TOKEN_MISSING' } })
  t.match(await anybody('GET', '/published/00000000-0000-4000-8000-000000000000'), {
    status: 400,
    body: { code: 'TENANTRY_TENANT_REQUIRED' }
  })
})

t.test('a user registers and logs in', async (t) => {
  const credentials = { email: 'you@example.com', password: 'a staple of my own' }
  const harbour = { 'x-tenant-id': 'harbour' }
  t.equal((await anybody('POST', '/auth/register', credentials, harbour)).status, 201)
  const { status, body } = await anybody('POST', '/auth/login', credentials, harbour)
  t.equal(status, 200)
  t.equal((await callerOf(program.address, String(body.token))('GET', '/articles')).status, 200)
})

t.test('the calls of the guides work: rows, publishing, and running workflows', async (t) => {
  const rows = '/admin/entities/articles?select=id,title,tenant_id&order=title.asc'
  t.ok(program.output().includes("/admin/entities/articles?select=id,title&order=title.asc'"))
  const tenantsOf = ({ body }: Reply) => new Set(body.data.map((row) => row['tenant_id']))
  t.strictSame(tenantsOf(await administrator('GET', rows)), new Set(['harbour']))
  t.strictSame(tenantsOf(await platform('GET', rows)), new Set(['harbour', 'orchard']))
  const found = await administrator('GET', '/admin/entities/articles?filter[title]=ilike.%25cranes%25')
  const { id } = found.body.data[0]
  t.strictSame((await administrator('DELETE', `/admin/entities/articles/${id}`)).body, { success: true, softDeleted: true })
  t.equal((await editor('GET', `/articles/${id}`)).status, 404)
  t.match((await administrator('POST', `/admin/entities/articles/${id}/restore`)).body, { success: true, data: { id, deleted: false } })

  t.match((await platform('POST', '/publish/init', { checkTables: ['authors', 'pages'] })).body, {
    ready: false,
    tables: { authors: true, pages: false },
    missing: ['pages']
  })
  t.match((await platform('POST', '/publish/verify')).body, { ready: true })
  const author = { table: 'authors', data: { name: 'Pia Lund', email: 'pia@example.com' } }
  t.match(await platform('POST', '/publish/entity', author, { 'x-tenant-id': 'harbour' }), {
    status: 201,
    body: { success: true, data: { tenant_id: 'harbour' } }
  })
  t.match((await platform('GET', '/system/info')).body, {
    engine: { kind: 'embedded' },
    plugins: { admin: true, publish: true, system: true }
  })
  t.equal((await administrator('GET', '/system/info')).status, 403, "a tenant's administrator is not a platform administrator")
})

t.test('only the owner can read the secret and the tokens, and both survive a restart', async (t) => {
  for (const name of ['jwt-secret', 'tokens.env']) t.equal(statSync(`${folder}/${name}`).mode & 0o777, 0o600, name)
  const { body: { pagination: { total } } } = await editor('GET', '/articles')
  const before = tokenOf('EDITOR_TOKEN')
  t.equal(await program.stop(), 0, 'SIGTERM stops it cleanly')

  const again = await startProgram(t, file, { DATA_FOLDER: folder })
  const token = before
  t.match(
    (await callerOf(again.address, token)('GET', '/articles')).body,
    { pagination: { total } },
    'no row is lost, and nothing is seeded twice'
  )

  const second = await runProgram(t, file, { DATA_FOLDER: folder })
  t.equal(second.code, 1)
  t.match(second.output, new RegExp(`in use by process ${again.pid}`))

  t.equal(await again.stop('SIGINT'), 0)
  const production = await runProgram(t, file, { DATA_FOLDER: folder, NODE_ENV: 'production' })
  t.equal(production.code, 1)
  t.match(production.output, 'NODE_ENV=production needs JWT_SECRET')
})

t.test('a port that is in use is reported clearly', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const address = taken.address()
  const port = typeof address === 'object' && address !== null ? String(address.port) : ''
  const { code, output } = await runProgram(t, file, { DATA_FOLDER: folder, PORT: port })
  t.equal(code, 1)
  t.match(output, `port ${port} is in use`)
  t.notMatch(output, /^ +at /m)
})
