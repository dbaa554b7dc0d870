/** Rules of documents beyond their schema. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { reservedPaths } from '../../../lib/document/reserved.js'
import { keyPair } from '../../helpers/tokens.js'
import { check, faultsOf, faultsOfRoutes, route, secret } from './documents.js'

const constant = { method: 'get', response: { ok: true } }

t.test('paths and methods are unique, regardless of parameter names', async (t) => {
  t.strictSame(
    faultsOfRoutes(
      { path: '/a/:x', ...constant },
      { path: '/a/:y', ...constant, method: 'GET' },
      { path: '/a/:x', ...constant, method: 'post' },
      { path: '/a/b', ...constant }
    ),
    ['/routes/1: the route GET /a/:y is already declared at /routes/0; routes must differ in more than the names of parameters']
  )
})

t.test('a path consists of plain segments and whole parameters', async (t) => {
  const fault = (path: string) => faultsOfRoutes({ path, ...constant }).map((line) => line.replace('/routes/0/path: ', ''))
  for (const path of ['/', '/a', '/a.b-c_d~e/:id', '/a/:id/b/:other_2', '/a@b', '/v1/files']) t.strictSame(fault(path), [], path)
  t.strictSame(fault('/a/'), ['a path cannot end with "/"'])
  t.strictSame(fault('/a//b'), ['a path cannot have empty segments'])
  t.strictSame(fault('/a/../b'), ['a path cannot have the segments "." and ".."'])
  t.strictSame(fault('/a/*'), ['a path cannot have wildcards; `:name` matches one segment'])
  t.strictSame(fault('/a/:'), ['":" is not a valid parameter: expected ":" and a name of letters, digits and underscores'])
  t.strictSame(fault('/a/:a-:b'), ['":a-:b" is not a valid parameter: expected ":" and a name of letters, digits and underscores'])
  t.strictSame(fault('/a/:id(^\\d+$)'), [
    '":id(^\\d+$)" is not a valid parameter: expected ":" and a name of letters, digits and underscores'
  ])
  t.strictSame(fault('/a/x:id'), ['in "x:id" the parameter must be the whole segment'])
  t.strictSame(fault('/a/:id/:id'), ['the parameter ":id" appears twice in the path'])
  t.strictSame(fault('/a/{id}'), ['"{id}" is not a parameter: write ":id"'])
  t.strictSame(fault('/a b'), ['"a b" contains a character that must be percent-encoded in a path'])
  t.strictSame(fault('/a%20b'), ['"a%20b" contains a character that must be percent-encoded in a path'])
  t.strictSame(fault('/a?b=c'), ['"a?b=c" contains a character that must be percent-encoded in a path'])
  t.strictSame(fault('//'), ['a path cannot end with "/"'])
})

t.test('the paths of built-in endpoints are reserved, and no others', async (t) => {
  const fault = (path: string) => faultsOfRoutes({ path, ...constant })
  for (
    const [path, builtIn] of [
      ['/health', '/health'],
      ['/tenants/:any', '/tenants/:id'],
      ['/tenants/acme', '/tenants/:id'],
      ['/ui/page', '/ui/*'],
      ['/files/download/bucket/a/b', '/files/download/:bucket/*'],
      ['/migration', '/migration'],
      ['/tenant/secrets/:key', '/tenant/secrets/:key']
    ]
  ) {
    t.match(fault(path!), [
      new RegExp(`^/routes/0/path: the path is used by the built-in endpoint ${builtIn!.replaceAll('*', '\\*')}: choose another path`)
    ])
  }
  t.strictSame(fault('/health'), [
    '/routes/0/path: the path is used by the built-in endpoint /health: choose another path, or disable those endpoints: `plugins: { "health": false }`'
  ])
  t.strictSame(fault('/tenants'), ['/routes/0/path: the path is used by the built-in endpoint /tenants: choose another path'])
  for (const path of ['/:any', '/tenant/:any', '/healthy', '/health/live', '/files', '/files/a/b', '/admin/users', '/auth/me/photo']) {
    t.strictSame(fault(path), [], path)
  }
})

t.test('the path of a disabled group is free', async (t) => {
  t.strictSame(
    faultsOf({
      plugins: { health: false, usage: false },
      routes: [{ path: '/health', ...constant }, { path: '/usage/summary', ...constant }, { path: '/doc', ...constant }]
    }).map((fault) => fault.slice(0, 75)),
    ['/routes/2/path: the path is used by the built-in endpoint /doc: choose anot']
  )
  const report = { path: '/billing/usage', ...constant }
  t.strictSame(faultsOf({ plugins: { usage: false }, routes: [report] }), [])
  t.strictSame(faultsOf({ plugins: { billing: false }, routes: [report] }), [], 'it belongs to both groups')
  t.strictSame(faultsOf({ routes: [report] }), [
    '/routes/0/path: the path is used by the built-in endpoint /billing/usage: choose another path, or disable those endpoints: `plugins: { "billing": false }` or `plugins: { "usage": false }`'
  ])
})

t.test('every listed endpoint is reserved', async (t) => {
  const list = '../shared/endpoints.json'
  let endpoints: { path: string }[]
  try {
    endpoints = JSON.parse(readFileSync(list, 'utf8'))
  } catch {
    t.pass('the list is not on this machine')
    return
  }
  const reserved = new Set(reservedPaths.map(({ path }) => path))
  t.strictSame(endpoints.map(({ path }) => path.replace(/\{(\w+)\}/g, ':$1')).filter((path) => !reserved.has(path)), [])
})

t.test('a route must do something, and its queries need a table', async (t) => {
  t.strictSame(faultsOfRoutes({ path: '/a', method: 'get' }), [
    '/routes/0: the route does nothing: expected `queries`, `firebaseQueries`, `integrations`, `workflow`, `realtime` or `response`'
  ])
  t.strictSame(faultsOfRoutes({ path: '/a', method: 'get', queries: [] }), ['/routes/0/queries: expected an array that is not empty'])
  t.strictSame(
    faultsOfRoutes({
      path: '/a',
      method: 'get',
      queries: [{ operation: 'select' }, { table: ' ', operation: 'select' }],
      firebaseQueries: [{ operation: 'get' }]
    }),
    [
      '/routes/0/queries/0/table: missing: expected the table of the query',
      '/routes/0/queries/1/table: missing: expected the table of the query',
      '/routes/0/firebaseQueries/0/collection: missing: expected the collection of the query'
    ]
  )
})

t.test('faults in templates, expressions and rules of a route are reported with all others, without a database', async (t) => {
  const select = { table: 'notes', operation: 'select' }
  t.strictSame(
    faultsOf({
      pagination: { maxLimit: 0 },
      routes: [
        { ...route, methd: 'get' },
        {
          path: '/b/:id',
          method: 'get',
          queries: [
            {
              ...select,
              filters: [{ column: 'id', value: '{{params.idd}}' }, { or: [{ column: 'a', value: '{{results.notes.data}}' }] }],
              limit: '{{quer.n}}'
            },
            { ...select, alias: 'second', id: '{{bdy.id}}', filters: [{ column: 'a', value: '{{results.notes.data}}' }] },
            { ...select }
          ],
          request: { query: { code: { pattern: '(' } }, params: { idd: {} } },
          transform: { fields: { a: 'item.x +' } },
          response: { a: '{{results.secnd}}', b: '{{steps.one}}', c: '{{env.NOT_SET}}' },
          cache: { enabled: true, varyBy: ['quer.lang'] }
        },
        {
          path: '/c',
          method: 'post',
          queries: [{ table: 'notes', operation: 'insert', data: { title: '{{bdy.title}}' }, order: { column: 'a' } }]
        },
        {
          path: '/d',
          method: 'put',
          queries: [{ table: 'notes', operation: 'upsert', filters: [{ column: 'id', value: '{{params.id}}' }] }]
        },
        {
          path: '/e',
          method: 'put',
          firebaseQueries: [{ collection: 'notes', operation: 'set', docId: '{{params.id}}', data: { a: '{{bdy.a}}' } }, {
            operation: 'get'
          }]
        }
      ]
    }).map((fault) => fault.replace(/: .*?(, did you mean .*)?$/, '$1')),
    [
      '/pagination/maxLimit',
      '/routes/0/methd, did you mean "method"?',
      '/routes/4/firebaseQueries/1/collection',
      '/routes/1/queries/0/filters/0/value, did you mean "id"?',
      '/routes/1/queries/0/filters/1/or/0/value',
      '/routes/1/queries/0/limit, did you mean "query"?',
      '/routes/1/queries/1/id, did you mean "body"?',
      '/routes/1/queries/2',
      '/routes/1/request/params/idd, did you mean "id"?',
      '/routes/1/request/query/code/pattern',
      '/routes/1/transform/fields/a',
      '/routes/1/response/a, did you mean "second"?',
      '/routes/1/response/b',
      '/routes/1/response/c',
      '/routes/1/cache/varyBy/0, did you mean "query"?',
      '/routes/2/queries/0/order',
      '/routes/2/queries/0/data/title, did you mean "body"?',
      '/routes/3/queries/0/filters/0/value',
      '/routes/4/firebaseQueries/0/docId',
      '/routes/4/firebaseQueries/0/data/a, did you mean "body"?'
    ]
  )
})

t.test('tools need unique names, and members that do not collide', async (t) => {
  const tool = (path: string, mcp: unknown = true, other: object = {}) => ({ path, ...constant, mcp, ...other })
  t.strictSame(faultsOfRoutes(tool('/a/:id'), tool('/a/id'), { ...tool('/a'), method: 'post' }, tool('/b', { name: 'get_a_id2' })), [])
  t.strictSame(faultsOfRoutes(tool('/a', { name: 'x' }), tool('/b', { name: 'x' })), [
    '/routes/1/mcp: the tool "x" is already declared at /routes/0: give one of them another `name`'
  ])
  t.strictSame(faultsOfRoutes(tool('/a/:id'), tool('/b', { name: 'get_a_by_id' })), [
    '/routes/1/mcp: the tool "get_a_by_id" is already declared at /routes/0: give one of them another `name`'
  ])
  t.strictSame(faultsOfRoutes(tool('/a', { name: 'no name' })), ['/routes/0/mcp/name: expected 1 to 64 of A-Z a-z 0-9 _ -'])
  t.strictSame(faultsOfRoutes(tool('/a/:id', true, { request: { query: { id: {} } } })), [
    '/routes/0/mcp: the path and the query string of a tool must have different names, but both have "id"'
  ])
  t.strictSame(faultsOfRoutes(tool('/a/:body')), ['/routes/0/mcp: a parameter of a tool cannot have the name "body"'])
  t.strictSame(faultsOfRoutes(...Array.from({ length: 251 }, (_, index) => tool(`/a${index}`))), [
    '/routes/250/mcp: a document can have at most 250 tools'
  ])
  const long = Array.from({ length: 2 }, (_, index) => tool(`/${'long'.repeat(20)}${index}`))
  t.strictSame(faultsOfRoutes(...long), [], 'long names stay distinct')
})

t.test('a storage without its section names the members of the section', async (t) => {
  const s3 = { region: 'auto', bucket: 'files', accessKeyId: 'id', secretAccessKey: 'secret' }
  for (const storageProvider of ['s3', 'supabase', 'r2', 'both']) {
    t.strictSame(faultsOf({ storageProvider, routes: [] }), [
      `/s3: missing: \`storageProvider\` is \`${storageProvider}\`: expected an object with \`region\`, \`bucket\`, \`accessKeyId\` and \`secretAccessKey\``
    ])
    t.strictSame(faultsOf({ storageProvider, s3, routes: [] }), [])
  }
})

t.test('the cache accepts only the section of its provider', async (t) => {
  const redis = { url: 'redis://:hunter2@localhost:6379/1' }
  const lmdb = { dbPath: 'cache' }
  const cache = (members: object) => faultsOf({ cache: { enabled: true, provider: 'memory', ...members } })
  for (
    const fine of [{}, { provider: 'redis', redis }, { provider: 'redis', redis: { url: 'rediss://example.com' } }, {
      provider: 'lmdb',
      lmdb
    }]
  ) t.strictSame(cache(fine), [], JSON.stringify(fine))
  t.strictSame(cache({ provider: 'redis' }), ['/cache/redis/url: missing: expected the URL of Redis, such as `redis://127.0.0.1:6379`'])
  t.strictSame(cache({ provider: 'lmdb' }), ['/cache/lmdb/dbPath: missing: expected the folder of the file'])
  t.match(cache({ provider: 'redis', redis: {} }), [/^\/cache\/redis\/url: missing/])
  t.match(cache({ provider: 'lmdb', lmdb: { dbPath: '' } }), [/^\/cache\/lmdb\/dbPath: /])
  t.strictSame(cache({ redis }), ['/cache/redis: is not used: the `provider` is "memory"'])
  t.strictSame(cache({ provider: 'redis', redis, lmdb }), ['/cache/lmdb: is not used: the `provider` is "redis"'])
  t.match(cache({ provider: 'Redis', redis }), [/^\/cache\/provider: .*"redis"/])
  for (const url of ['http://:hunter2@localhost', 'localhost:6379', 'redis://', 'redis://h/one', '']) {
    const [fault, ...more] = cache({ provider: 'redis', redis: { url } })
    t.match([fault, more], [/^\/cache\/redis\/url: expected/, { length: 0 }], url)
    t.notMatch(fault, /hunter2/)
  }
  for (
    const url of [
      'redis://%zz:hunter2@localhost',
      'redis://me:hunter2%@localhost',
      'redis://:hunter2@localhost:99999',
      'redis://:hunter2@[::1'
    ]
  ) {
    const fault =
      '/redis/url: is not valid: expected `redis://user:password@host:port/database`, a port of at most 65535, and `%25` for a `%` in user or password'
    t.strictSame(cache({ provider: 'redis', redis: { url } }), [`/cache${fault}`], url)
    t.strictSame(faultsOf({ rateLimit: { enabled: true, redis: { url } } }), [`/rateLimit${fault}`], url)
  }
  t.strictSame(cache({ provider: 'redis', redis: { url: 'redis://m%25:hunter%252@localhost' } }), [])
  for (const bounds of [{ maxSize: 0 }, { maxSize: 1.5 }, { maxMemoryMB: 0 }, { maxMemoryMB: -1 }, { ttl: 0 }]) {
    t.equal(cache(bounds).length, 1, JSON.stringify(bounds))
  }
})

t.test('a route that writes is not cached', async (t) => {
  const fault = '/routes/0/cache: a route that writes cannot be cached: a cached response would skip the write'
  const cached = { path: '/a', method: 'get', cache: { enabled: true } }
  t.strictSame(faultsOfRoutes({ ...cached, queries: [{ table: 'notes', operation: 'insert', data: { title: 'x' } }] }), [fault])
  t.strictSame(faultsOfRoutes({ ...cached, firebaseQueries: [{ collection: 'docs', operation: 'add' }] }), [fault])
})

t.test('a disabled cache is validated too', async (t) => {
  const cached = { ...route, cache: { enabled: false, varyBy: ['quer.lang'] } }
  t.match(faultsOfRoutes(cached), [/^\/routes\/0\/cache\/varyBy\/0: .* did you mean "query"\?$/])
  t.strictSame(faultsOfRoutes({ path: '/a', method: 'post', response: {}, cache: { enabled: false } }), [
    '/routes/0/cache: only a `get` route can be cached'
  ])
  t.match(
    faultsOf({ cache: { enabled: false, provider: 'memory' }, routes: [{ ...cached, cache: { enabled: true, varyBy: ['quer.lang'] } }] }),
    [/varyBy\/0: /]
  )
})

t.test('a setting of a route that has no effect is a fault', async (t) => {
  t.strictSame(faultsOfRoutes({ ...route, transform: {} }), [
    '/routes/0/transform: the transform does not compute anything: expected `fields`'
  ])
  t.strictSame(faultsOfRoutes({ ...route, transform: { operations: [{ type: 'compute', fields: {} }] } }), [
    '/routes/0/transform: the transform does not compute anything: expected `fields`'
  ])
  t.match(faultsOfRoutes({ ...constant, path: '/a', transform: { fields: { a: 'result.b' } } }), [
    /^\/routes\/0\/transform: the response has nothing to compute from/
  ])
  t.strictSame(faultsOfRoutes({ ...route, request: { body: { a: {} } } }), ['/routes/0/request/body: a `get` request cannot have a body'])
  const remove = { path: '/a/:id', method: 'delete', queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }] }
  t.strictSame(faultsOfRoutes({ ...remove, softDelete: { enabled: true, allowHardDelete: true } }), [])
  t.strictSame(faultsOfRoutes({ ...remove, softDelete: { enabled: false } }), [])
  t.match(faultsOfRoutes({ ...route, softDelete: { enabled: true } }), [/^\/routes\/0\/softDelete: no query of the route deletes/])
  t.match(faultsOfRoutes({ ...remove, softDelete: { enabled: false, allowHardDelete: true } }), [
    /^\/routes\/0\/softDelete\/allowHardDelete: /
  ])
})

t.test('a route that requires a token needs keys', async (t) => {
  const routes = [{ ...route, requireAuth: true }, { ...route, path: '/b', requiredPermissions: ['a:b'] }, {
    ...route,
    path: '/c',
    requiredPermissions: [],
    requireAuth: false
  }]
  const missing = 'tokens cannot be verified: the document needs a section `jwt`, or the environment the setting JWT_SECRET'
  t.strictSame(faultsOf({ routes }), [`/routes/0/requireAuth: ${missing}`, `/routes/1/requiredPermissions: ${missing}`])
  t.strictSame(faultsOf({ routes }, { JWT_SECRET: secret }), [])
  t.strictSame(
    faultsOf({ routes, jwt: { secret: 'short' } }),
    ['/jwt/secret: expected at least 32 characters'],
    'a section with faults counts as present'
  )
  t.match(faultsOfRoutes({ ...route, requireAuth: false, requiredPermissions: ['a:b'] }), [
    /^\/routes\/0\/requireAuth: the route has `requiredPermissions`/
  ])
})

t.test('a limit per user requires a route with users', async (t) => {
  const resourceLimit = { resource: 'llm', metric: 'tokens' }
  for (const open of [{}, { requireAuth: false }, { requiredPermissions: [] }]) {
    t.strictSame(faultsOfRoutes({ ...route, ...open, resourceLimit }), [
      '/routes/0/resourceLimit: limits require a caller with a token: set `requireAuth`'
    ])
  }
  for (const closed of [{ requireAuth: true }, { requiredPermissions: ['a:b'] }]) {
    t.strictSame(faultsOfRoutes({ ...route, ...closed, resourceLimit }), [])
  }
  t.match(faultsOf({ routes: [{ ...route, requireAuth: true, resourceLimit }], plugins: { 'resource-limits': false } }), [
    '/routes/0/resourceLimit: the document disables limits: remove `"resource-limits": false` from its `plugins`'
  ])
  const faults = faultsOfRoutes({ ...route, requireAuth: true, resourceLimit: { resource: 'a b', metric: '', amount: 1.5, limit: 3 } })
  t.strictSame(faults.map((fault) => fault.slice(0, fault.indexOf(':'))), [
    '/routes/0/resourceLimit/resource',
    '/routes/0/resourceLimit/metric',
    '/routes/0/resourceLimit/amount',
    '/routes/0/resourceLimit/limit'
  ])
})

t.test('the token keys must match each other', async (t) => {
  const rsa = keyPair('RS256')
  const ec = keyPair('ES256')
  const faults = (jwt: unknown) => faultsOf({ jwt })
  t.strictSame(faults({}), ['/jwt/secret: missing: expected a `secret` (or the setting JWT_SECRET), or a `publicKey`'])
  t.strictSame(faults({ secret: 'x'.repeat(31) }), ['/jwt/secret: expected at least 32 characters'])
  t.strictSame(faults({ secret, algorithm: 'RS256' }), ['/jwt/publicKey: missing: RS256 tokens are verified with a public key'])
  t.strictSame(faults({ secret, privateKey: rsa.privateKey }), ['/jwt/privateKey: a private key requires its `publicKey`'])
  t.strictSame(faults({ secret, publicKey: rsa.publicKey }), ['/jwt/secret: a secret is not used with a `publicKey`: remove one of them'])
  t.strictSame(faults({ publicKey: rsa.publicKey, algorithm: 'ES256' }), [
    '/jwt/algorithm: the public key is for RS256, did you mean "RS256"?'
  ])
  t.strictSame(faults({ publicKey: rsa.publicKey, algorithm: 'HS256' }), [
    '/jwt/algorithm: the public key is for RS256, did you mean "RS256"?'
  ])
  t.match(faults({ publicKey: 'no key' }), [/^\/jwt\/publicKey: expected a public key in PEM/])
  t.strictSame(faults({ publicKey: rsa.publicKey, privateKey: ec.privateKey }), [
    '/jwt/privateKey: expected the private key of `publicKey`, in PEM'
  ])
  t.equal(check({ jwt: { publicKey: ec.publicKey, privateKey: ec.privateKey } }).jwt?.algorithm, 'ES256')
  t.equal(
    check({ jwt: { publicKey: rsa.publicKey } }, { JWT_SECRET: secret }).jwt?.secret,
    undefined,
    'JWT_SECRET is ignored beside a public key'
  )
})

t.test('the database is the named one, or that of the present section', async (t) => {
  const postgres = { connectionString: 'postgres://h/d' }
  t.match(check({ postgres }).database, {
    provider: 'postgres',
    postgres: {
      ...postgres,
      schema: 'public',
      preparedStatements: true,
      rowLevelSecurity: false,
      pool: { max: 10, acquireTimeoutMs: 5000, statementTimeoutMs: 30_000 }
    }
  })
  t.equal(check({ supabase: postgres }).database.provider, 'postgres')
  t.equal(check({ postgres, databaseProvider: 'embedded' }).database.provider, 'embedded')
  t.strictSame(faultsOf({ postgres, supabase: postgres }), [
    '/databaseProvider: missing: the document has the sections `postgres` and `supabase`; select one of them'
  ])
  t.strictSame(faultsOf({
    postgres: { ...postgres, schema: 'tenantry' }
  }), ['/postgres/schema: "tenantry" is reserved: choose another schema for the application'])
  t.strictSame(faultsOf({ postgres: { ...postgres, ssl: { rejectUnauthorised: false } } }), [
    '/postgres/ssl/rejectUnauthorised: unknown member, did you mean "rejectUnauthorized"?'
  ])
})

t.test('the start runs migrations, except on PostgreSQL in production', async (t) => {
  const production = { NODE_ENV: 'production' }
  const postgres = { connectionString: 'postgres://h/d' }
  t.equal(check({ postgres }).migrate, 'auto')
  t.equal(check({ postgres }, production).migrate, 'manual')
  t.equal(check({ postgres, migrate: 'auto' }, production).migrate, 'auto')
  t.equal(check({}, production).migrate, 'auto')
  t.equal(check({ migrate: 'manual' }).migrate, 'manual')
})

t.test('declared tables are validated', async (t) => {
  const id = { type: 'uuid', primaryKey: true }
  const faults = (tables: unknown, members = {}) => faultsOf({ tables, ...members })
  t.strictSame(
    faults({
      authors: { columns: { id, name: { type: 'text', unique: true } } },
      notes: {
        tenantScoped: true,
        softDelete: true,
        columns: {
          id: { ...id, default: 'uuid()' },
          author_id: { type: 'uuid', references: 'authors.id' },
          at: { type: 'timestamptz', default: 'now()' },
          other: { type: 'uuid', references: 'found_in_the_database.id' }
        },
        indexes: [['author_id'], ['tenant_id', 'deleted_at']],
        unique: [['tenant_id', 'at']]
      }
    }, { postgres: { connectionString: 'postgres://h/d' } }),
    []
  )
  t.strictSame(
    faults({
      notes: {
        columns: {
          id,
          a: { type: 'uuid', references: 'notes.ix' },
          b: { type: 'text', references: 'notes.id' },
          c: { type: 'uuid', references: 'notes.a' },
          d: { type: 'uuid', references: 'notes' }
        }
      }
    }),
    ['/tables/notes/columns/d/references: expected `table.column`']
  )
  t.strictSame(
    faults({
      notes: {
        columns: {
          id,
          a: { type: 'uuid', references: 'notes.ix' },
          b: { type: 'text', references: 'notes.id' },
          c: { type: 'uuid', references: 'notes.a' }
        }
      }
    }),
    [
      '/tables/notes/columns/a/references: the table "notes" has no column "ix", did you mean "id"?',
      '/tables/notes/columns/b/references: the column has the type "text", but the referenced column has the type "uuid"',
      '/tables/notes/columns/c/references: "notes.a" is not unique: a foreign key requires a primary key, or a column with `unique: true`'
    ]
  )
  t.strictSame(faults({ authors: { columns: { id } }, notes: { columns: { id, a: { type: 'uuid', references: 'author.id' } } } }), [
    '/tables/notes/columns/a/references: there is no table "author", did you mean "authors"?'
  ], 'the embedded engine has only these tables')
  t.match(
    faults({ authors: { colums: {} }, notes: { columns: { id, a: { type: 'uuid', references: 'authors.id' } } } }),
    [/colums/],
    'a declaration with faults counts as declared'
  )
  t.match(faults({ notes: { columns: { id: { type: 'uid', primaryKey: true } } } }), [
    /^\/tables\/notes\/columns\/id\/type: expected one of "text", .*, did you mean "uuid"\?$/
  ])
  t.strictSame(faults({ notes: { columns: { name: { type: 'text' } } } }), [
    '/tables/notes/columns: the table has no primary key: expected `primaryKey: true` on one or more columns'
  ])
  t.strictSame(faults({ notes: { columns: {} } }), ['/tables/notes/columns: expected at least one member'])
  t.strictSame(faults({ notes: { columns: { id }, indexes: [['idd'], ['id', 'id']], unique: [[]] } }), [
    '/tables/notes/unique/0: expected an array that is not empty'
  ])
  t.strictSame(faults({ notes: { columns: { id }, indexes: [['idd'], ['id', 'id']] } }), [
    '/tables/notes/indexes/0/0: the table has no column "idd", did you mean "id"?',
    '/tables/notes/indexes/1/1: the column "id" is duplicated'
  ])
  t.strictSame(faults({ 'my notes': { columns: { id } }, pg_notes: { columns: { id, 'a-b': { type: 'text' } } } }), [
    '/tables/my notes: expected a name of 1 to 63 letters, digits and underscores that does not start with a digit as the name',
    '/tables/pg_notes/columns/a-b: expected a name of 1 to 63 letters, digits and underscores that does not start with a digit as the name'
  ])
  t.strictSame(faults({ pg_notes: { columns: { id } } }), ['/tables/pg_notes: names that start with "pg_" are reserved by PostgreSQL'])
  t.strictSame(
    faults({ notes: { tenantScoped: false, softDelete: true, columns: { id, tenant_id: { type: 'uuid' }, deleted: { type: 'text' } } } }),
    [
      '/tables/notes/columns/tenant_id/type: the tenant of a row is a string: expected "text"',
      '/tables/notes/tenantScoped: a table with a column `tenant_id` is tenant-scoped: rename the column, or remove this',
      '/tables/notes/columns/deleted/type: with `softDelete` expected "boolean"'
    ]
  )
  t.strictSame(faults({ notes: { columns: { id, a: { type: 'integer', default: 'uuid()' }, b: { type: 'text', default: 'now()' } } } }), [
    '/tables/notes/columns/a/default: `uuid()` is not a value of the type "integer"',
    '/tables/notes/columns/b/default: `now()` is not a value of the type "text"'
  ])
})

t.test("a column's default is a literal of its type, or a function", async (t) => {
  const faults = (type: string, value: unknown) =>
    faultsOf({ tables: { notes: { columns: { id: { type: 'uuid', primaryKey: true }, a: { type, default: value } } } } }).map((fault) =>
      fault.replace('/tables/notes/columns/a/default: ', '')
    )
  const right: [string, unknown][] = [
    ['integer', 5],
    ['integer', '5'],
    ['bigint', '9007199254740993'],
    ['numeric', 1.5],
    ['numeric', '1.50'],
    ['boolean', false],
    ['text', ''],
    ['text', 'abc'],
    ['uuid', 'uuid()'],
    ['uuid', '8f14e45f-ceea-467f-a0e6-8a3f6a1f9c10'],
    ['timestamptz', 'now()'],
    ['timestamptz', '2026-01-31T12:00:00Z'],
    ['date', 'infinity'],
    ['jsonb', { a: [1] }],
    ['jsonb', []],
    ['text[]', []],
    ['text[]', ['a']],
    ['text[]', '{a,b}'],
    ['integer[]', [1, 2]],
    ['interval', '1 day'],
    ['text', null]
  ]
  for (const [type, value] of right) t.strictSame(faults(type, value), [], `${type} ${JSON.stringify(value)}`)
  t.strictSame(faults('integer', 'abc'), ['expected an integer (integer)'])
  t.strictSame(faults('smallint', 40_000), ['expected an integer (smallint)'])
  t.strictSame(faults('boolean', 'maybe'), ['expected true or false'])
  t.strictSame(faults('uuid', 'gen_random_uuid()'), ['expected a UUID, did you mean "uuid()"?'])
  t.match(faults('timestamptz', 'CURRENT_TIMESTAMP'), [/^expected a date and time, .*did you mean "now\(\)"\?$/])
  t.match(faults('date', '2026-02-30'), [/^expected a date/])
  const once = 'each row would get the time of the migration'
  for (const [type, value] of [['timestamptz', 'NOW()'], ['timestamp', 'now'], ['time', 'NOW()']]) {
    t.strictSame(faults(type!, value), [`${once}, did you mean "now()"?`], `${type} ${value}`)
  }
  for (const value of ['today', 'tomorrow', "now() + interval '30 days'"]) t.strictSame(faults('timestamptz', value), [once], value)
  t.strictSame(faults('text', { a: 1 }), ['expected a string'])
  t.strictSame(faults('integer[]', ['a']), ['expected an array (integer[])'])
})

t.test('mails need a connector that sends them, pages for their links, and templates whose values exist', async (t) => {
  const withMail = (mail: object, further: object = {}, env = {}) =>
    faultsOf({
      jwt: { secret },
      credentials: { email: { apiKey: 'key' }, sms: { accountSid: 'a', authToken: 'b', fromNumber: '+1' } },
      auth: { mail: { connector: 'email', from: 'a@example.com', ...mail }, ...further }
    }, env)
  const app = { APP_URL: 'https://app.example.com' }
  t.strictSame(withMail({}, {}, app), [])
  t.strictSame(
    withMail({}, { links: { reset: 'https://a.example.com/r', verify: 'http://localhost:3000', invite: 'https://a.example.com/i?x=1' } }),
    []
  )
  t.match(withMail({}, { links: { reset: 'https://a.example.com/r' } }), [
    /^\/auth\/links\/verify: is missing: .*APP_URL.*\/verify-email/,
    /^\/auth\/links\/invite/
  ])
  for (const link of ['example.com', 'javascript:alert(1)', 'https://a.example.com/#x', 'https://user:pass@example.com']) {
    t.match(withMail({}, { links: { reset: link } }, app), [/^\/auth\/links\/reset: expected the URL of a page/], link)
  }
  t.match(withMail({}, {}, { APP_URL: 'app' }), [/^\/auth\/links: the setting APP_URL/])
  t.match(
    withMail({}, {}, { APP_URL: 'https://app.example.com/?page=1' }),
    [/^\/auth\/links: the setting APP_URL .*without a query string/],
    'the paths of the pages would be appended to the query string'
  )
  t.match(withMail({ connector: 'emial' }, {}, app), [/^\/auth\/mail\/connector: there is no connector "emial".*did you mean "email"/])
  t.match(withMail({ connector: 'sms' }, {}, app), [
    /^\/auth\/mail\/connector: the connector sms cannot send mail: expected a connector with the action `sendEmail`/
  ])
  t.match(faultsOf({ jwt: { secret }, auth: { mail: { connector: 'email', from: 'a@example.com' } } }, app), [
    /^\/auth\/mail\/connector: the connector needs `credentials.email`/
  ])
  const text = 'x {{link}}'
  t.strictSame(withMail({ templates: { reset: { subject: '{{email}} {{tenant}}', text, html: text } } }, {}, app), [])
  t.match(withMail({ templates: { reset: { subject: 'x', text: '{{lnk}}' } } }, {}, app), [
    /^\/auth\/mail\/templates\/reset\/text: `{{lnk}}` is not a placeholder.*did you mean "link"/,
    /expected the placeholder {{link}}/
  ])
  t.match(withMail({ templates: { invite: { subject: '{{link}}', text, html: 'x' } } }, {}, app), [
    /invite\/subject: a subject cannot contain a link/,
    /invite\/html: expected the placeholder/
  ])
  t.match(withMail({ from: 'Ada <a@example.com>' }, {}, app), [/^\/auth\/mail\/from: .*expected an e-mail address/])
})

t.test('open registration requires logins', async (t) => {
  const open = { registration: 'open' }
  const unsigned = [
    '/auth/registration: is `open` without a signing key for tokens: expected a key in the section `jwt`, or the setting JWT_SECRET'
  ]
  const { publicKey, privateKey } = keyPair('ES256')
  t.strictSame(faultsOf({ jwt: { secret }, auth: open }), [])
  t.strictSame(faultsOf({ jwt: { publicKey, privateKey }, auth: open }), [])
  t.strictSame(faultsOf({ auth: open }), unsigned)
  t.strictSame(faultsOf({ jwt: { publicKey }, auth: open }), unsigned)
  t.strictSame(faultsOf({ jwt: { secret }, auth: open, plugins: { login: false } }), [
    '/auth/registration: is `open`, but `plugins.login` is false: change one of them'
  ])
  t.strictSame(faultsOf({ auth: { registration: 'closed' } }), [])
  t.strictSame(faultsOf({ auth: {}, plugins: { login: false } }), [])
})

t.test('shared tables must be tables of the platform', async (t) => {
  const tables = {
    plans: { columns: { id: { type: 'text', primaryKey: true } } },
    notes: { tenantScoped: true, columns: { id: { type: 'text', primaryKey: true } } },
    drafts: { columns: { id: { type: 'text', primaryKey: true }, tenant_id: { type: 'text' } } }
  }
  t.strictSame(faultsOf({ tables, tenancy: { sharedTables: ['plans', 'notes', 'drafts', 'plan'] } }), [
    '/tenancy/sharedTables/1: each row of "notes" belongs to a tenant, so tenants\' documents can already use it: only tables of the platform can be shared',
    '/tenancy/sharedTables/2: each row of "drafts" belongs to a tenant, so tenants\' documents can already use it: only tables of the platform can be shared',
    '/tenancy/sharedTables/3: there is no table "plan", did you mean "plans"?'
  ])
  t.strictSame(
    faultsOf({ postgres: { connectionString: 'postgres://u@h/d' }, tables, tenancy: { sharedTables: ['other'] } }),
    [],
    'the database may have it'
  )
  t.match(faultsOf({ tables, tenancy: { sharedTables: ['plans', 'plans'] } }), ['/tenancy/sharedTables/1: duplicate value'])
})

t.test("tenants cannot read the server's own settings", async (t) => {
  t.strictSame(faultsOf({ tenancy: { env: ['REGION', 'JWT_SECRET', 'SECRETS_MASTER_KEY'], overridableEnv: ['STRIPE_KEY'] } }), [
    '/tenancy/env/1: the setting JWT_SECRET belongs to the server: tenants cannot read it',
    '/tenancy/env/2: the setting SECRETS_MASTER_KEY belongs to the server: tenants cannot read it'
  ])
  t.match(faultsOf({ tenancy: { env: ['A-B', 'C', 'C'] } }), [
    /^\/tenancy\/env\/2: duplicate value/,
    /^\/tenancy\/env\/0: expected the name of a setting/
  ])
  t.match(faultsOf({ tenancy: { maxLoadedTenants: 0, provisioning: 'never' } }), [
    /maxLoadedTenants: expected at least 1/,
    /provisioning: expected one of "auto", "explicit"/
  ])
})

t.test('mcp needs an address without a path, and prompts with declared arguments', async (t) => {
  const faults = (mcp: object) => faultsOf({ mcp: { url: 'https://api.example.com', ...mcp } })
  t.strictSame(faults({}), [])
  for (
    const url of [
      'https://api.example.com/',
      'https://api.example.com/v1',
      'https://API.example.com',
      'https://api.example.com:443',
      'ftp://a',
      'api.example.com'
    ]
  ) {
    t.match(faults({ url }), [/^\/mcp\/url: expected a URL without a path/], url)
  }
  t.match(faults({ prompts: [{ name: 'a', text: '{{week}}', arguments: [{ name: 'weak' }] }] }), [
    /^\/mcp\/prompts\/0\/text: the prompt has no argument "week", did you mean "weak"\?/
  ])
  t.match(faults({ prompts: [{ name: 'a', text: 'x' }, { name: 'a', text: 'x', arguments: [{ name: 'b' }, { name: 'b' }] }] }), [
    /^\/mcp\/prompts\/1\/name: duplicate name/,
    /^\/mcp\/prompts\/1\/arguments\/1\/name: duplicate name/
  ])
  t.match(faults({ url: '{{env.PUBLIC_URL}}' }), [/PUBLIC_URL/])
})
