/** A tenant's documents: every fault is reported, and nothing else is accepted. */
import t from 'tap'
import { parseJson } from '../../../lib/json/parse.js'
import { readTenantDocument } from '../../../lib/tenant-document/index.js'
import { check, faultsOf, route } from './documents.js'

t.test('a document is returned with its defaults, and reads the same when it is loaded', async (t) => {
  const documents = [
    {},
    { $schema: 'x', routes: [], settings: { theme: { dark: true }, text: '{{body.x}} {{secret:x}} {{' } },
    {
      routes: [route],
      rateLimit: { enabled: true, perEndpoint: { 'GET /notes': { max: 5 }, '/notes': {} } },
      cache: { enabled: false, provider: 'memory', ttl: 3, maxSize: 10, maxMemoryMB: 0.5 }
    },
    {
      rateLimit: { enabled: false, default: { max: 7 } },
      credentials: { payment: { secretKey: '{{secret:stripe}}' }, sms: { accountSid: 'a', authToken: '{{env.REGION}}', fromNumber: '1' } }
    }
  ]
  for (const document of documents) t.strictSame(readTenantDocument(document), (await check(document)).document)
  t.equal(JSON.stringify((await check({})).document), '{"routes":[],"settings":{},"workflows":[],"webhooks":[]}')
  const { document } = await check(documents[3])
  t.strictSame(document.rateLimit, {
    enabled: false,
    default: { max: 7, windowMs: 60_000, statusCode: 429, skipSuccessfulRequests: false, skipFailedRequests: false }
  })
  t.strictSame(document.credentials?.payment, { secretKey: '{{secret:stripe}}' }, 'templates stay as they are written')
  const frozen = (await check(documents[2])).document
  t.ok(Object.isFrozen(frozen) && Object.isFrozen(frozen.routes) && Object.isFrozen(frozen.routes[0]?.queries))
  t.throws(() => readTenantDocument({ routes: {} }), { code: 'TENANTRY_CONFIG_INVALID' })
  t.throws(() => readTenantDocument({ cache: 1 }), { code: 'TENANTRY_CONFIG_INVALID' })
})

t.test('secrets are found wherever a template can name one, and only there', async (t) => {
  const { secrets } = await check({
    routes: [
      {
        ...route,
        queries: [{
          table: 'notes',
          operation: 'select',
          filters: [{ or: [{ not: { column: 'title', value: '{{query.a || secret:nested.key}}' } }] }]
        }]
      },
      {
        path: '/write',
        method: 'post',
        queries: [{ table: 'notes', operation: 'insert', data: { title: 'x{{secret.OLD-form}}y{{ secret:second }}' } }],
        description: 'A secret.'
      },
      { path: '/rules', method: 'post', request: { body: { a: { pattern: 'secret' } } }, response: { a: 'secret:none' } }
    ],
    credentials: { issues: { baseUrl: 'https://x', email: 'e', apiToken: '{{secret:token || secret:second}}' } },
    settings: { a: '{{secret:never}}' }
  })
  t.strictSame(secrets, ['OLD-form', 'nested.key', 'second', 'token'])
})

t.test('a number that a double would change is a fault with its place', async (t) => {
  const message = 'the number exceeds the precision of a double: write it as a string'
  const n = parseJson('[9007199254740993, 0.12345678901234567890, 9007199254740991, 9007199254740992, 1.50]')
  t.strictSame(await faultsOf({ routes: [{ ...route, response: { n } }] }), [
    `/routes/0/response/n/0: ${message}`,
    `/routes/0/response/n/1: ${message}`
  ])
})

t.test('forbidden members of a document are reported with their place', async (t) => {
  const cases: readonly (readonly [string, unknown, RegExp])[] = [
    ['no object', [], /^\/: expected an object/],
    ['nothing', undefined, /^\/: expected an object/],
    ['unknown members', { rotues: [] }, /^\/rotues: unknown member, did you mean "routes"\?/],
    ['sections of the platform', { jwt: {} }, /^\/jwt: unknown member/],
    ['tables of its own', { tables: {} }, /^\/tables: unknown member/],
    ['routes that are no array', { routes: { 0: route } }, /^\/routes: expected an array, got an object/],
    ['an invalid route', { routes: [null] }, /^\/routes\/0: expected an object, got null/],
    ['a prototype', JSON.parse('{ "settings": { "__proto__": { "a": 1 } } }'), /^\/settings\/__proto__: "__proto__" is not allowed/],
    ['an inherited name', JSON.parse('{ "constructor": {} }'), /^\/constructor: unknown member/],
    ['a webhook without a name', { webhooks: [{ url: 'https://example.com', events: ['entity.*'] }] }, /^\/webhooks\/0\/name: missing/],
    ['two webhooks with one name', {
      webhooks: [{ name: 'a', url: 'https://example.com', events: ['entity.*'] }, {
        name: 'a',
        url: 'https://example.com',
        events: ['entity.*']
      }]
    }, /^\/webhooks\/1\/name: the webhook \/webhooks\/0 already has this name/],
    [
      'a webhook for unknown events',
      { webhooks: [{ name: 'a', url: 'https://example.com', events: ['entity.create'] }] },
      /^\/webhooks\/0\/events\/0: .*did you mean "entity.created"/
    ],
    [
      'a webhook without an address',
      { webhooks: [{ name: 'a', url: 'example.com', events: ['entity.*'] }] },
      /^\/webhooks\/0\/url: expected an absolute URL/
    ],
    [
      'a webhook to another protocol',
      { webhooks: [{ name: 'a', url: 'ftp://example.com', events: ['entity.*'] }] },
      /^\/webhooks\/0\/url: expected an http or https URL/
    ],
    [
      'a webhook with a password in its address',
      { webhooks: [{ name: 'a', url: 'https://a:b@example.com', events: ['entity.*'] }] },
      /^\/webhooks\/0\/url: .*user name or password/
    ],
    [
      'a webhook that reads a request',
      { webhooks: [{ name: 'a', url: 'https://example.com/{{body.x}}', events: ['entity.*'] }] },
      /^\/webhooks\/0\/url: .*`body` is not available here/
    ],
    ['a webhook with a private setting of the platform', {
      webhooks: [{ name: 'a', url: 'https://example.com', events: ['entity.*'], secret: '{{env.JWT_SECRET}}' }]
    }, /^\/webhooks\/0\/secret: .*JWT_SECRET/],
    ['too many webhooks', {
      webhooks: Array.from({ length: 21 }, (_, index) => ({ name: `a${index}`, url: 'https://example.com', events: ['entity.*'] }))
    }, /^\/webhooks: expected at most 20 items/],
    [
      'an integration without a connector',
      { routes: [{ path: '/a', method: 'post', integrations: [{ type: 'emial', action: 'sendEmail' }] }] },
      /^\/routes\/0\/integrations\/0\/type: there is no connector "emial".*did you mean "email"/
    ],
    ['an integration without credentials', {
      routes: [{ path: '/a', method: 'post', integrations: [{ type: 'chat', action: 'sendMessage', params: { text: 'x' } }] }]
    }, /^\/routes\/0\/integrations\/0\/type: the connector needs `credentials.chat`/],
    ['a connector with a used name', {
      customIntegrations: [{ name: 'stripe', baseUrl: 'https://x', actions: { a: { method: 'GET', path: '/' } } }]
    }, /^\/customIntegrations\/0\/name: "stripe" is a built-in connector/],
    ["the cache's location", { cache: { enabled: true, redis: { url: 'redis://127.0.0.1' } } }, /^\/cache\/redis: unknown member/],
    [
      'a secret in a description',
      { routes: [{ ...route, description: '{{secret:a}}' }] },
      /^\/routes\/0\/description: a template is not allowed here/
    ],
    [
      "a setting in a table's name",
      { routes: [{ ...route, queries: [{ table: '{{env.REGION}}', operation: 'select' }] }] },
      /^\/routes\/0\/queries\/0\/table: a template is not allowed here/
    ],
    [
      'a private setting of the platform',
      { routes: [{ path: '/a', method: 'get', response: { a: '{{env.JWT_SECRET}}' } }] },
      /^\/routes\/0\/response\/a: .*JWT_SECRET/
    ],
    [
      'its older form',
      { routes: [{ path: '/a', method: 'get', response: { a: '$' + '{JWT_SECRET}' } }] },
      /^\/routes\/0\/response\/a: .*JWT_SECRET/
    ],
    [
      'with a default',
      { routes: [{ path: '/a', method: 'get', response: { a: '{{env.JWT_SECRET || 1}}' } }] },
      /^\/routes\/0\/response\/a: .*JWT_SECRET/
    ],
    [
      'a secret in a response',
      { routes: [{ path: '/a', method: 'get', response: { a: '{{secret:a}}' } }] },
      /^\/routes\/0\/response\/a: .*secret/
    ],
    [
      'another provider of tokens',
      { routes: [{ ...route, authProvider: 'firebase' }] },
      /^\/routes\/0\/authProvider: no identity provider of that name: expected "jwt"$/
    ],
    [
      'a missing table',
      { routes: [{ ...route, queries: [{ table: 'note', operation: 'select' }] }] },
      /^\/routes\/0\/queries\/0\/table: .*did you mean "notes"/
    ],
    [
      'a system table',
      { routes: [{ ...route, queries: [{ table: 'tenantry.secrets', operation: 'select' }] }] },
      /^\/routes\/0\/queries\/0\/table: /
    ],
    [
      'a table that is not shared',
      { routes: [{ ...route, queries: [{ table: 'ledgers', operation: 'select' }] }] },
      /^\/routes\/0\/queries\/0\/table: .*sharedTables/
    ],
    [
      'a write to a shared table',
      { routes: [{ path: '/a', method: 'post', queries: [{ table: 'countries', operation: 'insert' }] }] },
      /^\/routes\/0\/queries\/0/
    ],
    ['a pattern with catastrophic backtracking', {
      routes: [{ path: '/a', method: 'post', request: { body: { a: { type: 'string', pattern: '^(a)\\1$' } } }, response: {} }]
    }, /^\/routes\/0\/request\/body\/a\/pattern: /],
    [
      'two routes with one path',
      { routes: [{ ...route, path: '/:a' }, { ...route, path: '/:b' }] },
      /^\/routes\/1: the route GET \/:b is already declared at \/routes\/0/
    ],
    ['credentials of another kind', { credentials: { strip: {} } }, /^\/credentials\/strip: unknown member/],
    ['credentials from a request', { credentials: { email: { apiKey: '{{body.key}}' } } }, /^\/credentials\/email\/apiKey: .*body/],
    [
      'credentials from a private setting of the platform',
      { credentials: { email: { apiKey: '{{env.JWT_SECRET}}' } } },
      /^\/credentials\/email\/apiKey: .*JWT_SECRET/
    ],
    ['a broken template', { credentials: { email: { apiKey: '{{secret:' } } }, /^\/credentials\/email\/apiKey: .*at character/],
    [
      'a rule for a missing route',
      { routes: [route], rateLimit: { enabled: true, perEndpoint: { 'POST /notes': {}, '/health': {} } } },
      /^\/rateLimit\/perEndpoint\/POST ~1notes: is not a route of this document, did you mean/
    ],
    [
      'a rule for a route with its own rule',
      { routes: [{ ...route, rateLimit: { max: 5 } }], rateLimit: { enabled: true, perEndpoint: { 'GET /notes': {} } } },
      /^\/rateLimit\/perEndpoint\/GET ~1notes: has no effect: the route has its own `rateLimit`/
    ],
    [
      'a rule for a webhook',
      {
        webhooks: [{
          name: 'in',
          path: '/in',
          provider: 'github',
          secret: '{{secret:hook}}',
          workflow: { steps: [{ id: 'read', type: 'database', operation: 'select', table: 'notes' }] }
        }],
        rateLimit: { enabled: true, perEndpoint: { '/in': {} } }
      },
      /^\/rateLimit\/perEndpoint\/~1in: has no effect: signed calls of an entry of `webhooks` have no rate limit/
    ],
    ['an invalid rule', { rateLimit: { enabled: true, default: { max: 0 } } }, /^\/rateLimit\/default\/max: expected at least 1/]
  ]
  for (const [label, document, fault] of cases) t.match((await faultsOf(document))[0], fault, label)
  t.strictSame(
    await faultsOf({
      routes: [{
        ...route,
        public: false,
        description: 'as in {"a":{"b":1}}, for $' + '{5}',
        queries: [{ table: 'countries', operation: 'select' }]
      }]
    }),
    [],
    'shared tables can be read'
  )
  t.strictSame(await faultsOf({ credentials: { email: { apiKey: '{{env.UNSET}}' } } }), [], 'a secret may replace a setting')
})

t.test('all faults are reported together, at most a hundred', async (t) => {
  const faults = await faultsOf({
    settings: 1,
    routes: [{ ...route, methd: 'x' }, { ...route, path: 'a' }, { ...route, path: '/b', queries: [{ table: 'x', operation: 'select' }] }]
  })
  t.match(faults, [/^\/settings/, /^\/routes\/0\/methd/, /^\/routes\/1\/path/, /^\/routes\/2\/queries\/0\/table/])
  t.equal((await faultsOf({ credentials: Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`x${index}`, 1])) })).length, 100)
  t.equal((await faultsOf({ routes: Array.from({ length: 150 }, () => ({ ...route, methd: 1 })) })).length, 100)
})
