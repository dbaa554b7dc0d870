/* eslint-disable no-template-curly-in-string -- the legacy form of environment settings is what these strings test */
import { test } from 'tap'
import type { CompiledRoute } from '../../../lib/compiler/route.js'
import type { RouteContext } from '../../../lib/compiler/route-context.js'
import { TenantryError } from '../../../lib/errors.js'
import type { Scope } from '../../../lib/expressions/types.js'
import type { Route } from '../../../lib/schema/route.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { onSql, scopeOf } from '../queries/helpers.js'
import { compile, documented, faultsOf } from './routes.js'

const id = '00000000-0000-4000-8000-000000000001'
const token = 'tok_live_51x'
const secrets = new Map<string, string | null>([['TOKEN', token], ['OLD', null], ['a.b-c', 'dotted'], ['LIMIT', '7']])
const bound = (route: CompiledRoute, scope: Partial<Scope> = {}) =>
  route.queries.map((query) => onSql(query).bind(scopeOf({ secrets, ...scope })))

const insert = (data: unknown, more: object = {}): Route => ({
  path: '/articles',
  method: 'post',
  queries: [{ table: 'articles', operation: 'insert', data, ...more }]
})

/** The value that is written to `title`. */
function title (template: string, scope: Partial<Scope> = {}, context: Partial<RouteContext> = {}): unknown {
  const [query] = bound(compile(insert({ title: template, slug: 's' }), context), scope)
  return query?.values.find((value) => value !== 'a' && value !== 's')
}

test('a secret resolves to its value, an expired one to null, an unknown one to its placeholder', async (t) => {
  t.equal(title('{{secret:TOKEN}}'), token)
  t.equal(title('{{secret.TOKEN}}'), token)
  t.equal(title('Bearer {{ secret:TOKEN }}'), `Bearer ${token}`)
  t.equal(title('{{secret:a.b-c}}'), 'dotted')
  t.equal(title('{{secret:NONE}}'), '{{secret:NONE}}')
  t.equal(title('{{ secret.NONE }}'), '{{ secret.NONE }}')
  t.equal(title('Bearer {{secret:NONE}}'), 'Bearer {{secret:NONE}}')
  t.equal(title('{{secret:OLD}}'), null)
  t.equal(title('x{{secret:OLD}}'), 'x')
  t.equal(title("{{secret:NONE || 'other'}}"), 'other')
  t.equal(title("{{secret:OLD || 'other'}}"), 'other')
  t.equal(title("{{secret:TOKEN || 'other'}}"), token)
  t.equal(title('{{secret:NONE || secret:TOKEN}}'), token)
  t.equal(title('{{body.x || secret:NONE}}', { body: {} }), '{{body.x || secret:NONE}}')
  t.equal(
    title('{{secret:TOKEN}}', { secrets: new Map([['TOKEN', '{{body.x}}']]), body: { x: 'read' } }),
    '{{body.x}}',
    'a value is never parsed as a template'
  )
})

test('a route lists each secret key that it reads once', async (t) => {
  const route = compile({
    path: '/articles',
    method: 'get',
    queries: [{
      table: 'articles',
      operation: 'select',
      filters: [{ column: 'slug', value: '{{secret:B}}' }, { column: 'title', value: '{{secret.A || secret:B}}' }]
    }]
  })
  t.strictSame([...route.secrets].sort(), ['A', 'B'])
  t.ok(Object.isFrozen(route.secrets))
  t.strictSame(compile(insert({ title: 'x' })).secrets, [])
})

test('keys must have a valid form', async (t) => {
  t.strictSame(faultsOf(insert({ title: `{{secret:${'k'.repeat(128)}}}` })), [])
  for (const text of [`{{secret:${'k'.repeat(129)}}}`, '{{secret:ü}}', '{{secret:a$}}', '{{secret:}}', '{{secret}}', "{{secret['a b']}}"]) {
    t.equal(faultsOf(insert({ title: text })).length, 1, text)
  }
})

test('secrets are rejected wherever their value would leave the server', async (t) => {
  const list: Route = { path: '/articles/:id', method: 'get', queries: [{ table: 'articles', operation: 'select' }] }
  const refused: Record<string, Route> = {
    'a response': { ...list, response: { token: '{{secret:TOKEN}}' } },
    'a response ': { ...list, response: { type: 'object', properties: { a: { description: '{{secret:TOKEN}}' } } } },
    'a transform': { ...list, transform: { fields: { token: '{{secret:TOKEN}}' } } },
    'a transform ': { ...list, transform: { fields: { token: 'secret.TOKEN' } } },
    'a description': { ...list, description: 'Uses {{secret:TOKEN}}' },
    'a description ': { ...list, tags: ['{{secret.TOKEN}}'] },
    'the rules of a request': { ...list, request: { query: { a: { type: 'string', enum: ['{{secret:TOKEN}}'] } } } },
    'a cache key': { ...list, cache: { enabled: true, key: '{{secret:TOKEN}}' } },
    'a cache key ': { ...list, cache: { enabled: true, varyBy: ['secret:TOKEN'] } },
    'a cache key  ': { ...list, cache: { enabled: true, varyBy: ['{{secret.TOKEN}}'] } },
    'a `limit` or an `offset`': { ...list, queries: [{ table: 'articles', operation: 'select', limit: '{{secret:LIMIT}}' }] },
    'a `limit` or an `offset` ': { ...list, queries: [{ table: 'articles', operation: 'select', offset: '{{secret:LIMIT}}' }] },
    'the id of a document': {
      path: '/d',
      method: 'get',
      firebaseQueries: [{ collection: 'd', operation: 'get', docId: '{{secret:TOKEN}}' }]
    }
  }
  for (const [where, route] of Object.entries(refused)) {
    for (const origin of ['platform', 'tenant'] as const) {
      const faults = faultsOf(route, { origin })
      t.equal(faults.length, 1, `${where} ${origin}`)
      t.match(faults[0], `a secret cannot be used in ${where.trim()}`)
    }
  }
})

test('no response of a route contains a column that its write fills from a secret', async (t) => {
  const answered = (route: Route, scope: Partial<Scope> = {}) =>
    bound(compile(route), scope).map(({ statement }) => /returning (.*)$/.exec(statement.text)?.[1] ?? statement.text)
  for (const fullAccess of [false, true]) {
    for (
      const data of [{ title: '{{secret:TOKEN}}', slug: 's' }, { title: 'x {{secret.TOKEN}}', slug: 's' }, {
        title: '{{body.title || secret:TOKEN}}',
        slug: 's'
      }, { title: '{{secret:NONE}}', slug: 's' }, { title: '{{\nsecret:TOKEN}}', slug: 's' }]
    ) {
      const [columns] = answered(insert(data), { fullAccess, body: {} })
      t.notMatch(columns, '"title"')
      t.notMatch(columns, '"title_length"', 'nor a value that the database derives from it')
      t.match(columns, '"slug"')
    }
    const renamed = answered(insert({ title: '{{secret:TOKEN}}' }, { select: 'id, name:title' }), { fullAccess })
    t.notMatch(renamed[0], '"title"')
    const update = answered({
      path: '/a',
      method: 'put',
      queries: [{ table: 'articles', operation: 'update', id, data: { meta: { token: '{{secret:TOKEN}}' }, slug: 's' } }]
    }, { fullAccess })
    t.notMatch(update[0], /returning.*"meta"/)
    const upsert = answered({
      path: '/a',
      method: 'put',
      queries: [{
        table: 'articles',
        operation: 'upsert',
        onConflict: ['slug'],
        filters: [{ column: 'slug', value: '{{secret:TOKEN}}' }],
        data: { title: 'x' }
      }]
    }, { fullAccess })
    t.notMatch(upsert[0], '"slug" ')
    const several = answered({
      path: '/a',
      method: 'post',
      queries: [
        { table: 'articles', operation: 'insert', data: { title: '{{secret:TOKEN}}' }, alias: 'made' },
        { table: 'articles', operation: 'select', id: '{{results.made.id}}', alias: 'read' },
        { table: 'authors', operation: 'select', select: 'name, articles(title, slug)', alias: 'nested' }
      ]
    }, { fullAccess, results: { made: { id } } })
    t.notMatch(several[1], '"title"', 'another query of the route cannot read it back')
    t.notMatch(several[2], '"title"', 'nor through an embed')
    t.match(several[2], '"slug"')
    const byKey = answered({ path: '/a', method: 'get', queries: [{ table: 'labels', operation: 'select', id: '{{secret:LIMIT}}' }] }, {
      fullAccess
    })
    t.match(byKey[0], /from \(select row_to_json\(r\.\*\)::text from \(select t\d\."tenant_id", t\d\."name" from/, 'the key of a row')
  }
  t.match(answered(insert({ title: 'x' }))[0], '"title"')
  const { response } = documented(insert({ title: '{{secret:TOKEN}}' }))
  t.notOk('title' in Object(Object(response[201]?.['properties'])))
})

test('no response of a route contains a document field that comes from a secret', async (t) => {
  for (const fullAccess of [false, true]) {
    const route = compile({
      path: '/d/:id',
      method: 'put',
      firebaseQueries: [
        {
          collection: 'd',
          operation: 'set',
          docId: '{{params.id}}',
          data: { token: '{{secret:TOKEN}}', name: 'n', deep: { x: 'k {{secret:TOKEN}}' } },
          alias: 'set'
        },
        { collection: 'd', operation: 'query', alias: 'all' }
      ]
    })
    for (const { statement, values } of bound(route, { fullAccess, params: { id: '1' } })) {
      t.match(statement.text, /- \$\d+::text\[\]\)/)
      t.ok(values.some((value) => Array.isArray(value) && value.join() === 'token,deep'))
    }
    const excluding = compile({
      path: '/d',
      method: 'post',
      excludeFields: ['note'],
      firebaseQueries: [{ collection: 'd', operation: 'add', data: { token: '{{secret:TOKEN}}', note: '{{body.note}}' } }]
    })
    t.ok(
      bound(excluding, { fullAccess, body: { note: 'n' } })[0]?.values.some((value) =>
        Array.isArray(value) && value.join() === (fullAccess ? 'token' : 'note,token')
      )
    )
  }
})

test('an invalid value is rejected and not shown', async (t) => {
  const routes: Route[] = [
    insert({ views: '{{secret:TOKEN}}' }),
    insert('{{secret:TOKEN}}'),
    {
      path: '/a',
      method: 'get',
      queries: [{ table: 'articles', operation: 'select', filters: [{ column: 'views', value: '{{secret:TOKEN}}' }] }]
    },
    { path: '/a', method: 'get', queries: [{ table: 'articles', operation: 'select', id: '{{secret:TOKEN}}' }] },
    { path: '/a', method: 'post', queries: [{ table: 'articles', operation: 'insert', data: { tenant_id: '{{secret:TOKEN}}' } }] },
    { path: '/a', method: 'post', firebaseQueries: [{ collection: 'd', operation: 'add', data: '{{secret:TOKEN}}' }] }
  ]
  for (const route of routes) {
    try {
      bound(compile(route))
      t.fail('it was not rejected')
    } catch (error) {
      if (!(error instanceof TenantryError)) throw error
      t.notMatch(JSON.stringify([error.message, error.extras]), token)
    }
  }
})

test("a tenant's document can read only the settings that the platform lists", async (t) => {
  const env = { JWT_SECRET: 'hush', REGION: 'eu' }
  const context = { origin: 'tenant', env, envNames: new Set(['REGION', 'UNSET']) } as const
  t.equal(title('{{env.REGION}}', {}, context), 'eu')
  t.equal(title('${REGION}', {}, context), 'eu')
  t.equal(title("{{env.UNSET || 'none'}}", {}, context), 'none')
  t.match(faultsOf(insert({ title: '{{env.UNSET}}' }), context), [/UNSET is not set/])
  const refusals = [
    '{{env.JWT_SECRET}}',
    "{{env.JWT_SECRET || 'x'}}",
    "{{body.x || env.JWT_SECRET || 'x'}}",
    '${JWT_SECRET}',
    'x{{ env.JWT_SECRET }}',
    "{{env['JWT_SECRET']}}"
  ]
  for (const text of refusals) {
    const places: Route[] = [
      insert({ title: text }),
      { ...insert({ title: 'x' }), response: { a: text } },
      { path: '/a', method: 'get', queries: [{ table: 'articles', operation: 'select', filters: [{ column: 'title', value: text }] }] },
      { path: '/a', method: 'get', queries: [{ table: 'articles', operation: 'select' }], cache: { enabled: true, key: text } }
    ]
    for (const route of places) {
      const [fault, ...more] = faultsOf(route, context)
      t.match(fault, /only if the platform lists it in `tenancy\.env`/)
      t.strictSame(more, [])
    }
  }
  t.match(faultsOf({ ...insert({ title: 'x' }), transform: { fields: { a: 'env.JWT_SECRET' } } }, context), [/tenancy\.env/])
  const asked = (name: string) => faultsOf(insert({ title: `{{env.${name}}}` }), context)[0]?.replace(name, 'NAME')
  t.equal(asked('JWT_SECRET'), asked('NOT_THERE'), 'the fault does not reveal whether it is set')
})

test("a tenant's secret replaces the platform setting of its name if that is overridable and stays inside the server", async (t) => {
  const context: Partial<RouteContext> = {
    env: { TOKEN: 'platform', OLD: 'platform', OTHER: 'platform', LIMIT: '3' },
    overridableEnv: new Set(['TOKEN', 'OLD', 'NONE', 'LIMIT'])
  }
  t.equal(title('{{env.TOKEN}}', {}, context), token)
  t.equal(title('${TOKEN}', {}, context), token)
  t.equal(title('{{env.TOKEN}}', { secrets: new Map() }, context), 'platform')
  t.equal(title('{{env.OLD}}', {}, context), null)
  t.equal(title("{{env.OLD || 'default'}}", {}, context), 'default')
  t.equal(title("{{env.NONE || 'default'}}", {}, context), 'default')
  t.equal(title('{{env.OTHER}}', {}, context), 'platform')
  t.strictSame(compile(insert({ title: '{{env.TOKEN}}', slug: '{{env.OTHER}}' }), context).secrets, ['TOKEN'])
  const [written] = bound(compile(insert({ title: '{{env.TOKEN}}' }), context), { fullAccess: true })
  t.notMatch(/returning (.*)$/.exec(written?.statement.text ?? '')?.[1], '"title"')

  const list: Route = {
    path: '/a',
    method: 'get',
    queries: [{ table: 'articles', operation: 'select', limit: '{{env.LIMIT}}' }],
    response: { token: '{{env.TOKEN}}' },
    cache: { enabled: true, key: '{{env.TOKEN}}' }
  }
  const route = compile(list, context)
  t.strictSame(route.secrets, [], 'outgoing values cannot read a secret')
  const scope = scopeOf({ secrets })
  t.equal(route.response?.kind === 'mapping' && route.response.serialize(scope), '{"token":"platform"}')
  t.notMatch(route.cache?.key(scope, { method: 'GET', path: '/a', query: '' }), token)
  t.match(compile(list, { env: context.env ?? {} }).secrets, { length: 0 })
})

test("a route's cache key contains the tenant settings that it reads, and nothing else of the tenant", async (t) => {
  const route = compile({
    path: '/a',
    method: 'get',
    queries: [{ table: 'articles', operation: 'select', filters: [{ column: 'slug', value: '{{tenant.config.site}}' }] }],
    response: { site: '{{tenant.config.site}}', all: '{{tenant}}', inherited: '{{tenant.config.constructor}}' },
    cache: { enabled: true }
  })
  const tenant = { ...scopeTenant('a', { site: 'one' }), plan: 'pro' }
  const key = (config: Record<string, unknown>) =>
    route.cache?.key(scopeOf({ tenant: scopeTenant('a', config) }), { method: 'GET', path: '/a', query: '' })
  t.not(key({ site: 'one' }), key({ site: 'two' }))
  t.equal(key({ site: 'one' }), key({ site: 'one' }))
  t.equal(
    route.response?.kind === 'mapping' && route.response.serialize(scopeOf({ tenant })),
    '{"site":"one","all":{"id":"a","config":{"site":"one"}}}'
  )
  t.match(faultsOf(insert({ title: '{{tenant.plan}}' })), [/a tenant has `tenant\.id` and `tenant\.config`/])
})
