/* eslint-disable no-template-curly-in-string -- the documents hold `${NAME}` as it is */
/** Environment settings in a document. */
import t from 'tap'
import { check, faultsOf, route, secret } from '../configuration/documents.js'

t.test('a template is replaced by its setting, in both syntaxes, also inside a text', async (t) => {
  const env = { HOST: 'db.example', PASSWORD: 'p&ss', NAME: 'api' }
  t.match(check({ postgres: { connectionString: 'postgres://u:{{env.PASSWORD}}@${HOST}/{{ env.NAME }}' } }, env).database, {
    postgres: { connectionString: 'postgres://u:p&ss@db.example/api' }
  })
})

t.test("a value that is a single template gets its member's type", async (t) => {
  const env = {
    LIMIT: '2048',
    PROXY: 'true',
    HOPS: '2',
    ADDRESS: '10.0.0.1',
    TTL: '0.5',
    RLS: 'false',
    MODE: 'manual',
    DATABASE_URL: 'postgres://h/d'
  }
  t.equal(check({ server: { bodyLimit: '{{env.LIMIT}}' } }, env).server.bodyLimit, 2048)
  t.equal(check({ server: { trustProxy: '{{env.PROXY}}' } }, env).server.trustProxy, true)
  t.equal(check({ server: { trustProxy: '${HOPS}' } }, env).server.trustProxy, 2)
  t.equal(check({ server: { trustProxy: '{{env.ADDRESS}}' } }, env).server.trustProxy, '10.0.0.1')
  t.equal(check({ cache: { enabled: '{{env.PROXY}}', provider: 'memory', ttl: '{{env.TTL}}' } }, env).cache.ttl, 0.5)
  t.equal(
    check({ databaseProvider: 'postgres', postgres: { rowLevelSecurity: '{{env.RLS}}' } }, env).database.postgres?.rowLevelSecurity,
    false
  )
  t.equal(check({ migrate: '{{env.MODE}}' }, env).migrate, 'manual')
  t.equal(check({ jwt: { secret, issuer: '{{env.LIMIT}}' } }, env).jwt?.issuer, '2048', 'it stays a text if the member is a text')
})

t.test('a default replaces a missing or empty setting', async (t) => {
  t.equal(check({ server: { bodyLimit: '{{env.LIMIT || 4096}}' } }, {}).server.bodyLimit, 4096)
  t.equal(check({ server: { bodyLimit: '{{env.LIMIT || 4096}}' } }, { LIMIT: '' }).server.bodyLimit, 4096)
  t.equal(check({ server: { bodyLimit: '{{env.LIMIT || env.OTHER || 4096}}' } }, { OTHER: '99' }).server.bodyLimit, 99)
  t.equal(check({ embedded: { dbPath: "{{env.DATA || '.data'}}" } }, {}).database.embedded?.dbPath, '.data')
  const ttl = '{{env.TTL || 0.50000000000000000001}}'
  t.equal(check({ cache: { enabled: true, provider: 'memory', ttl } }, {}).cache.ttl, 0.5, 'a number is a double')
  t.equal(check({ jwt: { secret, issuer: 'no. {{env.NO || 9007199254740993}}' } }, {}).jwt?.issuer, 'no. 9007199254740993')
})

t.test('a missing setting is a fault that names it', async (t) => {
  t.strictSame(faultsOf({ server: { bodyLimit: '{{env.LIMIT}}' }, embedded: { dbPath: '${DATA}/db' } }), [
    "/server/bodyLimit: the setting LIMIT is not set: set it in the environment, or give a default as in `{{env.LIMIT || 'default'}}`",
    "/embedded/dbPath: the setting DATA is not set: set it in the environment, or give a default as in `{{env.DATA || 'default'}}`"
  ])
})

t.test('a missing setting with a similar name suggests that one', (t) => {
  t.strictSame(faultsOf({ jwt: { secret: '{{env.JWT_SECRT}}' } }, { JWT_SECRET: secret }), [
    '/jwt/secret: the setting JWT_SECRT is not set, did you mean "JWT_SECRET"? If not, set it in the environment, or in .env beside the document'
  ])
  t.match(faultsOf({ jwt: { secret: '{{env.SMTP_HOST}}' } }, { SMTP_PORT: '25' }), [/SMTP_HOST is not set: set it in the environment/])
  t.match(faultsOf({ jwt: { secret: '{{env.JWT_SECRET}}' } }, { JWT_SECRE: secret }), [/JWT_SECRET is not set: put `JWT_SECRET=`/])
  t.end()
})

t.test('an invalid setting is a fault that names it without its value', async (t) => {
  const faults = faultsOf({ server: { bodyLimit: '{{env.LIMIT}}' }, jwt: { secret: '{{env.KEY}}' }, migrate: '{{env.MODE}}' }, {
    LIMIT: '1 MB',
    KEY: 'hunter2',
    MODE: 'hunter2'
  })
  t.strictSame(faults, [
    '/server/bodyLimit: expected an integer, got a string (set by LIMIT)',
    '/jwt/secret: expected at least 32 characters (set by KEY)',
    '/migrate: expected one of "auto", "manual" (set by MODE)'
  ])
})

t.test("a setting's value is never parsed as a template", async (t) => {
  const env = { A: '{{env.B}} and ${B}', B: 'secret' }
  t.equal(check({ embedded: { dbPath: '{{env.A}}' } }, env).database.embedded?.dbPath, '{{env.B}} and ${B}')
  t.equal(check({ jwt: { secret, issuer: '{{env.A}}' } }, env).jwt?.issuer, '{{env.B}} and ${B}')
  t.equal(check({ embedded: { dbPath: 'x {{env.A}}' } }, env).database.embedded?.dbPath, 'x {{env.B}} and ${B}')
})

t.test('other sources and broken templates are faults outside of routes', async (t) => {
  t.strictSame(faultsOf({ embedded: { dbPath: '{{body.path}}' }, server: { trustProxy: '{{env.X' } }), [
    '/embedded/dbPath: `body.path` is not allowed here: expected a setting, `{{env.NAME}}`',
    '/server/trustProxy: `{{` is not closed with `}}` (at character 1)'
  ])
  t.match(faultsOf({ embedded: { dbPath: '{{secret:path}}' } }), [/is not allowed here/])
  t.match(faultsOf({ embedded: { dbPath: '{{env.A.b}}' } }, { A: 'x' }), [/is not allowed here/])
})

t.test('names of Object.prototype are not settings', async (t) => {
  t.match(faultsOf({ embedded: { dbPath: '{{env.constructor}}' } }), [/the setting constructor is not set/])
})

t.test('in routes, request templates are left to the compiler, and settings elsewhere are resolved', async (t) => {
  const [first] = check({
    routes: [{
      path: '/{{env.PREFIX}}/notes/:id',
      method: 'get',
      description: 'of ${PREFIX}',
      queries: [{
        table: '{{env.TABLE}}',
        operation: 'select',
        id: '{{params.id}}',
        filters: [{ column: 'a', value: ['{{env.TABLE}}', { deep: '{{body.x}}' }] }]
      }],
      cache: { enabled: true, ttl: '{{env.TTL}}', key: '{{query.code}}', varyBy: ['{{auth.sub}}'] },
      request: { query: { code: { type: 'string', pattern: '^[${x}{{a}}]{2}$', enum: ['{{a}}'] }, b: { type: 'string' } } },
      transform: { fields: { total: 'item.a + {{query.b}}' } },
      response: { all: '{{results.notes}}' }
    }]
  }, { PREFIX: 'v1', TABLE: 'notes', TTL: '5' }).routes
  t.match(first, {
    path: '/v1/notes/:id',
    description: 'of v1',
    queries: [{ table: 'notes', id: '{{params.id}}', filters: [{ value: ['{{env.TABLE}}', { deep: '{{body.x}}' }] }] }],
    cache: { ttl: 5, key: '{{query.code}}', varyBy: ['{{auth.sub}}'] },
    request: { query: { code: { pattern: '^[${x}{{a}}]{2}$', enum: ['{{a}}'] } } },
    transform: { fields: { total: 'item.a + {{query.b}}' } },
    response: { all: '{{results.notes}}' }
  })
})

t.test('JWT_SECRET is the default secret of a document', async (t) => {
  const env = { JWT_SECRET: secret }
  t.equal(check({}, env).jwt?.secret, secret)
  t.match(check({ jwt: { expiresIn: 60 } }, env).jwt, { secret, expiresIn: 60, algorithm: 'HS256' })
  t.equal(check({ jwt: { secret: `${secret}!` } }, env).jwt?.secret, `${secret}!`)
  t.strictSame(faultsOf({}, { JWT_SECRET: 'short' }), ['/jwt/secret: expected at least 32 characters (set by JWT_SECRET)'])
  t.equal(check({}, { JWT_SECRET: '' }).jwt, undefined)
  t.equal(check({}, { JWT_SECRET: `{{env.X}} \${Y} ${secret}` }).jwt?.secret, `{{env.X}} \${Y} ${secret}`)
})

t.test("DATABASE_URL is PostgreSQL's default address, and is ignored with the embedded engine", async (t) => {
  const env = { DATABASE_URL: 'postgres://h/d' }
  t.match(check({ databaseProvider: 'postgres' }, env).database, {
    provider: 'postgres',
    postgres: { connectionString: 'postgres://h/d', schema: 'public' }
  })
  t.match(check({ databaseProvider: 'supabase', supabase: { pool: { max: 3 } } }, env).database, {
    provider: 'postgres',
    postgres: { connectionString: 'postgres://h/d', pool: { max: 3 } }
  })
  t.match(check({ postgres: { connectionString: 'postgres://other/d' } }, env).database.postgres, {
    connectionString: 'postgres://other/d'
  })
  t.equal(check({}, env).database.provider, 'embedded')
  t.strictSame(faultsOf({ databaseProvider: 'postgres' }), [
    '/postgres/connectionString: missing: expected the URL of the database, here or as the setting DATABASE_URL'
  ])
  t.strictSame(faultsOf({ databaseProvider: 'postgres' }, { DATABASE_URL: 'mysql://h' }), [
    '/postgres/connectionString: expected `postgres://user:password@host:port/database` (set by DATABASE_URL)'
  ])
})

t.test('settings work in lists of any values and in provider names', async (t) => {
  t.equal(check({ databaseProvider: '{{env.KIND}}', postgres: {} }, { KIND: 'embedded' }).database.provider, 'embedded')
  t.strictSame(faultsOf({ routes: [{ ...route, tags: ['{{env.TAG}}', '{{params.id}}'] }] }, { TAG: 'a' }), [
    '/routes/0/tags/1: `params.id` is not allowed here: expected a setting, `{{env.NAME}}`'
  ])
})
