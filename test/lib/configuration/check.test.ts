/** checkConfig: rejected documents with their messages, and the configuration of an accepted one. */
import Fastify from 'fastify'
import t from 'tap'
import { checkConfig, ConfigError, environmentOf, isChecked, withSections } from '../../../lib/configuration/index.js'
import type { Route } from '../../../lib/schema/route.js'
import { check, faultsOf, faultsOn, route, secret } from './documents.js'

t.test('the smallest document gets every default', async (t) => {
  t.strictSame(checkConfig({ routes: [] }, { env: {} }), {
    database: { provider: 'embedded', embedded: {} },
    migrate: 'auto',
    tables: {},
    functions: {},
    routes: [],
    pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 },
    cache: { enabled: true, provider: 'memory', ttl: 60, maxSize: 10_000, maxMemoryMB: 64 },
    rateLimit: { enabled: true, plansOnly: true },
    server: { bodyLimit: 1_048_576, maxUnsentBytes: 67_108_864, stopDelayMs: 0, trustProxy: false, writeTimeoutMs: 30_000 },
    tenancy: { provisioning: 'auto', trustHeader: false, sharedTables: [], env: [], overridableEnv: [], maxLoadedTenants: 1000 },
    plans: {},
    plugins: {},
    auth: { registration: 'closed', refreshDays: 30 },
    authProviders: {},
    mfa: {},
    queue: { workers: 4, maxWaitingPerTenant: 100_000 },
    workflows: [],
    webhooks: [],
    egress: { allow: [] },
    files: { buckets: {}, signedUrlSeconds: 3600, onEntityDelete: 'keep' },
    realtime: { tables: {}, maxMessageBytes: 65_536, maxMessagesPerSecond: 50, retentionSeconds: 86_400 },
    storageProvider: 'local',
    rbac: { enabled: false, rolesTable: 'roles', permissionsTable: 'permissions', userRolesTable: 'user_roles' },
    analytics: {
      enabled: false,
      excludePaths: [],
      serviceName: '',
      retentionDays: 30,
      buffer: { enabled: true, flushInterval: 10_000, maxSize: 1000 }
    }
  })
})

t.test('a configuration is deeply frozen and independent of its document', async (t) => {
  const document = { routes: [structuredClone(route)], rateLimit: { enabled: true, default: {} } }
  const config = checkConfig(document, { env: {} })
  t.ok(Object.isFrozen(config) && Object.isFrozen(config.routes[0]!.queries![0]) && Object.isFrozen(config.rateLimit.default))
  document.routes[0]!.path = '/changed'
  t.equal(config.routes[0]!.path, '/notes')
  t.equal(Object.isFrozen(document.routes[0]), false)
})

t.test('a checked configuration is recognized as such, with its environment', async (t) => {
  const env = { NAME: 'value' }
  const config = checkConfig({ routes: [] }, { env })
  t.ok(isChecked(config))
  t.equal(environmentOf(config), env)
  t.notOk(isChecked({ ...config }))
  const other = withSections(config, { migrate: 'manual' })
  t.ok(isChecked(other))
  t.equal(other.migrate, 'manual')
  t.equal(environmentOf(other), env)
  t.equal(config.migrate, 'auto')
})

t.test('every fault is reported at once, with its pointer, the expected value and the nearest name', async (t) => {
  t.strictSame(
    faultsOf({
      databaseProvider: 'postgrse',
      routs: [],
      cache: { enabled: 'yes' },
      pagination: { maxLimit: 0 },
      server: { bodyLimit: 1.5, trustProxy: {} },
      routes: [
        { path: 'notes', methd: 'get', queries: [{ table: 'notes', operation: 'selec' }] },
        {
          path: '/a/b',
          method: 'get',
          queries: [{ table: 'notes', operation: 'select', filters: [{ colum: 'id', value: 1 }, { or: [{ column: 3 }] }, 7] }]
        }
      ]
    }),
    [
      '/databaseProvider: expected one of "postgres", "supabase", "embedded", "firebase", did you mean "postgres"?',
      '/routs: unknown member, did you mean "routes"?',
      '/cache/enabled: expected true or false, got a string',
      '/cache/provider: missing: expected one of "memory", "redis", "lmdb"',
      '/pagination/maxLimit: expected at least 1',
      '/server/bodyLimit: expected an integer, got a number',
      '/server/trustProxy: expected true or false or an integer or a string or an array, got an object',
      '/routes/0/path: expected a path that starts with `/`',
      '/routes/0/methd: unknown member, did you mean "method"?',
      '/routes/0/queries/0/operation: expected one of "select", "insert", "update", "upsert", "delete", "call", did you mean "select"?',
      '/routes/1/queries/0/filters/0/colum: unknown member, did you mean "column"?',
      '/routes/1/queries/0/filters/1/or/0/column: expected a string, got an integer',
      '/routes/1/queries/0/filters/2: expected an object, got an integer'
    ]
  )
})

t.test('the error lists the faults and contains them as data', async (t) => {
  const error: unknown = await Promise.resolve().then(() => checkConfig({ routes: 1, x: 1 }, { env: {} })).catch((error: unknown) => error)
  t.ok(error instanceof ConfigError)
  t.match(error, {
    code: 'TENANTRY_CONFIG_INVALID',
    message: /^the configuration has 2 faults\n\/routes: expected an array, got an integer\n\/x: unknown member: expected one of "\$schema", /,
    faults: [{ pointer: '/routes' }, { pointer: '/x' }]
  })
})

t.test('a value that is not an object is rejected', async (t) => {
  for (const [document, kind] of [[null, 'null'], ['text', 'a string'], [[], 'an array'], [3, 'an integer']] as const) {
    t.strictSame(faultsOn(() => checkConfig(document, { env: {} })), [`/: expected an object, got ${kind}`])
  }
  t.match(faultsOn(() => checkConfig(undefined, { env: {} }))[0], /^\/: expected a JSON value/)
})

t.test('pointers escape special characters of names', async (t) => {
  t.match(faultsOf({ 'a/b~c': 1 }), [/^\/a~1b~0c: unknown member/])
})

t.test('values that JSON cannot represent are rejected', async (t) => {
  const cyclic: Record<string, unknown> = { ...route }
  cyclic.response = { deep: [cyclic] }
  t.strictSame(faultsOf({ routes: [cyclic] }), ['/routes/0/response/deep/0: the value contains itself'])
  t.strictSame(
    faultsOf({
      routes: [{
        ...route,
        response: { a: () => 1, b: new Date(0), c: NaN, d: 1n, e: Symbol('x'), f: Promise.resolve(), g: undefined }
      }]
    }),
    [
      '/routes/0/response/a: expected a JSON value, got a function',
      '/routes/0/response/b: expected an object, array, string, number, boolean or null, got an instance of Date',
      '/routes/0/response/c: NaN is not a valid JSON number',
      '/routes/0/response/d: expected a JSON value, got a bigint',
      '/routes/0/response/e: expected a JSON value, got a symbol',
      '/routes/0/response/f: expected an object, array, string, number, boolean or null, got a promise: await it'
    ]
  )
  t.strictSame(faultsOf({ routes: [{ ...route, response: { shared: route, again: route } }] }), [], 'a repeated object is not circular')
})

t.test('a document that is nested too deeply is rejected, at any depth', async (t) => {
  let deep: unknown = 'end'
  for (let level = 0; level < 100_000; level++) deep = { deep }
  t.match(faultsOf({ routes: [{ ...route, response: deep }] }), [/^\/routes\/0\/response\/deep\/.*: nested more than 64 levels deep$/])
})

t.test('a member __proto__ is rejected and has no effect', async (t) => {
  const document: unknown = JSON.parse('{"routes": [], "cache": {"__proto__": {"enabled": true}, "enabled": true, "provider": "memory"}}')
  t.strictSame(faultsOn(() => checkConfig(document, { env: {} })), ['/cache/__proto__: "__proto__" is not allowed as the name of a member'])
  t.match(faultsOf(JSON.parse('{"constructor": 1, "toString": 2}')), [/^\/constructor: unknown member/, /^\/toString: unknown member/])
})

t.test("the platform's document does not accept sections of tenants' documents", async (t) => {
  t.match(faultsOf({ settings: {} }), [/^\/settings: unknown member/], "settings belong to a tenant's document")
})

t.test('Firestore needs its own section, and tables need a database section', async (t) => {
  t.match(faultsOf({ databaseProvider: 'firebase' }), [/^\/firebase\/projectId: missing/])
  const firebase = { projectId: 'my-app' }
  const postgres = { connectionString: 'postgres://h/d' }
  t.match(faultsOf({ databaseProvider: 'firebase', firebase, postgres, supabase: postgres }), [
    /^\/supabase: the document also has the section `postgres`/
  ])
  for (const name of ['tenants', 'a/b', '..', '__x__']) {
    t.match(faultsOf({ firebase: { ...firebase, sharedCollections: [name] } }), [/^\/firebase\/sharedCollections\/0: /], name)
  }
  t.match(
    faultsOf({ routes: [{ path: '/a', method: 'get', firebaseQueries: [{ collection: 'c', operation: 'query', store: 'firestore' }] }] }),
    [/^\/routes\/0\/firebaseQueries\/0\/store: Firestore is not available/]
  )
  t.match(check({ databaseProvider: 'firebase', firebase, postgres }), {
    database: { provider: 'postgres' },
    firebase: { isDefault: true, databaseId: '(default)' }
  })
  t.match(check({ databaseProvider: 'firebase', firebase }).database, { provider: 'embedded' })
  t.equal(
    check({ firebase: { ...firebase, credentials: { clientEmail: 'a', privateKey: 'line\\nline' } } }).firebase?.credentials?.privateKey,
    'line\nline'
  )
  t.equal(check({ firebase }).firebase?.isDefault, false)
})

t.test('an invalid form of a route does not hide its other faults', async (t) => {
  t.match(faultsOf({ routes: [{ path: '/health', method: 'get', multipart: true, request: { files: {} } }] }), [
    /the built-in endpoint \/health/,
    /the route does nothing/,
    /multipart: a form requires/,
    /multipart: the form has no files: declare them in `request.files`/
  ])
})

t.test('the default page size must not exceed the maximum', async (t) => {
  t.strictSame(faultsOf({ pagination: { defaultLimit: 50, maxLimit: 40 } }), [
    '/pagination/defaultLimit: expected at most `maxLimit`, which is 40'
  ])
  t.strictSame(faultsOf({ pagination: { defaultLimit: 200 } }), ['/pagination/defaultLimit: expected at most `maxLimit`, which is 100'])
  t.strictSame(check({ pagination: { maxLimit: 5 } }).pagination, { defaultLimit: 5, maxLimit: 5, defaultOffset: 0 })
})

t.test('groups of endpoints can be disabled or configured by name', async (t) => {
  t.strictSame(faultsOf({ plugins: { helth: false, health: true, openapi: { titel: 'x' } } }), [
    '/plugins/helth: unknown member, did you mean "health"?',
    '/plugins/health: expected false or an object, got a boolean',
    '/plugins/openapi/titel: unknown member, did you mean "title"?'
  ])
  t.strictSame(check({ plugins: { health: false, migration: {}, openapi: { title: 'Notes' } } }).plugins, {
    health: false,
    migration: {},
    openapi: { title: 'Notes' }
  })
})

t.test('rate limits have defaults, and accept two forms of endpoint names', async (t) => {
  t.match(
    check({
      rateLimit: {
        enabled: true,
        default: { max: 5 },
        perEndpoint: { 'GET /notes': { max: 1 }, '/notes': {}, '/ui': {}, 'POST /migration/apply': {} }
      },
      routes: [route]
    }).rateLimit,
    {
      enabled: true,
      default: { max: 5, windowMs: 60_000 },
      perEndpoint: { 'GET /notes': { max: 1 } }
    }
  )
  t.strictSame(faultsOf({ rateLimit: { enabled: true, perEndpoint: { 'get /notes': {}, notes: {} } } }), [
    '/rateLimit/perEndpoint/get ~1notes: expected `GET /path` or `/path`, the path as it is declared as the name',
    '/rateLimit/perEndpoint/notes: expected `GET /path` or `/path`, the path as it is declared as the name'
  ])
  const perEndpoint = { 'GET /note': {}, '/notes/:id': {}, 'POST /notes': {}, '/health': {}, '/agent/mcp/tools': {} }
  t.strictSame(faultsOf({ rateLimit: { enabled: false, perEndpoint }, plugins: { health: false }, routes: [route] }), [
    '/rateLimit/perEndpoint/GET ~1note: is not a route of this document or a built-in endpoint, did you mean "GET /notes"?',
    '/rateLimit/perEndpoint/~1notes~1:id: is not a route of this document or a built-in endpoint',
    '/rateLimit/perEndpoint/POST ~1notes: is not a route of this document or a built-in endpoint, did you mean "GET /notes"?',
    '/rateLimit/perEndpoint/~1health: is not a route of this document or a built-in endpoint'
  ])
  t.match(
    faultsOf({ rateLimit: { enabled: true, perEndpoint }, routes: [{ ...route, methd: 'get' }] }),
    [/methd/],
    'the endpoint may belong to a route that has faults'
  )
  const hook: Route = { path: '/hook', method: 'post', webhook: { provider: 'github', secret: 'x' }, response: { ok: true } }
  const routes = [
    hook,
    { ...hook, path: '/limited', rateLimit: { max: 5 } },
    { ...route, path: '/own', rateLimit: { max: 5 } },
    { ...route, path: '/both', rateLimit: { max: 5 } },
    { ...route, path: '/both', method: 'delete' as const }
  ]
  const steps = [{ id: 'read', type: 'database', operation: 'select', table: 'notes' }]
  const without = {
    '/health': {},
    'GET /health': {},
    'POST /billing/webhook/payprov': {},
    '/webhooks/billing/altprov': {},
    'POST /hook': {},
    '/in': {},
    '/limited': {},
    'GET /own': {},
    'GET /both': {}
  }
  const effective = { '/both': {}, 'DELETE /both': {}, '/ui': {}, '/realtime': {} }
  t.strictSame(
    faultsOf({
      rateLimit: { enabled: true, perEndpoint: { ...without, ...effective } },
      routes,
      webhooks: [{ name: 'in', path: '/in', provider: 'github', secret: 'x', workflow: { steps } }]
    }),
    [
      '/rateLimit/perEndpoint/~1health: has no effect: this endpoint has no rate limit',
      '/rateLimit/perEndpoint/GET ~1health: has no effect: this endpoint has no rate limit',
      '/rateLimit/perEndpoint/POST ~1billing~1webhook~1payprov: has no effect: this endpoint has no rate limit',
      '/rateLimit/perEndpoint/~1webhooks~1billing~1altprov: has no effect: this endpoint has no rate limit',
      "/rateLimit/perEndpoint/POST ~1hook: has no effect: only the route's own `rateLimit` limits its signed calls",
      '/rateLimit/perEndpoint/~1in: has no effect: signed calls of an entry of `webhooks` have no rate limit',
      '/rateLimit/perEndpoint/~1limited: has no effect: the route has its own `rateLimit`',
      '/rateLimit/perEndpoint/GET ~1own: has no effect: the route has its own `rateLimit`',
      '/rateLimit/perEndpoint/GET ~1both: has no effect: the route has its own `rateLimit`'
    ],
    'names without an effect'
  )
  t.strictSame(faultsOf({ rateLimit: {} }), ['/rateLimit/enabled: missing: expected true or false'])
  t.strictSame(check({ rateLimit: { enabled: true, default: {} } }).rateLimit.default, {
    windowMs: 60_000,
    statusCode: 429,
    skipSuccessfulRequests: false,
    skipFailedRequests: false
  })
  t.equal(check({ rateLimit: { enabled: true } }).rateLimit.default, undefined, "a tenant without a rate limit has only its plan's")
  for (const url of ['redis://127.0.0.1:6379', 'rediss://user:p%2Fw@redis.example.com:6380/2']) {
    t.equal(check({ rateLimit: { enabled: true, redis: { url } } }).rateLimit.redis?.url, url)
  }
  for (const url of ['127.0.0.1:6379', 'http://127.0.0.1', 'redis://', 'redis://a b', 'redis://a/b']) {
    t.strictSame(faultsOf({ rateLimit: { enabled: true, redis: { url } } }), [
      '/rateLimit/redis/url: expected `redis://user:password@host:port/database`'
    ], url)
  }
})

t.test('trustProxy accepts each of its forms', async (t) => {
  for (const trustProxy of [true, 2, '10.0.0.1', ['10.0.0.1', '10.1.0.0/16']]) {
    t.strictSame(check({ server: { trustProxy } }).server.trustProxy, trustProxy)
  }
  t.strictSame(faultsOf({ server: { trustProxy: ['10.0.0.1', 3] } }), ['/server/trustProxy/1: expected a string, got an integer'])
  t.strictSame(faultsOf({ server: { trustProxy: 0 } }), ['/server/trustProxy: expected at least 1'])
})

t.test('an address in trustProxy that Fastify refuses is a fault with its place', async (t) => {
  const expected = 'expected IP addresses or CIDR ranges, such as 10.0.0.0/8, or `loopback`, `linklocal` and `uniquelocal`'
  const valid = ['loopback, 10.0.0.1', '10.0.0.0/255.0.0.0', 'fc00::/7', '::1', ['uniquelocal', 'linklocal', '::ffff:10.0.0.1/104']]
  for (const trustProxy of valid) {
    t.strictSame(faultsOf({ server: { trustProxy } }), [], String(trustProxy))
    t.doesNotThrow(() => Fastify({ trustProxy }), String(trustProxy))
  }
  const invalid = ['nonsense', '10.0.0.1,', '10.0.0.0/33', '10.0.0.0/0', 'fc00::/129', '10.0.0.0/255.0.255.0', 'fc00::/255.0.0.0', '10.0.0.0/x']
  for (const trustProxy of invalid) {
    t.strictSame(faultsOf({ server: { trustProxy } }), [`/server/trustProxy: ${expected}`], trustProxy)
    t.throws(() => Fastify({ trustProxy }), TypeError, trustProxy)
  }
  t.strictSame(faultsOf({ server: { trustProxy: '{{env.PROXY}}' } }, { PROXY: 'my-proxy' }), [`/server/trustProxy: ${expected}`])
  t.strictSame(faultsOf({ server: { trustProxy: ['10.0.0.1', '10.0.0.0/99', '10.0.0.1, 10.0.0.2'] } }), [
    `/server/trustProxy/1: ${expected}`,
    `/server/trustProxy/2: ${expected}`
  ])
})

t.test('JWT_SECRET is the secret if a setting names the algorithm HS256', async (t) => {
  const jwt = { algorithm: "{{env.ALG || 'HS256'}}" }
  for (const env of [{}, { ALG: 'HS256' }]) {
    t.match(check({ jwt }, { JWT_SECRET: secret, ...env }).jwt, { algorithm: 'HS256', secret })
  }
  t.strictSame(faultsOf({ jwt }, { JWT_SECRET: secret, ALG: 'RS256' }), ['/jwt/publicKey: missing: RS256 tokens are verified with a public key'])
})

t.test('the document can name its schema', async (t) => {
  t.strictSame(faultsOf({ $schema: 'node_modules/tenantry/schema.json', jwt: { secret } }), [])
})
