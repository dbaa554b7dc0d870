import t from 'tap'
import { type CacheContext, type CacheTarget, compileCache, compileCacheKey } from '../../../lib/compiler/route-cache.js'
import { compileConnectors, type ConnectorsDocument } from '../../../lib/connectors/index.js'
import { noScope } from '../../../lib/expressions/no-scope.js'
import type { TemplateContext } from '../../../lib/expressions/template.js'
import type { Reference, Scope } from '../../../lib/expressions/types.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { Integration } from '../../../lib/schema/integrations.js'
import type { Route, RouteCache } from '../../../lib/schema/route.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { compile as compileRoute } from './routes.js'

const list: CacheTarget = { method: 'GET', path: '/articles', query: '' }

function context (): TemplateContext {
  return {
    faults: new FaultList(),
    sources: new Set(['env', 'body', 'params', 'query', 'headers', 'auth', 'tenant', 'results', 'secret', 'now', 'uuid']),
    env: {}
  }
}

function compile (cache: Partial<RouteCache> = {}, references: Reference[] = [], route = '') {
  const within = context()
  const key = compileCacheKey({ enabled: true, ...cache }, references, '/cache', within, route)
  within.faults.throwIfAny()
  return (scope: Partial<Scope> = {}, target: Partial<CacheTarget> = {}) => key({ ...noScope, ...scope }, { ...list, ...target })
}

function tenant (id: string) {
  return { tenant: scopeTenant(id) }
}

t.test('callers with different responses have different keys', async (t) => {
  const key = compile({}, [{ source: 'auth', path: ['role'] }, { source: 'headers', path: ['accept-language'] }, {
    source: 'params',
    path: ['id']
  }])
  const keys = [
    key(),
    key(tenant('a')),
    key(tenant('b')),
    key(tenant('0')),
    key({ ...tenant('a'), fullAccess: true }),
    key({}, { path: '/other' }),
    key({}, { query: 'a=1' }),
    key({}, { query: 'a=2' }),
    key({}, { path: '/articles?a=1' }),
    key({}, { method: 'HEAD' }),
    key({ auth: { sub: 'x', role: 'editor' } }),
    key({ auth: { sub: 'x', role: 'null' } }),
    key({ auth: { sub: 'x', role: '' } }),
    key({ headers: { 'accept-language': 'de' } }),
    key({ headers: { 'accept-language': ['de', 'en'] } })
  ]
  t.equal(new Set(keys).size, keys.length)
  t.equal(
    key({ auth: { sub: 'x', role: 'r' } }),
    key({ auth: { sub: 'y', role: 'r' } }),
    'claims that the route does not read make no difference'
  )
  t.equal(key(tenant('a')), key(tenant('a')))
})

t.test('values cannot move from one part of a key to the next', async (t) => {
  const key = compile({ varyBy: ['query.a', 'query.b'] })
  const pairs = [
    { a: 'x', b: 'y' },
    { a: 'x', b: 'y"1:z' },
    { a: 'x"1:y', b: 'z' },
    { a: 'x', b: 'y"z' },
    { a: 'x"y', b: 'z' },
    { a: 'x","y' },
    { a: ['x', 'y'] },
    { a: 'x', b: '["y"]' },
    { a: '["x"]', b: 'y' },
    { b: 'y' },
    { a: null, b: 'y' },
    { a: 0, b: 'y' },
    { a: '0', b: 'y' }
  ]
  t.equal(new Set(pairs.map((query) => key({ query }))).size, pairs.length)
})

t.test("the order of a query string's names does not matter, the order of one name's values does", async (t) => {
  const key = compile()
  t.equal(key({}, { query: 'b=2&a=1' }), key({}, { query: 'a=1&b=2' }))
  t.not(key({}, { query: 'a=1&a=2' }), key({}, { query: 'a=2&a=1' }))
  t.not(key({}, { query: 'a=2&%61=1' }), key({}, { query: '%61=1&a=2' }), 'two spellings of a name')
})

t.test('varyBy adds paths, with braces or without', async (t) => {
  const key = compile({ varyBy: ['headers.Accept-Language', '{{auth.sub}}'] })
  t.not(key({ headers: { 'accept-language': 'de' } }), key({ headers: { 'accept-language': 'en' } }))
  t.not(key({ auth: { sub: 'a' } }), key({ auth: { sub: 'b' } }))
})

t.test('a template as the key replaces only path and query string', async (t) => {
  const key = compile({ key: 'article:{{params.id}}' }, [{ source: 'auth', path: ['role'] }], 'GET /articles/:id')
  const at = { params: { id: '1' } }
  t.equal(key(at, { query: 'utm=1' }), key(at, { query: 'utm=2' }))
  t.not(key(at), key({ params: { id: '2' } }))
  t.not(key({ ...at, ...tenant('a') }), key({ ...at, ...tenant('b') }))
  t.not(key(at), key({ ...at, fullAccess: true }))
  t.not(key(at), key({ ...at, auth: { sub: 'x', role: 'r' } }))
  t.not(
    key(at),
    compile({ key: 'article:{{params.id}}' }, [{ source: 'auth', path: ['role'] }], 'GET /articles/:id/full')(at),
    'routes stay separate too'
  )
})

t.test('a setting that the route reads, in any spelling, belongs to the key', async (t) => {
  const keyFor = (text: string, value: string) =>
    compileCache(
      { path: '/a', method: 'get', response: { text }, cache: { enabled: true } },
      { references: [], integrations: [] },
      '',
      { cache: { enabled: true, ttl: 60 }, pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 } },
      { ...context(), env: { MODE: value } }
    )?.key(noScope, list)
  for (const text of ['{{env.MODE}}', '$' + '{MODE}', "{{env['MODE']}}", '{{env["MODE"]}}']) {
    t.not(keyFor(text, 'old'), keyFor(text, 'new'), text)
    t.equal(keyFor(text, 'old'), keyFor(text, 'old'), text)
  }
})

t.test('the connector that a route calls, its credentials and their settings belong to the key', async (t) => {
  const compiledKey = (integration: Integration, document: ConnectorsDocument, env: Readonly<Record<string, string>>): string => {
    const connectors = compileConnectors(document, { origin: 'platform', env, faults: new FaultList() })
    const route: Route = { path: '/a', method: 'get', cache: { enabled: true }, integrations: [integration] }
    return String(compileRoute(route, { connectors, env }).cache?.key(noScope, list))
  }
  const keyOf = (document: ConnectorsDocument, env: Readonly<Record<string, string>>) => compiledKey({ type: 'crm', action: 'get' }, document, env)
  const crm = { baseUrl: 'https://crm.example.com', auth: { type: 'bearer', token: '{{env.TOKEN}}' } } as const
  const custom = (changes: object = {}, action: object = {}): ConnectorsDocument => ({
    customIntegrations: [{ name: 'crm', ...crm, ...changes, actions: { get: { method: 'GET', path: '/user', ...action } } }]
  })
  const settings = { TOKEN: 'a', HOST: 'crm.example.com' }
  const first = keyOf(custom(), settings)
  t.equal(keyOf(custom(), settings), first)
  t.not(keyOf(custom({}, { result: 'public' }), settings), first, 'the result of the action')
  t.not(keyOf(custom({}, { path: '/v2/user' }), settings), first, 'its path')
  t.not(keyOf(custom({ baseUrl: 'https://eu.example.com' }), settings), first, 'the address')
  t.not(keyOf(custom({ auth: { type: 'bearer', token: 'b' } }), settings), first, 'the auth')
  t.not(keyOf(custom(), { ...settings, TOKEN: 'secret-token' }), first, 'a setting that only the auth reads')
  t.notMatch(keyOf(custom(), { ...settings, TOKEN: 'secret-token' }), /secret-token/)
  t.equal(keyOf({ ...custom(), credentials: { codehost: { token: 'x' } } }, settings), first, 'a connector that the route does not call')

  const issue: Integration = { type: 'codehost', action: 'getIssue', params: { owner: 'o', repo: 'r', number: 1 } }
  const codehost = (token: string, env = {}) => compiledKey(issue, { credentials: { codehost: { token } } }, env)
  t.not(codehost('a'), codehost('b'), 'credentials of a built-in connector')
  t.not(codehost('{{env.TOKEN}}', { TOKEN: 'a' }), codehost('{{env.TOKEN}}', { TOKEN: 'b' }))
  t.equal(codehost('{{env.TOKEN}}', settings), codehost('{{env.TOKEN}}', settings))
})

t.test('the declaration of a SQL function that a route calls belongs to the key', async (t) => {
  const keyFor = (functions: CacheContext['functions']) =>
    compileCache(
      { path: '/a', method: 'get', queries: [{ operation: 'call', function: 'report' }], cache: { enabled: true } },
      { references: [], integrations: [] },
      '',
      { cache: { enabled: true, ttl: 60 }, pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 }, functions },
      context()
    )?.key(noScope, list)
  const first = keyFor({ report: { tenantScoped: false } })
  t.not(keyFor({ report: { tenantArgument: 'tenant' } }), first)
  t.equal(keyFor({ report: { tenantScoped: false }, other: {} }), first, 'a function that the route does not call')
})

t.test('a long key is hashed', async (t) => {
  const key = compile()
  const long = 'q='.padEnd(5000, 'x')
  t.match(key({}, { query: long }), /^sha256:[0-9a-f]{64}$/)
  t.not(key({}, { query: long }), key({}, { query: `${long}y` }))
  t.ok(key({}, { query: 'q='.padEnd(900, 'x') }).length <= 1024)
})

t.test('a cache key cannot read unknown sources, results or secrets', async (t) => {
  const within = context()
  compileCacheKey({ enabled: true, key: 'a {{secret:K}}', varyBy: ['qury.lang', 'now()', 'results.a', 'secret.K'] }, [], '/cache', within, '')
  t.match(within.faults.faults, [
    { pointer: '/cache/varyBy/0', suggestion: 'query' },
    { pointer: '/cache/varyBy/1' },
    { pointer: '/cache/varyBy/2' },
    { pointer: '/cache/varyBy/3', message: /secret cannot be used in a cache key/ },
    { pointer: '/cache/key', message: /secret cannot be used in a cache key/ }
  ])
})
