/** Wrong documents: all faults are reported at once, and nothing is served. */
import { test } from 'tap'
import { ConfigError } from '../../lib/configuration/index.js'
import { createServer } from '../../lib/server.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { testDocument, testEnv } from '../helpers/server.js'
import { testSecret } from '../helpers/tokens.js'
import { routes, tables } from './document.js'

const logger = false
const env = testEnv

/** The faults of a rejected document, as `pointer: text`. */
function faultsOf (document: unknown, settings: Record<string, string> = {}): string[] {
  try {
    // The argument is deliberately not a document.
    Reflect.apply(createServer, undefined, [document, { env: settings, logger }])
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(({ pointer, message, suggestion }) =>
      `${pointer}: ${message}${suggestion === undefined ? '' : ` (${suggestion})`}`
    )
  }
  return []
}

test('a value that is not a document is rejected', async (t) => {
  for (const document of [null, undefined, 1, 'text', true, [], () => ({}), new Map(), Symbol('x')]) {
    t.not(faultsOf(document).length, 0, String(document))
  }
  t.match(faultsOf({}), [/^\/routes: /])
  const circle: Record<string, unknown> = { routes: [] }
  circle['tables'] = circle
  t.not(faultsOf(circle).length, 0, 'a circle')
  let deep: unknown = 'x'
  for (let depth = 0; depth < 5000; depth++) deep = [deep]
  t.not(faultsOf({ routes: [{ path: '/x', method: 'get', response: { deep } }] }).length, 0, '5000 levels')
  t.not(faultsOf(JSON.parse('{"routes":[],"__proto__":{"x":1}}')).length, 0, 'a prototype')
  t.not(faultsOf({ routes: [{ path: '/x', method: 'get', response: { at: new Date() } }] }).length, 0, 'a Date')
  t.not(faultsOf({ routes: [{ path: '/x', method: 'get', response: { big: 1n } }] }).length, 0, 'a bigint')
})

test('all faults are reported together, with their pointers and the nearest valid names', async (t) => {
  const faults = faultsOf({
    databseProvider: 'postgres',
    jwt: { secret: 'short' },
    pagination: { defaultLimit: -1 },
    server: { bodyLimit: '1mb' },
    routes: [
      { path: 'notes', method: 'get', response: {} },
      { path: '/a', method: 'fetch', response: {} },
      { path: '/b', method: 'get', respones: {}, response: {} },
      { path: '/c', method: 'get' },
      { path: '/d', method: 'get', queries: [{ table: 'notes', operation: 'selct' }] },
      {
        path: '/e',
        method: 'get',
        queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'id', operator: 'equals', value: 1 }] }]
      },
      { path: '/f/:id', method: 'get', response: {} },
      { path: '/f/:name', method: 'get', response: {} },
      { path: '/health', method: 'get', response: {} },
      { path: '/g', method: 'get', requiredPermissions: 'notes:read', response: {} }
    ]
  })
  for (
    const pointer of [
      '/databseProvider',
      '/jwt/secret',
      '/pagination/defaultLimit',
      '/server/bodyLimit',
      '/routes/0/path',
      '/routes/1/method',
      '/routes/2/respones',
      '/routes/3',
      '/routes/4/queries/0/operation',
      '/routes/5/queries/0/filters/0',
      '/routes/7',
      '/routes/8/path',
      '/routes/9/requiredPermissions'
    ]
  ) {
    t.ok(faults.some((fault) => fault.startsWith(pointer)), pointer)
  }
  t.ok(faults.some((fault) => fault.includes('(databaseProvider)')))
  t.ok(faults.some((fault) => fault.includes('(response)')))
  t.notMatch(faults.join('\n'), /"short"|: short/, 'the message does not repeat a secret')
})

test('a route that accepts files needs file storage on the server', async (t) => {
  const form = { path: '/x', method: 'post', response: {}, multipart: true, request: { files: { avatar: {} } } }
  for (const off of [{ files: { enabled: false } }, { plugins: { files: false } }]) {
    t.match(
      faultsOf({ routes: [form], ...off }).join('\n'),
      /\/routes\/0\/multipart: the server does not store files: in its document, remove `enabled: false` from `files`/
    )
  }
})

test('a document that lacks the settings to protect a route does not start', async (t) => {
  t.match(faultsOf({ routes: [{ path: '/x', method: 'get', requireAuth: true, response: {} }] }), [/^\/routes\/0\/requireAuth: .*jwt/])
  t.match(faultsOf({ routes: [{ path: '/x', method: 'get', requiredPermissions: ['a:b'], response: {} }] }), [
    /^\/routes\/0\/requiredPermissions: .*jwt/
  ])
  t.match(
    faultsOf({
      routes: [{ path: '/x', method: 'get', requireAuth: false, requiredPermissions: ['a:b'], response: {} }],
      jwt: { secret: testSecret }
    }),
    [/^\/routes\/0\/requireAuth: /]
  )
  t.match(faultsOf({ routes: [], jwt: { secret: 'x'.repeat(31) } }), [/^\/jwt\/secret: /])
  t.match(faultsOf({ routes: [], jwt: { secret: '{{env.MISSING}}' } }), [/^\/jwt\/secret: .*MISSING/])
  t.match(faultsOf({ routes: [], jwt: {} }, { JWT_SECRET: 'short' }), [/JWT_SECRET|\/jwt\/secret/])
  t.strictSame(faultsOf({ routes: [], jwt: {} }, { JWT_SECRET: testSecret }), [])
})

test('faults of the document alone are reported without a database', async (t) => {
  const faults = faultsOf({
    jwt: { secret: testSecret },
    routes: [
      {
        path: '/a/:id',
        method: 'get',
        queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'id', value: '{{params.key}}' }] }]
      },
      { path: '/b', method: 'get', response: { x: '{{qurey.x}}' } },
      { path: '/c', method: 'delete', queries: [{ table: 'notes', operation: 'delete' }] },
      { path: '/d', method: 'post', cache: { enabled: true }, queries: [{ table: 'notes', operation: 'insert' }] },
      { path: '/e', method: 'get', response: { x: '{{secret:key}}' } }
    ]
  })
  t.match(faults, [
    /^\/routes\/0\/queries\/0\/filters\/0\/value: /,
    /^\/routes\/1\/response\/x: .*\(query\)$/,
    /^\/routes\/2\/queries\/0: /,
    /^\/routes\/3\/cache: /,
    /^\/routes\/4\/response\/x: /
  ])
  t.equal(faults.length, 5)
})

test('a document that does not match the database fails `ready`, with a pointer for every fault', async (t) => {
  const { connectionString } = await postgresDatabase(t, { sql: 'create table notes (id int primary key, title text)' })
  const broken = createServer(
    testDocument({
      tables: { people: tables.people },
      routes: [
        { path: '/a', method: 'get', queries: [{ table: 'ntoes', operation: 'select' }] },
        { path: '/b', method: 'get', queries: [{ table: 'notes', operation: 'select', select: 'id, titel' }] },
        { path: '/c', method: 'get', queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'titl', value: 'x' }] }] },
        { path: '/d', method: 'get', queries: [{ table: 'notes', operation: 'select', order: { column: 'title; drop table notes' } }] },
        { path: '/e', method: 'get', queries: [{ table: 'notes', operation: 'select', select: 'people(*)' }] },
        { path: '/f', method: 'post', queries: [{ table: 'notes', operation: 'insert', data: { titel: 'x' } }] },
        { path: '/g', method: 'get', queries: [{ table: 'documents', operation: 'select' }] },
        { path: '/h', method: 'get', queries: [{ table: 'tenantry.documents', operation: 'select' }] },
        { path: '/i', method: 'get', queries: [{ table: 'pg_class', operation: 'select' }] }
      ]
    }, { provider: 'postgres', postgres: { connectionString } }),
    { env, logger }
  )
  const error: unknown = await broken.ready().then(() => undefined, (error: unknown) => error)
  await broken.close()
  if (!(error instanceof ConfigError)) throw error
  t.match(error.faults.map(({ pointer, suggestion }) => [pointer, suggestion]), [
    ['/routes/0/queries/0/table', 'notes'],
    ['/routes/1/queries/0/select', 'title'],
    ['/routes/2/queries/0/filters/0/column', 'title'],
    [/^\/routes\/3\//],
    [/^\/routes\/4\//],
    ['/routes/5/queries/0/data/titel', 'title'],
    ['/routes/6/queries/0/table'],
    ['/routes/7/queries/0/table'],
    ['/routes/8/queries/0/table']
  ])
  t.equal(error.faults.length, 9)
  t.notMatch(JSON.stringify(error.faults), /relation|SQLSTATE|json_agg/)
})

test('the document of these tests is valid', async (t) => {
  t.strictSame(faultsOf(testDocument({ tables, routes: [...routes] })), [])
})
