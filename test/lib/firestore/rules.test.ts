/** Security rules for programs that access Firestore directly: their text, and their effect in Google's emulator. */
import { test } from 'tap'
import { request } from 'undici'
import { checkConfig, type ConfigInput } from '../../../lib/configuration/index.js'
import { securityRules } from '../../../lib/firestore/rules.js'
import type { DocumentQuery } from '../../../lib/schema/query.js'
import type { Route } from '../../../lib/schema/route.js'
import { firestoreServer, isGoogle } from '../../helpers/firestore.js'
import { testServer } from '../../helpers/server.js'
import { needsGoogle } from '../../helpers/skips.js'
import { bearer } from '../../helpers/tokens.js'

const docId = '{{params.id}}'
let routes = 0
const one = (query: DocumentQuery, more: Partial<Route> = {}): Route => ({
  path: `/r${++routes}/:id`,
  method: 'post',
  firebaseQueries: [query],
  ...more
})

const document = (input: Partial<ConfigInput>): ConfigInput => ({
  databaseProvider: 'firebase',
  jwt: { secret: 'a secret of the tests, 32 bytes or more' },
  ...input,
  firebase: { projectId: 'test-rules', ...input.firebase },
  routes: input.routes ?? []
})

const rulesOf = (input: Partial<ConfigInput>): string => securityRules(checkConfig(document(input), { env: {} })) ?? ''

/** The access that the rules allow, by path. */
const allowedIn = (rules: string): Record<string, string> =>
  Object.fromEntries([...rules.matchAll(/match \/(\S+)\/\{document\} \{\n\s+allow (.*?): if (.*);/g)].map(([, path, list]) => [path, list]))

const everyone = [
  one({ collection: 'notes', operation: 'get', docId }),
  one({ collection: 'notes', operation: 'query', order: { column: 'rank' } }),
  one({ collection: 'notes', operation: 'set', docId }, { requireAuth: true }),
  one({ collection: 'logs', operation: 'add' }),
  one({ collection: 'logs', operation: 'delete', docId }, { requiredPermissions: ['logs:delete'] }),
  one({ collection: 'countries', operation: 'query' }),
  one({ collection: 'countries', operation: 'set', docId }),
  one({ collection: 'odd-name', operation: 'update', docId }),
  one({ collection: 'match', operation: 'delete', docId })
]
const firebase = { projectId: 'test-rules', sharedCollections: ['countries', 'hidden'] }
const authProviders = { firebase: { projectId: 'test-rules', tenantClaim: 'app.tenant' } }

test('rules allow what a route allows to every user of a tenant', async (t) => {
  t.same(allowedIn(rulesOf({ firebase, routes: everyone })), {
    countries: 'list',
    'tenants/{tenant}/logs': 'create',
    'tenants/{tenant}/match': 'delete',
    'tenants/{tenant}/notes': 'get, list, create, update',
    'tenants/{tenant}/odd-name': 'update'
  })
  t.match(rulesOf({ firebase, routes: everyone }), /only: hidden/)
})

test('rules do not allow what a route restricts', async (t) => {
  const query: DocumentQuery = { collection: 'notes', operation: 'query' }
  const get: DocumentQuery = { collection: 'notes', operation: 'get', docId }
  const closed: readonly Route[] = [
    one(query, { requiredPermissions: ['notes:read'] }),
    one(query, { excludeFields: ['salary'] }),
    one(query, { transform: { fields: { a: '1' } } }),
    one({ ...query, select: 'title' }),
    one({ ...query, excludeFields: ['salary'] }),
    one({ ...query, filters: [{ column: 'owner', value: '{{auth.sub}}' }] }),
    one({ ...query, filters: [{ column: 'open', value: true }] }),
    one({ ...query, filters: [{ column: 'owner', value: '{{auth.sub}}', optional: true }] }),
    one({ ...query, filters: [{ column: 'code', value: '{{query.code}}' }] }),
    one({ ...query, store: 'sql' }),
    one({ ...get, docId: '{{auth.sub}}' }),
    one({ ...get, docId: 'settings' }),
    one({ collection: 'notes', operation: 'set', docId }, { request: { body: { title: { type: 'string' } } } }),
    one({ collection: 'notes', operation: 'set', docId, data: { by: '{{auth.sub}}' } }),
    { path: '/two/:id', method: 'put', firebaseQueries: [get, { collection: 'notes', operation: 'delete', docId, alias: 'gone' }] }
  ]
  for (const route of closed) {
    t.same(allowedIn(rulesOf({ routes: [route] })), {}, JSON.stringify(route))
  }
  t.same(allowedIn(rulesOf({ routes: [one({ ...query, filters: [{ column: 'a', value: '{{query.a}}', optional: true }] })] })), {
    'tenants/{tenant}/notes': 'list'
  })
})

test('with the provider firebase, rules allow what the server allows to its users', async (t) => {
  const remove = (more: Partial<Route>) => one({ collection: 'notes', operation: 'delete', docId }, more)
  const read = (more: Partial<Route>) => one({ collection: 'countries', operation: 'query' }, more)
  const refused: readonly Partial<Route>[] = [{ requireAuth: true }, { requireAuth: true, authProvider: 'jwt' }, { public: false }]
  for (const more of refused) {
    t.same(allowedIn(rulesOf({ firebase, authProviders, routes: [remove(more), read(more)] })), {}, JSON.stringify(more))
  }
  const open: readonly Partial<Route>[] = [
    { requireAuth: true, authProvider: 'firebase' },
    { public: false, authProvider: 'firebase' },
    { authProvider: 'firebase' },
    {} // also for callers without a token
  ]
  for (const more of open) {
    t.same(
      allowedIn(rulesOf({ firebase, authProviders, routes: [remove(more), read(more)] })),
      { countries: 'list', 'tenants/{tenant}/notes': 'delete' },
      JSON.stringify(more)
    )
  }
  t.same(allowedIn(rulesOf({ firebase, routes: [remove({ requireAuth: true })] })), { 'tenants/{tenant}/notes': 'delete' }, 'own users')
})

test('values of secrets cannot be read directly', async (t) => {
  t.same(
    allowedIn(rulesOf({
      routes: [
        one({ collection: 'notes', operation: 'query' }),
        one({ collection: 'notes', operation: 'add' }),
        one({ collection: 'notes', operation: 'set', docId, data: { key: '{{secret.KEY}}' } }, { requireAuth: true }),
        one({ collection: 'broken', operation: 'query' }),
        one({ collection: 'broken', operation: 'set', docId, data: { keys: ['{{\nsecret.KEY}}'] } }, { requireAuth: true })
      ]
    })),
    { 'tenants/{tenant}/notes': 'create' }
  )
})

test('names of collections and claims cannot end a rule, a text or a comment', async (t) => {
  const names = ['a b', '{x=**}', "x'", 'x" || true', 'a\n} allow read: if true;', 'a\u2028allow', '漢']
  const rules = rulesOf({
    firebase: { projectId: 'test-rules', sharedCollections: names },
    routes: names.map((collection) => one({ collection, operation: 'get', docId }))
  })
  t.same(allowedIn(rules), {})
  t.match(rules, /^[\x20-\x7e\n]*$/)
  t.equal(rules.split('\n').filter((line) => line.includes('allow ') && !line.trim().startsWith('//')).length, 1)
  const odd = rulesOf({ authProviders: { firebase: { projectId: 'p', tenantClaim: "x') || true || ('" } }, routes: everyone })
  t.same(allowedIn(odd), {})
  t.notMatch(odd, /true \|\|/)
})

test('without a tenant claim, the rules allow no tenant documents', async (t) => {
  t.same(Object.keys(allowedIn(rulesOf({ firebase, authProviders: { firebase: { projectId: 'p' } }, routes: everyone }))), ['countries'])
  t.match(rulesOf({ routes: everyone }), /request\.auth\.token\.get\('tenant_id', ''\) == tenant/)
})

test('GET /migration returns the rules to platform administrators only', async (t) => {
  const { emulatorHost } = await firestoreServer(t)
  const own = { ...firebase, emulatorHost }
  const app = await testServer(t, { databaseProvider: 'firebase', firebase: own, routes: everyone })
  const response = await app.inject({ url: '/migration', headers: bearer({ role: 'admin' }) })
  t.equal(response.statusCode, 200)
  t.equal(response.json().rules, rulesOf({ firebase, routes: everyone }))
  t.equal((await app.inject({ url: '/migration', headers: bearer({ role: 'admin', tenant_id: 'a' }) })).statusCode, 403)
})

test('the rules isolate tenants in the emulator', { skip: !isGoogle && needsGoogle }, async (t) => {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const base = `http://${emulatorHost}`
  const json = { 'content-type': 'application/json' }
  const routes = everyone.map((route) => ({ ...route, authProvider: 'firebase' }))
  const content = rulesOf({ firebase, authProviders, routes })
  const set = await request(`${base}/emulator/v1/projects/${projectId}:securityRules`, {
    method: 'PUT',
    headers: json,
    body: JSON.stringify({ rules: { files: [{ name: 'firestore.rules', content }] } })
  })
  t.equal(set.statusCode, 200, await set.body.text())

  const documents = `${base}/v1/projects/${projectId}/databases/(default)/documents`
  const encoded = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url')
  const tokenOf = (claims: object): string => `Bearer ${encoded({ alg: 'none' })}.${encoded({ sub: 'u', user_id: 'u', ...claims })}.`
  const users = {
    owner: 'Bearer owner',
    acme: tokenOf({ app: { tenant: 'acme' } }),
    named: tokenOf({ 'app.tenant': 'acme' }),
    globex: tokenOf({ app: { tenant: 'globex' } }),
    none: tokenOf({}),
    tilde: tokenOf({ app: { tenant: '~' } }),
    stranger: undefined
  }
  const as = async (user: keyof typeof users, method: 'GET' | 'PATCH' | 'DELETE', path: string): Promise<number> => {
    const token = users[user]
    const { statusCode, body } = await request(`${documents}/${path}`, {
      method,
      headers: { ...json, ...token !== undefined && { authorization: token } },
      ...method === 'PATCH' && { body: '{"fields":{"a":{"integerValue":"1"}}}' }
    })
    await body.dump()
    return statusCode
  }
  const paths = ['acme', 'globex', '~'].flatMap((tenant) => [`tenants/${tenant}/notes/n1`, `tenants/${tenant}/logs/l1`])
  for (const path of [...paths, 'tenants/acme/notes/n1/below/b', 'countries/de', 'hidden/h', 'other/o', 'tenants/acme/other/o']) {
    t.equal(await as('owner', 'PATCH', path), 200, path)
  }
  const allowed = [
    ['acme', 'GET', 'tenants/acme/notes/n1'],
    ['named', 'GET', 'tenants/acme/notes/n1'],
    ['acme', 'GET', 'tenants/acme/notes'],
    ['acme', 'PATCH', 'tenants/acme/notes/n1'],
    ['acme', 'PATCH', 'tenants/acme/notes/n2'],
    ['acme', 'PATCH', 'tenants/acme/logs/l2'],
    ['acme', 'PATCH', 'tenants/acme/odd-name/o1', 403],
    ['acme', 'DELETE', 'tenants/acme/match/m1'],
    ['globex', 'GET', 'tenants/globex/notes/n1'],
    ['none', 'GET', 'countries']
  ] as const
  for (const [user, method, path, status = 200] of allowed) t.equal(await as(user, method, path), status, `${user} ${method} ${path}`)
  const denied = [
    ['globex', 'GET', 'tenants/acme/notes/n1'],
    ['globex', 'GET', 'tenants/acme/notes'],
    ['globex', 'PATCH', 'tenants/acme/notes/n1'],
    ['none', 'GET', 'tenants/acme/notes/n1'],
    ['stranger', 'GET', 'tenants/acme/notes/n1'],
    ['stranger', 'GET', 'countries'],
    ['tilde', 'GET', 'tenants/~/notes/n1'],
    ['acme', 'DELETE', 'tenants/acme/notes/n1'],
    ['acme', 'GET', 'tenants/acme/logs/l1'],
    ['acme', 'PATCH', 'tenants/acme/logs/l1'],
    ['acme', 'GET', 'tenants/acme/other/o'],
    ['acme', 'GET', 'tenants/acme/notes/n1/below/b'],
    ['acme', 'GET', 'countries/de'],
    ['acme', 'PATCH', 'countries/de'],
    ['acme', 'GET', 'hidden/h'],
    ['acme', 'GET', 'other/o'],
    ['acme', 'GET', 'tenants/acme']
  ] as const
  for (const [user, method, path] of denied) t.equal(await as(user, method, path), 403, `${user} ${method} ${path}`)
})
