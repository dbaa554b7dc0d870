/** `tenantry client`: the generated client compiles under strict options, and works against a server. */
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { WebSocket } from 'ws'
import type { ConfigInput } from '../../lib/index.js'
import { createServer } from '../../lib/server.js'
import { blocksOf, page } from '../docs/markdown.js'
import { testEnv as environment } from '../helpers/server.js'
import { signToken, testSecret } from '../helpers/tokens.js'
import { root } from '../helpers/typescript.js'
import { here } from './tenantry.js'

const document: ConfigInput = {
  name: 'Notes */ of a team',
  jwt: { secret: testSecret },
  tables: {
    notes: {
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        tenant_id: { type: 'text', notNull: true },
        text: { type: 'text', notNull: true }
      }
    }
  },
  realtime: { tables: { notes: {} } },
  files: { path: '{{env.FILES}}' },
  routes: [
    { path: '/notes', method: 'get', requireAuth: true, queries: [{ table: 'notes', operation: 'select' }] },
    {
      path: '/notes',
      method: 'post',
      requireAuth: true,
      request: { body: { text: { type: 'string', required: true } } },
      queries: [{ table: 'notes', operation: 'insert' }]
    }
  ]
}

// Below the project, where the packages are found.
const fixtures = join(dirname(realpathSync(join(root, 'package.json'))), '.tap', 'fixtures')
mkdirSync(fixtures, { recursive: true })
const folder = mkdtempSync(join(fixtures, 'client-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
writeFileSync(join(folder, 'tenantry.json'), JSON.stringify(document))
const testEnv = { ...environment, FILES: join(folder, 'files') }
const tenant = { sub: 'ada', role: 'admin', tenant_id: 'acme' }

/** Compiles programs beside the client, and returns their faults. */
function faultsOf (programs: Record<string, string>): string[] {
  for (const [name, text] of Object.entries(programs)) writeFileSync(join(folder, name), text)
  const options: ts.CompilerOptions = {
    strict: true,
    skipLibCheck: false,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    types: ['node'],
    outDir: join(folder, 'out')
  }
  const program = ts.createProgram(Object.keys(programs).map((name) => join(folder, name)), options)
  program.emit()
  return ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
}

t.test('the client of a document compiles, and its types reject calls that the API would reject', async (t) => {
  const out = join(folder, 'api.ts')
  t.match(await here(['client', join(folder, 'tenantry.json'), '--out', out], testEnv), {
    code: 0,
    output: { length: 0 },
    errors: [`Wrote ${out}. It needs openapi-fetch: npm i openapi-fetch`]
  })
  const documented = blocksOf(page('docs/guides/client.md')).filter(({ language }) => language === 'ts').map(({ text }) => text)
  t.equal(documented.length, 3)
  t.strictSame(
    faultsOf({
      'rest.ts': documented[0] ?? '',
      'files.ts': documented[1] ?? '',
      'messages.ts': documented[2] ?? '',
      'refused.ts': `import { createApi, sendRealtime, type RealtimeSocket } from './api.js'
const api = createApi({ baseUrl: 'http://127.0.0.1:3000' })
declare const socket: RealtimeSocket
// @ts-expect-error a body without its required field
await api.POST('/notes', { body: { txt: 'x' } })
// @ts-expect-error a text in place of a file
await api.POST('/files/upload', { body: { file: 'x' } })
// @ts-expect-error a path that the API lacks
await api.GET('/note')
// @ts-expect-error a watch without a table
sendRealtime(socket, { type: 'watch' })
`
    }),
    []
  )
})

t.test('--out creates the folder of its file', async (t) => {
  const out = join(folder, 'src', 'generated', 'api.ts')
  t.match(await here(['client', join(folder, 'tenantry.json'), '--out', out], testEnv), { code: 0 })
  t.equal(readFileSync(out, 'utf8'), readFileSync(join(folder, 'api.ts'), 'utf8'))
})

t.test('the client calls the API and reads realtime', async (t) => {
  const app = createServer(document, { env: testEnv, logger: false })
  t.teardown(() => app.close())
  const baseUrl = await app.listen({ port: 0, host: '127.0.0.1' })
  const token = signToken(tenant)
  const { createApi, onRealtime, realtimeProtocols, sendRealtime, toForm } = await import(pathToFileURL(join(folder, 'out', 'api.js')).href)

  let asked = 0
  const api = createApi({
    baseUrl,
    token: async () => {
      asked++
      return token
    }
  })
  const socket = new WebSocket(`${baseUrl.replace('http', 'ws')}/realtime`, realtimeProtocols(token))
  t.teardown(() => socket.close())
  const changed = new Promise<{ record: { text: string } }>((resolve) => {
    onRealtime(socket, (message: { type: string, record: { text: string } }) => {
      if (message.type === 'ready') sendRealtime(socket, { type: 'watch', table: 'notes', ref: 1 })
      if (message.type === 'ack') api.POST('/notes', { body: { text: 'Buy bread' } }).catch(t.fail)
      if (message.type === 'change') resolve(message)
    })
  })
  t.equal((await changed).record.text, 'Buy bread')
  t.match(await api.GET('/notes', { params: { query: { limit: 1 } } }), { data: { data: [{ text: 'Buy bread' }] } })
  t.equal(asked, 2, 'the token is read before each request')
  const body = { file: new File(['hello'], 'a.txt', { type: 'text/plain' }), metadata: { pages: 1 }, bucket: undefined }
  t.match(await api.POST('/files/upload', { body, bodySerializer: toForm }), { data: { name: 'a.txt', size: 5, metadata: { pages: 1 } } })
  t.match(await createApi({ baseUrl, tenant: 'acme' }).GET('/notes'), { error: { error: 'Unauthorized' } })
  t.match(await createApi({ baseUrl, apiKey: 'wrong' }).GET('/notes'), { error: { message: /API key/ } })

  const sent: Request[] = []
  const platform = createApi({
    baseUrl,
    token,
    tenant: 'acme',
    fetch: async (request: Request) => {
      sent.push(request)
      return Response.json({})
    }
  })
  await platform.GET('/notes', { params: { header: { 'X-Tenant-ID': 'globex' } } })
  await platform.GET('/notes', { headers: { authorization: 'Bearer other' } })
  await platform.GET('/notes')
  t.strictSame(sent.map(({ headers }) => [headers.get('x-tenant-id'), headers.get('authorization')]), [
    ['globex', `Bearer ${token}`],
    ['acme', 'Bearer other'],
    ['acme', `Bearer ${token}`]
  ], 'the headers of a call have precedence')
})

t.test("the client of a running server has the routes of the token's tenant", async (t) => {
  const app = createServer(document, { env: testEnv, logger: false })
  t.teardown(() => app.close())
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const token = signToken(tenant)
  const saved = await app.inject({
    method: 'POST',
    url: '/tenant/config',
    headers: { authorization: `Bearer ${token}` },
    payload: { routes: [{ path: '/mine', method: 'get', response: { a: 1 } }] }
  })
  t.equal(saved.statusCode, 200, saved.body)
  const out = join(folder, 'tenant.ts')
  t.match(await here(['client', url, '--out', out]), { code: 0 })
  t.notMatch(readFileSync(out, 'utf8'), '"/mine"')
  t.match(await here(['client', `${url}/doc`, '--out', out, '--token', token]), { code: 0 })
  t.match(readFileSync(out, 'utf8'), '"/mine"')
})

t.test('names and references of a hostile server do not become code or read files', async (t) => {
  const pages: Record<string, unknown> = {}
  const other = createHttpServer((request, response) => {
    const page = pages[request.url ?? '']
    if (page === undefined) response.statusCode = 404
    response.end(JSON.stringify(page))
  })
  let reads = 0
  other.on('request', ({ url }) => {
    if (url === '/secret.json') reads++
  })
  other.listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const address = other.address()
  const url = `http://127.0.0.1:${address !== null && typeof address === 'object' ? address.port : 0}`
  const openApi = (schema: object) => ({
    openapi: '3.1.0',
    info: { title: 'x', version: '1' },
    paths: {},
    components: { schemas: { A: { type: 'object', additionalProperties: schema } } }
  })

  pages['/doc'] = openApi({ type: 'string' })
  const payload = { type: 'object' }
  pages['/doc/realtime'] = { components: { messages: { "client.X'];globalThis.hacked = true//": { payload } } } }
  t.match(await here(['client', url]), { code: 1, output: { length: 0 }, errors: [/^the response is not an OpenAPI document/] })
  delete pages['/doc/realtime']

  pages['/secret.json'] = { type: 'string', enum: ['a secret'] }
  const secret = join(folder, 'secret.json')
  writeFileSync(secret, JSON.stringify(pages['/secret.json']))
  for (const reference of [`${url}/secret.json`, secret, '../secret.json']) {
    const schemas = [
      { $ref: reference },
      { type: 'string', example: { externalValue: reference } },
      { oneOf: [{ type: 'object' }], discriminator: { propertyName: 'kind', mapping: { a: reference } } }
    ]
    for (const schema of schemas) {
      pages['/doc'] = openApi(schema)
      t.match(await here(['client', url]), {
        code: 1,
        output: { length: 0 },
        errors: [`the OpenAPI document refers to "${reference}": expected references within the document only`]
      })
    }
  }
  t.equal(reads, 0, 'no address of the document is read')
})

t.test('a client that cannot be written is an error with the reason', async (t) => {
  const other = createHttpServer((request, response) => {
    if (request.url === '/page/doc') return response.end('<html>')
    if (request.url === '/other/doc') return response.end('{"info": {}}')
    if (request.url === '/broken/doc') response.statusCode = 500
    if (request.url === '/none/doc') response.statusCode = 404
    response.end()
  })
  other.listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const address = other.address()
  const url = `http://127.0.0.1:${address !== null && typeof address === 'object' ? address.port : 0}`
  const cases: Array<[string[], RegExp]> = [
    [[`${url}/none`, '--out', join(folder, 'missing', 'api.ts')], /\/none\/doc does not exist: expected the address of a tenantry server$/],
    [[`${url}/broken`], /responded to GET .*\/broken\/doc with 500$/],
    [[`${url}/page`], /did not respond with JSON/],
    [[`${url}/other`], /^the response is not an OpenAPI document: expected the address of a tenantry server$/],
    [['http://127.0.0.1:1'], /^http:\/\/127\.0\.0\.1:1\/doc cannot be reached: /],
    [['http://'], /^"http:\/\/" is not a URL$/],
    [[join(folder, 'tenantry.json'), '--token', 'x'], /^--token needs the URL of a server$/],
    [[join(folder, 'tenantry.json'), '--out', join(folder, 'package.json', 'api.ts')], /package\.json\/api\.ts cannot be written: EEXIST/]
  ]
  for (const [words, message] of cases) {
    const { code, errors } = await here(['client', ...words], testEnv)
    t.equal(code, 1)
    t.match(errors[0], message)
  }
  t.notOk(existsSync(join(folder, 'missing')), 'no folder is left')
})
