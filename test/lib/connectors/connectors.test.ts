/** Connectors as data, without a server: faults of a document, and the requests of calls. */
import t from 'tap'
import { routeSources } from '../../../lib/compiler/route-parts.js'
import { builtIn } from '../../../lib/connectors/built-in/index.js'
import {
  compileConnectors,
  type CompiledCall,
  type ConnectorsContext,
  type ConnectorsDocument,
  type ConnectorSet
} from '../../../lib/connectors/index.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { FaultList, formatFault } from '../../../lib/schema/faults.js'
import type { ConnectorAction } from '../../../lib/schema/integrations.js'
import { page } from '../../docs/markdown.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'

const env = { KEY: 'key of the platform', HOST: 'api.example.com' }
const emptyScope: Scope = {
  body: {},
  params: {},
  query: {},
  headers: {},
  auth: null,
  tenant: null,
  secrets: new Map(),
  results: {},
  fullAccess: false
}
const tenant = (secrets: Readonly<Record<string, string | null>> = {}): Scope => ({
  ...emptyScope,
  tenant: scopeTenant('a'),
  secrets: new Map(Object.entries(secrets))
})

function setOf (document: ConnectorsDocument, context: Partial<ConnectorsContext> = {}): ConnectorSet {
  const faults = new FaultList()
  const set = compileConnectors(document, { origin: 'platform', env, faults, ...context })
  faults.throwIfAny()
  return set
}

function faultsOf (document: ConnectorsDocument, context: Partial<ConnectorsContext> = {}): string[] {
  const faults = new FaultList()
  compileConnectors(document, { origin: 'platform', env, faults, ...context })
  return faults.faults.map(formatFault)
}

function callFaults (set: ConnectorSet, type: string, action: string, params?: unknown): string[] {
  const faults = new FaultList()
  const call = set.call({ type, action, params }, '/integrations/0', { faults, sources: routeSources, env })
  t.equal(call === null, faults.faults.length > 0, 'a call is null exactly if it has faults')
  return faults.faults.map(formatFault)
}

function callOf (set: ConnectorSet, type: string, action: string, params?: unknown): CompiledCall {
  const faults = new FaultList()
  const call = set.call({ type, action, params }, '', { faults, sources: routeSources, env })
  faults.throwIfAny()
  if (call === null) throw new Error('neither a call nor a fault')
  return call
}

const custom = (action: Partial<ConnectorAction>, more: object = {}): ConnectorsDocument => ({
  customIntegrations: [{
    name: 'crm',
    baseUrl: 'https://crm.example.com/v1',
    actions: { act: { method: 'POST', path: '/things', ...action } },
    ...more
  }]
})
const act = (action: Partial<ConnectorAction>, params: unknown = '{{body}}') => callOf(setOf(custom(action)), 'crm', 'act', params)
const prepared = (action: Partial<ConnectorAction>, body: unknown) => act(action).prepare({ ...emptyScope, body })

t.test('a connector that could never be called is rejected with its place', async (t) => {
  const cases: [string, ConnectorsDocument, RegExp][] = [
    [
      'a host from a call',
      custom({}, { baseUrl: 'https://{{params.host}}/v1' }),
      /^\/customIntegrations\/0\/baseUrl: .*`params` is not available here/
    ],
    [
      "a host from a tenant's secret, on the platform",
      custom({}, { baseUrl: '{{secret:crm}}' }),
      /^\/customIntegrations\/0\/baseUrl: .*`secret` is not available here/
    ],
    ['no address', custom({}, { baseUrl: 'crm.example.com' }), /^\/customIntegrations\/0\/baseUrl: expected an absolute URL/],
    ['another protocol', custom({}, { baseUrl: 'file:///etc/passwd' }), /^\/customIntegrations\/0\/baseUrl: expected a URL with http/],
    [
      'a password in an address',
      custom({}, { baseUrl: 'https://a:b@crm.example.com' }),
      /^\/customIntegrations\/0\/baseUrl: .*user name or password/
    ],
    ['a query string in it', custom({}, { baseUrl: 'https://crm.example.com?a=b' }), /^\/customIntegrations\/0\/baseUrl: .*query string/],
    ['a path out of the base', custom({ path: '/things/../../admin' }), /^\/customIntegrations\/0\/actions\/act\/path: .*"\.\."/],
    ['the same in another spelling', custom({ path: '/things/%2E%2e/admin' }), /^\/customIntegrations\/0\/actions\/act\/path: .*"\.\."/],
    [
      'a path that starts with a value',
      custom({ path: '{{params.path}}' }),
      /^\/customIntegrations\/0\/actions\/act\/path: expected a path that begins with "\/"/
    ],
    ['a fragment', custom({ path: '/a#b' }), /^\/customIntegrations\/0\/actions\/act\/path: a URL cannot have a fragment/],
    [
      'a connection header',
      custom({ headers: { Host: 'other.example.com' } }),
      /^\/customIntegrations\/0\/actions\/act\/headers\/Host: the server writes this header itself/
    ],
    [
      'a header with a line break',
      custom({ headers: { 'x-a': 'a\r\nx-b: c' } }),
      /^\/customIntegrations\/0\/actions\/act\/headers\/x-a: .*line breaks/
    ],
    [
      'an invalid header name',
      custom({ headers: { 'x a': 'b' } }),
      /^\/customIntegrations\/0\/actions\/act\/headers\/x a: expected the name of a header/
    ],
    ['the body of a GET', custom({ method: 'GET', body: {} }), /^\/customIntegrations\/0\/actions\/act\/body: a GET request cannot have a body/],
    ['a result that is not a path', custom({ result: 'data[' }), /^\/customIntegrations\/0\/actions\/act\/result: /],
    ['a source that only routes have', custom({ body: '{{body.x}}' }), /^\/customIntegrations\/0\/actions\/act\/body: .*`body` is not available here/],
    [
      'credentials',
      custom({ body: '{{credentials.x}}' }),
      /^\/customIntegrations\/0\/actions\/act\/body: .*`credentials` is not available here/
    ],
    [
      'a missing setting',
      { credentials: { payment: { secretKey: '{{env.NONE}}' } } },
      /^\/credentials\/payment\/secretKey: the setting NONE is not set/
    ],
    [
      'credentials from a request',
      { credentials: { payment: { secretKey: '{{body.key}}' } } },
      /^\/credentials\/payment\/secretKey: .*`body` is not available here/
    ],
    [
      'an invalid address',
      { credentials: { issues: { baseUrl: 'jira', email: 'a', apiToken: 'b' } } },
      /^\/credentials\/issues: expected an absolute URL/
    ],
    [
      'one service with two names',
      { credentials: { payment: { secretKey: 'a' }, stripe: { secretKey: 'b' } } },
      /^\/credentials\/stripe: is an alias of "payment"/
    ],
    [
      'two connectors with one name',
      { customIntegrations: [...custom({}).customIntegrations ?? [], ...custom({}).customIntegrations ?? []] },
      /^\/customIntegrations\/1\/name: two connectors have the name "crm"/
    ]
  ]
  for (const [label, document, fault] of cases) t.match(faultsOf(document)[0], fault, label)
  t.match(
    faultsOf(custom({ body: '{{env.KEY}}' }), { origin: 'tenant', envNames: new Set(['OTHER']) })[0],
    /tenancy\.env/,
    'a setting that the tenant cannot read'
  )
})

t.test('a call that does not match its action is rejected', async (t) => {
  const set = setOf({
    credentials: { stripe: { secretKey: '{{env.KEY}}' } },
    ...custom({ path: '/things/{{params.id}}', body: { name: '{{params.name}}' } })
  })
  t.match(callFaults(set, 'strpe', 'createCustomer'), [
    /^\/integrations\/0\/type: there is no connector "strpe": expected one of payment, .*did you mean "stripe"/
  ])
  t.match(callFaults(set, 'stripe', 'createCustmer'), [
    /^\/integrations\/0\/action: the connector payment has no action "createCustmer": .*did you mean "createCustomer"/
  ])
  t.match(callFaults(set, 'toString', 'call'), [/there is no connector/])
  t.match(callFaults(set, 'stripe', 'constructor'), [/has no action "constructor"/])
  t.match(callFaults(set, 'github', 'getIssue'), [/^\/integrations\/0\/type: the connector needs `credentials.codehost`/])
  t.match(callFaults(set, 'stripe', 'createPaymentIntent', { amount: '{{body.amount}}', curency: 'eur' }), [
    /params\/currency: is required/,
    /params\/curency: "curency" is not a known field, did you mean "currency"/
  ])
  t.match(callFaults(set, 'stripe', 'createPaymentIntent', { amount: -1, currency: '{{body.currency}}' }), [
    /params\/amount: must be at least 0/
  ])
  t.match(callFaults(set, 'stripe', 'createPaymentIntent', [1]), [/params: expected an object/])
  t.match(callFaults(set, 'stripe', 'createPaymentIntent', { amount: '{{payload.x}}', currency: 'eur' }), [/`payload` is not available here/])
  t.match(callFaults(set, 'crm', 'act', { nam: 'x' }), [
    /params\/id: is required, because it is part of the URL/,
    /params\/nam: is not used by any template of the action, did you mean "name"/
  ])
  for (const url of ['https://api.example.com{{body.path}}', 'https://{{env.HOST}}{{body.a}}{{body.b}}/x']) {
    t.match(callFaults(set, 'http', 'request', { url }), [/params\/url: a template directly after the host/])
  }
  t.strictSame(callFaults(set, 'stripe', 'createPaymentIntent', '{{body}}'), [], "a template's value is validated when it is known")
})

t.test("a call's value cannot leave its place in the address", async (t) => {
  const path = (id: unknown) => prepared({ path: '/things/{{params.id}}/notes' }, { id }).url
  t.equal(path('a b'), 'https://crm.example.com/v1/things/a%20b/notes')
  t.equal(path('a?b=c#d'), 'https://crm.example.com/v1/things/a%3Fb%3Dc%23d/notes')
  t.equal(path('a%2Fb'), 'https://crm.example.com/v1/things/a%252Fb/notes', 'an encoded value is encoded again')
  t.equal(path(7), 'https://crm.example.com/v1/things/7/notes')
  t.equal(path('a..b'), 'https://crm.example.com/v1/things/a..b/notes')
  for (const id of ['..', '.', '%2e%2E', '../x', 'x/../y', '..\\x', '', null, undefined, {}, ['a'], '\ud800']) {
    t.throws(() => path(id), { code: 'TENANTRY_VALIDATION_FAILED' }, JSON.stringify(id) ?? 'nothing')
  }
  t.equal(
    prepared({ path: '/things?kind={{params.kind}}', query: { q: '{{params.q}}', n: '{{params.n}}' } }, {
      kind: 'a&b',
      q: ['1', 2],
      n: null
    }).url,
    'https://crm.example.com/v1/things?kind=a%26b&q=1&q=2'
  )

  const request = (params: unknown) => callOf(setOf({}), 'http', 'request', params)
  const body = { id: 'x/../y', host: 'evil.example.com', url: 'http://10.0.0.1/a', ok: 'a b' }
  t.equal(
    request({ url: 'https://api.example.com/users/{{body.ok}}' }).prepare({ ...emptyScope, body }).url,
    'https://api.example.com/users/a%20b'
  )
  t.throws(() => request({ url: 'https://api.example.com/users/{{body.id}}' }).prepare({ ...emptyScope, body }), {
    code: 'TENANTRY_VALIDATION_FAILED'
  })
  for (
    const [url, trusted] of [
      ['https://api.example.com/users/{{body.ok}}', true],
      ['https://{{env.HOST}}/{{body.ok}}', true],
      ['https://{{body.host}}/x', false],
      ['{{body.url}}', false],
      ['https://{{body.host}}.example.com/x', false]
    ] as const
  ) {
    t.equal(request({ url }).prepare({ ...emptyScope, body }).trusted, trusted, url)
  }
  t.equal(
    request('{{body}}').prepare({ ...emptyScope, body: { url: 'https://api.example.com/' } }).trusted,
    false,
    'an address from the caller'
  )
  t.equal(
    callOf(setOf({}, { origin: 'tenant' }), 'http', 'request', { url: 'https://api.example.com/' }).prepare(tenant()).trusted,
    false,
    "an address in a tenant's document"
  )
  for (
    const url of [
      'ftp://a.example.com/',
      'https://a:b@c.example.com/',
      'https://a.example.com/\u0009../b',
      'https:\\\\a.example.com',
      'https://a.example.com/#b',
      '//a.example.com',
      'x'
    ]
  ) {
    t.throws(() => request('{{body}}').prepare({ ...emptyScope, body: { url } }), { code: 'TENANTRY_ADDRESS_REFUSED' }, url)
  }
})

t.test('a value that is too long for an address is refused before it is split, encoded or scanned', async (t) => {
  const refused = { code: 'TENANTRY_ADDRESS_REFUSED', message: /the URL is longer than 16384 characters/ }
  const encoded = t.capture(globalThis, 'encodeURIComponent', encodeURIComponent)
  const request = (url: string) => callOf(setOf({}), 'http', 'request', { url })
  // Each of them would fail otherwise if its segments, its characters or the address were read.
  for (const id of ['../'.repeat(10_000), '\ud800'.repeat(20_000), ' '.repeat(20_000)]) {
    const scope = { ...emptyScope, body: { id } }
    t.throws(() => prepared({ path: '/things/{{params.id}}' }, { id }), refused)
    t.throws(() => request('https://api.example.com/users/{{body.id}}').prepare(scope), refused)
    t.throws(() => request('https://api.example.com/users?id={{body.id}}').prepare(scope), refused)
    t.throws(() => request('{{body.id}}').prepare(scope), refused)
    t.throws(() => request('{{body.id}}/x').prepare(scope), refused)
  }
  t.same(encoded(), [])
  const many = '{{body.id}}'.repeat(100)
  t.throws(() => request(`https://api.example.com/${many}`).prepare({ ...emptyScope, body: { id: 'ä'.repeat(10_000) } }), refused)
  t.equal(encoded().length, 1, 'the address is too long after the first value')
})

t.test("a call's value cannot start another header", async (t) => {
  for (const value of ['a\r\nx-admin: yes', 'a\nb', 'a\u0000', 'é\u0100']) {
    t.throws(
      () => prepared({ headers: { 'X-Note': '{{params.note}}' } }, { note: value }),
      { code: 'TENANTRY_VALIDATION_FAILED' },
      JSON.stringify(value)
    )
    t.throws(
      () =>
        callOf(setOf({}), 'http', 'request', '{{body}}').prepare({
          ...emptyScope,
          body: { url: 'https://a.example.com', headers: { a: value } }
        }),
      { code: 'TENANTRY_VALIDATION_FAILED' }
    )
  }
  t.throws(
    () =>
      callOf(setOf({}), 'http', 'request', '{{body}}').prepare({
        ...emptyScope,
        body: { url: 'https://a.example.com', headers: { 'transfer-encoding': 'chunked' } }
      }),
    { code: 'TENANTRY_VALIDATION_FAILED' }
  )
  t.strictSame(
    Object.entries(prepared({ headers: { 'X-Note': '{{params.note}}', 'X-None': '{{params.none}}' } }, { note: 7 }).headers).find((
      [name]
    ) => name.startsWith('x-')),
    ['x-note', '7']
  )
  const withKey = setOf({ credentials: { payment: { secretKey: '{{secret:k}}' } } })
  t.throws(() => callOf(withKey, 'payment', 'createCustomer').prepare(tenant({ k: 'a\r\nb' })), {
    code: 'TENANTRY_CREDENTIALS_REQUIRED',
    message: /characters that are not allowed in headers/
  })
})

t.test("empty values are left out of bodies, and a caller's values are only data", async (t) => {
  const body = {
    a: { b: '{{params.b}}', c: 'fixed' },
    d: ['{{params.d}}', { e: '{{params.e}}' }],
    f: 'fixed',
    g: { '...': '{{params.g}}', h: '{{params.h}}' }
  }
  t.strictSame(JSON.parse(prepared({ body }, {}).body ?? ''), { f: 'fixed' })
  t.strictSame(JSON.parse(prepared({ body }, { b: null, e: 0, g: { i: 1, h: 2 } }).body ?? ''), {
    a: { b: null, c: 'fixed' },
    d: [{ e: 0 }],
    f: 'fixed',
    g: { i: 1, h: 2 }
  })
  t.strictSame(JSON.parse(prepared({ body: { n: { m: '{{params.m}}' } } }, {}).body ?? ''), {}, 'a declared body is always sent')
  t.equal(prepared({ body: '{{params.m}}' }, {}).body, null)
  const text = '{{secret:KEY}} {{env.KEY}} ${KEY}' // eslint-disable-line no-template-curly-in-string
  t.strictSame(JSON.parse(prepared({ body: { t: '{{params.t}}', u: 'x {{params.t}}' } }, { t: text }).body ?? ''), {
    t: text,
    u: `x ${text}`
  })

  t.match(prepared({ bodyType: 'form', body: '{{params}}' }, { a: [1, { b: true }], c: null, 'd&e': 'f g' }), {
    body: 'a%5B0%5D=1&a%5B1%5D%5Bb%5D=true&d%26e=f+g',
    headers: { 'content-type': 'application/x-www-form-urlencoded' }
  })
  t.match(prepared({ bodyType: 'raw', body: '<a>{{params.x}}</a>', headers: { 'content-type': 'application/xml' } }, { x: 1 }), {
    body: '<a>1</a>',
    headers: { 'content-type': 'application/xml' }
  })
  const deep = JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`)
  t.throws(() => prepared({ bodyType: 'form', body: '{{params.x}}' }, { x: deep }), { code: 'TENANTRY_VALIDATION_FAILED' })
  t.throws(
    () => prepared({ body: Array(500).fill('{{params.x}}') }, { x: 'y'.repeat(100_000) }),
    { code: 'TENANTRY_ANSWER_TOO_LARGE' },
    'many copies of a large value'
  )
  t.throws(() => prepared({ body: '{{params.x}}' }, 'no object'), { code: 'TENANTRY_VALIDATION_FAILED' })
})

t.test('every copy of a param or a secret counts, wherever it is in the request, by its length in JSON', async (t) => {
  const tooLarge = { code: 'TENANTRY_ANSWER_TOO_LARGE', message: 'The request to the service would be too large' }
  const text = 'y'.repeat(100_000)
  const control = '\u0001'.repeat(65_536)
  const copies = '{{params.x}}'.repeat(500)
  t.throws(() => prepared({ body: { m: copies } }, { x: text }), tooLarge, 'in one text')
  t.throws(() => prepared({ body: copies, bodyType: 'raw' }, { x: { a: text } }), tooLarge, 'an object in one text')
  t.throws(() => prepared({ headers: { a: copies }, body: {} }, { x: text }), tooLarge)
  t.throws(() => prepared({ query: { a: copies } }, { x: text }), tooLarge)
  t.throws(() => prepared({ body: { m: '{{params.x}}'.repeat(80) } }, { x: control }), tooLarge, 'as six characters each')
  t.throws(() => prepared({ body: { m: '{{params.x}}'.repeat(80) } }, { x: { [control]: 1 } }), tooLarge, 'the name of a member')
  t.throws(() => prepared({ body: { m: '{{params.x}}'.repeat(200) } }, { x: '\ud800'.repeat(20_000) }), tooLarge)
  t.ok(prepared({ body: { m: '{{params.x}}'.repeat(80) } }, { x: '😀'.repeat(65_536) }).body)

  for (const template of ['{{secret:S}}', '{{env.S}}']) {
    const set = setOf(custom({ body: { m: template.repeat(80) } }), {
      origin: 'tenant',
      env: { S: 'a setting that a secret replaces' },
      envNames: new Set(['S']),
      overridableEnv: new Set(['S'])
    })
    t.throws(() => callOf(set, 'crm', 'act').prepare(tenant({ S: control })), tooLarge, template)
  }
})

t.test('a form counts by its encoded length before it is written', async (t) => {
  const form = (x: string) => prepared({ bodyType: 'form', body: { x: '{{params.x}}' } }, { x }).body
  t.equal(form("a b&=~'\ud800€😀"), "x=a+b%26%3D~'%EF%BF%BD%E2%82%AC%F0%9F%98%80")
  const encoded = t.capture(globalThis, 'encodeURIComponent', encodeURIComponent)
  for (const text of ['€'.repeat(2_000_000), '€'.repeat(6_000_000)]) t.throws(() => form(text), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
  t.equal(encoded().length, 2, 'a text that is too long by its bytes is not encoded')
})

t.test('an action copies only the params that it reads', async (t) => {
  const { body } = prepared({ body: { a: '{{params.a}}'.repeat(20), x: '{{params.x}}' } }, { a: 'b', x: 'y'.repeat(1_000_000) })
  t.equal(body?.length, 1_000_000 + 20 + '{"a":"","x":""}'.length)
})

t.test('a long name is not repeated for each of its thousand values', async (t) => {
  const long = { ['n'.repeat(100_000)]: Array(1000).fill(1) }
  t.throws(() => prepared({ bodyType: 'form', body: '{{params}}' }, long), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
  t.throws(() => prepared({ bodyType: 'form', body: '{{params}}' }, { a: { b: long } }), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
  t.throws(
    () => callOf(setOf({}), 'http', 'request', '{{body}}').prepare({ ...emptyScope, body: { url: 'https://a.example.com', query: long } }),
    { code: 'TENANTRY_ADDRESS_REFUSED' }
  )
})

t.test('every kind of auth sends its credentials', async (t) => {
  const requestOf = (auth: object, scope: Scope = emptyScope) => callOf(setOf(custom({ method: 'GET' }, { auth })), 'crm', 'act').prepare(scope)
  t.match(requestOf({ type: 'bearer', token: '{{env.KEY}}' }).headers, { authorization: 'Bearer key of the platform' })
  t.match(requestOf({ type: 'basic', username: 'a', password: 'b:ü' }).headers, {
    authorization: `Basic ${Buffer.from('a:b:ü').toString('base64')}`
  })
  t.match(requestOf({ type: 'header', name: 'X-Key', value: '{{secret:k}}' }, tenant({ k: 's' })).headers, { 'x-key': 's' })
  t.equal(requestOf({ type: 'query', name: 'api key', value: 'a&b' }).url, 'https://crm.example.com/v1/things?api+key=a%26b')
  t.throws(
    () => requestOf({ type: 'bearer', token: '{{secret:k}}' }, tenant({ k: null })),
    { code: 'TENANTRY_CREDENTIALS_REQUIRED' },
    'an expired secret'
  )
  t.match(
    requestOf({ type: 'bearer', token: '{{secret:k}}' }, tenant()).headers,
    { authorization: 'Bearer {{secret:k}}' },
    'the placeholder of a missing secret'
  )
  t.match(faultsOf(custom({}, { auth: { type: 'header', name: 'Host', value: 'x' } })), [
    /auth\/name: the server writes this header itself/
  ])

  const oauth2 = callOf(
    setOf(
      custom({}, {
        auth: {
          type: 'oauth2',
          tokenUrl: 'https://id.example.com/token',
          clientId: 'c',
          clientSecret: '{{secret:client}}',
          refreshToken: '{{ secret:crm_refresh }}',
          accessToken: 'first'
        }
      })
    ),
    'crm',
    'act'
  ).oauth2
  t.match(oauth2, { refreshTokenKey: 'crm_refresh', accessTokenKey: 'crm_access_token', trusted: true, scope: null })
  t.equal(oauth2?.clientSecret.evaluate(tenant({ client: 's' })), 's')
  t.match(faultsOf(custom({}, { auth: { type: 'oauth2', tokenUrl: '{{secret:url}}', clientId: 'c', clientSecret: 's' } })), [
    /auth\/tokenUrl: .*`secret` is not available here/
  ])
})

t.test('a credential or a text of auth that is too long is refused before it is encoded or read as an address', async (t) => {
  const refused = { code: 'TENANTRY_CREDENTIALS_REQUIRED', message: 'A credential of the integration has more than 16384 characters' }
  // Each copy alone is short enough.
  const scope = tenant({ k: 'x'.repeat(10_000) })
  const long = '{{secret:k}}{{secret:k}}'
  const callWith = (auth: object) => callOf(setOf(custom({}, { auth })), 'crm', 'act')
  for (
    const auth of [
      { type: 'bearer', token: long },
      { type: 'basic', username: long, password: 'b' },
      { type: 'basic', username: 'a', password: long },
      { type: 'header', name: 'x-key', value: long },
      { type: 'query', name: 'key', value: long }
    ]
  ) t.throws(() => callWith(auth).prepare(scope), refused, JSON.stringify(auth))
  const grant = callWith({ type: 'oauth2', tokenUrl: 'https://id.example.com', clientId: long, clientSecret: long, refreshToken: long, scope: long })
  for (const name of ['clientId', 'clientSecret', 'refreshToken', 'scope'] as const) t.throws(() => grant.oauth2?.[name]?.evaluate(scope), refused)
  const ofTenant = setOf(custom({}, { auth: { type: 'oauth2', tokenUrl: long, clientId: 'a', clientSecret: 'b' } }), { origin: 'tenant' })
  t.throws(() => callOf(ofTenant, 'crm', 'act').oauth2?.tokenUrl.evaluate(scope), refused)

  const chat = (members: object) =>
    callOf(setOf({ credentials: { chat: { webhookUrl: 'https://a.example.com/x', ...members } } }), 'chat', 'sendMessage', { text: 'x' })
  for (const members of [{ webhookUrl: long }, { baseUrl: long }]) t.throws(() => chat(members).prepare(scope), refused)
})

// With a step for each pair of slashes, this test would not end.
t.test('slashes within a long address of a document are read once', async (t) => {
  const slashes = '/'.repeat(8000)
  const chat = (baseUrl: string) =>
    callOf(setOf({ credentials: { chat: { webhookUrl: 'https://a.example.com/x?y=1', baseUrl } } }), 'chat', 'sendMessage', { text: 'x' })
  t.equal(chat(`https://b.example.com${slashes}`).prepare(emptyScope).url, 'https://b.example.com/x?y=1')
  t.equal(chat(`https://b.example.com/${slashes}b${slashes}`).prepare(emptyScope).url, `https://b.example.com/${slashes}b/x?y=1`)
  t.throws(() => chat(`https://b.example.com${'/'.repeat(1_000_000)}b`).prepare(emptyScope), { code: 'TENANTRY_CREDENTIALS_REQUIRED' })
})

t.test("a tenant's secret replaces the platform's setting in credentials, but never in their address", async (t) => {
  const set = setOf({
    credentials: { payment: { secretKey: '{{env.KEY}}', baseUrl: 'https://{{env.HOST}}' }, chat: { webhookUrl: '{{env.HOOK}}' } }
  }, { env: { ...env, HOOK: 'https://hooks.example.com/platform' } })
  const payment = callOf(set, 'payment', 'createCustomer')
  const own = tenant({ KEY: 'key of the tenant', HOST: 'evil.example.com' })
  t.match(payment.prepare(emptyScope), {
    url: 'https://api.example.com/v1/customers',
    trusted: true,
    headers: { authorization: 'Bearer key of the platform' }
  })
  t.match(payment.prepare(own), {
    url: 'https://api.example.com/v1/customers',
    trusted: true,
    headers: { authorization: 'Bearer key of the tenant' }
  })
  t.equal(payment.ownedBy(own), true)
  t.equal(payment.ownedBy(tenant({ HOST: 'x' })), false)
  t.equal(payment.ownedBy(emptyScope), false)
  const keyed = { auth: { type: 'bearer', token: '{{secret:own}}' } }
  t.equal(callOf(setOf(custom({}, keyed)), 'crm', 'act').ownedBy(tenant({ own: 'x' })), true)
  for (const key of ['{{env.KEY}}', '{{env["KEY"]}}', "{{ env[ 'KEY'] }}", '$' + '{KEY}']) {
    t.equal(
      callOf(setOf(custom({ headers: { 'x-app': key } }, keyed)), 'crm', 'act').ownedBy(tenant({ own: 'x' })),
      false,
      `the action sends one of the platform's keys: ${key}`
    )
  }
  t.strictSame(payment.references, [{ source: 'secret', path: ['KEY'], setting: true, fallback: 'key of the platform' }])

  const chat = callOf(set, 'chat', 'sendMessage', { text: 'x' })
  t.match(chat.prepare(emptyScope), { url: 'https://hooks.example.com/platform', trusted: true })
  t.match(
    chat.prepare(tenant({ HOOK: 'http://10.0.0.1/mine' })),
    { url: 'http://10.0.0.1/mine', trusted: false },
    "a tenant's own address is not the platform's"
  )
  const moved = setOf({
    credentials: { chat: { webhookUrl: 'https://hooks.example.com/services/A?b=c', baseUrl: 'http://127.0.0.1:1/proxy/' } }
  })
  t.match(callOf(moved, 'chat', 'sendMessage', { text: 'x' }).prepare(emptyScope), {
    url: 'http://127.0.0.1:1/proxy/services/A?b=c',
    trusted: true
  })

  const mixed = setOf({ credentials: { issues: { baseUrl: '{{secret:jira}}', email: 'a', apiToken: 'of the platform' } } })
  t.throws(() => callOf(mixed, 'issues', 'getProjects').prepare(tenant({ jira: 'https://evil.example.com' })), {
    code: 'TENANTRY_ADDRESS_REFUSED'
  }, "the platform's key is not sent to a tenant's address")
  const whole = setOf({ credentials: { issues: { baseUrl: '{{secret:jira}}', email: '{{secret:mail}}', apiToken: '{{secret:token}}' } } })
  t.match(callOf(whole, 'issues', 'getProjects').prepare(tenant({ jira: 'https://own.example.com', mail: 'm', token: 't' })), {
    url: 'https://own.example.com/rest/api/3/project/search',
    trusted: false
  })
})

t.test('a result contains the members that the action picks from the response', async (t) => {
  const respond = (body: string, type = 'application/json; charset=utf-8') => ({
    status: 200,
    headers: { 'content-type': type },
    body: Buffer.from(body)
  })
  const items = act({ result: 'data.items[1]' })
  t.equal(items.result(respond('{"data":{"items":[1,"two"]}}')), 'two')
  t.equal(items.result(respond('{"data":{}}')), null)
  t.equal(act({ result: 'constructor.name' }).result(respond('{}')), null, 'no inherited member')
  t.equal(act({ result: 'data.length' }).result(respond('{"data":[1]}')), null)
  t.strictSame(act({}).result(respond('[{}]', 'application/problem+json')), [{}])
  t.equal(act({}).result(respond('ok', 'text/html')), 'ok')
  t.equal(act({}).result(respond('')), null)
  t.throws(() => act({}).result(respond('{"a":')), { code: 'TENANTRY_PROVIDER_FAILED' })
  t.strictSame(act({}).result(respond('\ufeff[1]')), [1], 'a byte order mark')
  t.throws(
    () => act({}).result(respond('['.repeat(10_000) + ']'.repeat(10_000))),
    { code: 'TENANTRY_PROVIDER_ANSWER_TOO_COMPLEX' },
    'a value that nests too deeply to be written again'
  )
})

t.test('an action declares whether its calls may be retried, and a cached route may only read', async (t) => {
  const set = setOf({ credentials: { payment: { secretKey: 'x' }, jira: { baseUrl: 'https://x.example.com', email: 'a', apiToken: 'b' } } })
  const of = (type: string, action: string, params?: unknown) => {
    const { method, idempotent, followRedirects } = callOf(set, type, action, params)
    return [method, idempotent, followRedirects]
  }
  t.strictSame(of('payment', 'createCustomer'), ['POST', false, false])
  t.strictSame(of('payment', 'cancelSubscription', { subscription: 'x' }), ['DELETE', true, false])
  t.strictSame(of('jira', 'searchIssues', { jql: 'x' }), ['POST', true, false])
  t.strictSame(of('http', 'request', { url: 'https://x.example.com' }), ['GET', true, true])
  t.strictSame(of('http', 'request', { url: 'https://x.example.com', method: '{{body.method}}' }), ['*', false, true])
})

t.test('of thousands of checked actions, only the called ones are compiled', async (t) => {
  const actions = Object.fromEntries(
    Array.from({ length: 5000 }, (_, index) => [`a${index}`, { method: 'GET' as const, path: `/${index}/{{params.x}}` }])
  )
  const document: ConnectorsDocument = { customIntegrations: [{ name: 'big', baseUrl: 'https://big.example.com', actions }] }
  t.strictSame(faultsOf(document), [])
  const broken = { ...actions, a3: { method: 'GET' as const, path: 'broken' } }
  const set = setOf({ customIntegrations: [{ name: 'big', baseUrl: 'https://big.example.com', actions: broken }] }, { checked: true })
  t.equal(callOf(set, 'big', 'a4999', { x: 1 }).prepare(emptyScope).url, 'https://big.example.com/4999/1', 'nothing else of the set was read')
  t.match(callFaults(set, 'big', 'a5000', {}).join().length < 1000, true, 'a fault does not list all of them')
})

t.test('the guide names every action with its params', async (t) => {
  const guide = page('docs/guides/integrations.md').text
  for (const { name, aliases = [], actions } of builtIn) {
    t.match(guide, `### \`${name}\`${aliases.length === 0 ? '' : ` (${aliases.map((alias) => `\`${alias}\``).join(', ')})`}\n`)
    const [section = ''] = (guide.split(`### \`${name}\``)[1] ?? '').split('\n#')
    for (const [action, { params }] of Object.entries(actions)) {
      const { properties, required }: { properties: object, required: readonly string[] } = { properties: {}, required: [], ...params }
      const row = section.split('\n').find((line) => line.startsWith(`| \`${action}\` |`)) ?? ''
      const listed = Object.keys(properties).map((param) => required.includes(param) ? `**\`${param}\`**` : `\`${param}\``).join(', ')
      t.ok(row.endsWith(`| ${listed} |`), `${name}.${action}: ${listed}`)
    }
  }
})
