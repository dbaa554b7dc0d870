/** The tables that routes read and write. */
import { test } from 'tap'
import type { TableUse } from '../../../lib/cache/store.js'
import type { ForeignKey } from '../../../lib/database/catalogue.js'
import type { Route } from '../../../lib/schema/route.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { compile } from '../compiler/routes.js'
import { catalogueOf, key, table } from './tables.js'

const follows = (foreignKey: ForeignKey, how: Pick<ForeignKey, 'followsDelete' | 'followsUpdate'>): ForeignKey => ({
  ...foreignKey,
  ...how
})
const catalogue = catalogueOf(
  table('people', ['id integer!', 'tenant_id text!', 'name text', 'country text'], {
    foreignKeys: [key('c', 'country', 'countries.code')]
  }),
  table('notes', ['id integer!', 'tenant_id text!', 'title text', 'person_id integer'], {
    foreignKeys: [follows(key('p', 'person_id', 'people.id'), { followsDelete: true })]
  }),
  table('tags', ['id integer!', 'tenant_id text!', 'note_id integer'], {
    foreignKeys: [follows(key('n', 'note_id', 'notes.id'), { followsDelete: true, followsUpdate: true })]
  }),
  table('logs', ['id integer!', 'tenant_id text!', 'note_id integer'], { foreignKeys: [key('l', 'note_id', 'notes.id')] }),
  table('offices', ['id integer!', 'tenant_id text!', 'country text'], {
    foreignKeys: [follows(key('o', 'country', 'countries.code'), { followsDelete: true })]
  }),
  table('desks', ['id integer!', 'tenant_id text!', 'office_id integer'], {
    foreignKeys: [follows(key('d', 'office_id', 'offices.id'), { followsDelete: true })]
  }),
  table('countries', ['code text!', 'name text'], { primaryKey: ['code'] }),
  { ...table('own_view', ['id integer', 'tenant_id text'], { view: true }), readsFrom: ['notes', 'countries'] },
  { ...table('whole_view', ['title text'], { view: true }), readsFrom: ['notes'] },
  { ...table('events', ['id integer!']), family: ['visits', 'sales'] },
  { ...table('visits', ['id integer!', 'tenant_id text!']), family: ['events', 'sales'] },
  { ...table('sales', ['id integer!', 'tenant_id text!']), family: ['events', 'visits'] },
  { ...table('all_visits', ['id integer'], { view: true }), readsFrom: ['visits'] }
)

function uses (route: Partial<Route>): { reads: string[], writes: string[] } {
  const compiled = compile({ path: '/x', method: 'post', ...route }, { catalogue })
  const texts = (list: readonly TableUse[]) => list.map(({ table, scoped }) => scoped ? `${table} of the tenant` : table).sort()
  return { reads: texts(compiled.reads), writes: texts(compiled.writes) }
}

test('a read depends on its table, embedded tables, and the tables behind views', async (t) => {
  t.strictSame(uses({ queries: [{ table: 'people', operation: 'select' }] }), { reads: ['people of the tenant'], writes: [] })
  t.strictSame(
    uses({ queries: [{ table: 'people', operation: 'select', select: 'name, notes(title, tags(count)), countries(name)' }] }).reads,
    ['countries', 'notes of the tenant', 'people of the tenant', 'tags of the tenant']
  )
  t.strictSame(uses({ queries: [{ table: 'own_view', operation: 'select' }] }).reads, ['countries', 'notes of the tenant'])
  t.strictSame(uses({ queries: [{ table: 'whole_view', operation: 'select' }] }).reads, ['notes'], 'the rows of all tenants')
  t.strictSame(uses({ queries: [{ table: 'notes', operation: 'select' }, { table: 'notes', alias: 'b', operation: 'select' }] }).reads, [
    'notes of the tenant'
  ], 'each once')
  t.strictSame(uses({ response: { a: 1 } }), { reads: [], writes: [] })
})

test('a write affects its table, tables that the database changes with it, and views of all tenants', async (t) => {
  const data = { id: 1 }
  t.strictSame(uses({ queries: [{ table: 'countries', operation: 'insert', data: { code: 'DE' } }] }).writes, ['countries'])
  t.strictSame(uses({ queries: [{ table: 'people', operation: 'insert', data }] }).writes, ['people of the tenant'])
  t.strictSame(uses({ queries: [{ table: 'people', operation: 'update', id: 1, data: { name: 'x' } }] }).writes, ['people of the tenant'])
  t.strictSame(uses({ queries: [{ table: 'people', operation: 'delete', id: 1 }] }).writes, [
    'notes',
    'notes of the tenant',
    'people of the tenant',
    'tags of the tenant'
  ])
  t.strictSame(uses({ queries: [{ table: 'notes', operation: 'upsert', data }] }).writes, [
    'notes',
    'notes of the tenant',
    'tags of the tenant'
  ])
})

test('a write to a table without tenants affects dependent rows of all tenants', async (t) => {
  t.strictSame(uses({ queries: [{ table: 'countries', operation: 'delete', id: 'DE' }] }).writes, [
    'countries',
    'desks',
    'desks of the tenant',
    'offices',
    'offices of the tenant'
  ])
  t.strictSame(uses({ queries: [{ table: 'offices', operation: 'delete', id: 1 }] }).writes, [
    'desks of the tenant',
    'offices of the tenant'
  ], "a tenant has no row that depends on another tenant's")
  t.strictSame(uses({ queries: [{ table: 'desks', operation: 'select' }] }).reads, ['desks', 'desks of the tenant'])
  t.strictSame(uses({ queries: [{ table: 'people', operation: 'select' }] }).reads, ['people of the tenant'])
})

test('a write to an inherited or inheriting table affects all tables that show its rows', async (t) => {
  const family = {
    events: ['events', 'sales', 'sales of the tenant', 'visits', 'visits of the tenant'],
    visits: ['events', 'sales of the tenant', 'visits', 'visits of the tenant']
  }
  for (const [table, written] of Object.entries(family)) {
    t.strictSame(uses({ queries: [{ table, operation: 'insert', data: { id: 1 } }] }).writes, written, table)
    t.strictSame(uses({ queries: [{ table, operation: 'delete', id: 1 }] }).writes, written, table)
  }
})

test('document collections count as tables of the tenant', async (t) => {
  const of = (operation: 'get' | 'query' | 'create' | 'set' | 'update' | 'delete') =>
    uses({
      firebaseQueries: [{
        collection: 'docs',
        operation,
        ...!['query', 'create'].includes(operation) && { docId: 'a' },
        ...['create', 'set', 'update'].includes(operation) && { data: { a: 1 } }
      }]
    })
  const docs = ['documents:docs of the tenant']
  for (const operation of ['get', 'query'] as const) t.strictSame(of(operation), { reads: docs, writes: [] }, operation)
  for (const operation of ['create', 'set', 'update', 'delete'] as const) {
    t.strictSame(of(operation), { reads: [], writes: docs }, operation)
  }
})

test('the results are frozen', async (t) => {
  const { reads, writes } = compile({ path: '/x', method: 'post', queries: [{ table: 'notes', operation: 'insert', data: { id: 1 } }] }, {
    catalogue
  })
  for (const part of [reads, writes, ...reads, ...writes]) t.ok(Object.isFrozen(part))
})

test('a cached response belongs to one version of its route', async (t) => {
  const route: Route = {
    path: '/x',
    method: 'get',
    cache: { enabled: true },
    queries: [{ table: 'people', operation: 'select' }],
    response: { a: '{{env.COLOR}}' }
  }
  const scope = {
    body: undefined,
    params: {},
    query: {},
    headers: {},
    auth: null,
    tenant: scopeTenant('acme'),
    secrets: new Map(),
    results: {},
    fullAccess: false
  }
  const keyOf = (changes: Partial<Route>, context: Parameters<typeof compile>[1] = {}) =>
    compile({ ...route, ...changes }, { catalogue, env: { COLOR: 'red' }, ...context }).cache?.key(scope, {
      method: 'GET',
      path: '/x',
      query: ''
    })
  t.equal(keyOf({}), keyOf({}))
  const keys = [
    keyOf({}),
    keyOf({ excludeFields: ['name'] }),
    keyOf({ queries: [{ table: 'people', operation: 'select', select: 'id' }] }),
    keyOf({}, { env: { COLOR: 'green' } }),
    keyOf({}, { pagination: { defaultLimit: 1, maxLimit: 2, defaultOffset: 0 } })
  ]
  t.equal(new Set(keys).size, keys.length)
  t.notMatch(keys.join(), /red|green/)
})
