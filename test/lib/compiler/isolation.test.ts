/** The bounds of a tenant's document: forbidden names are faults when it is saved, other limits are conditions in the SQL. */
import { test } from 'tap'
import { TenantryError } from '../../../lib/errors.js'
import type { Query } from '../../../lib/schema/query.js'
import type { Route } from '../../../lib/schema/route.js'
import { onSql, scopeOf } from '../queries/helpers.js'
import { compile, faultsOf } from './routes.js'

const tenant = { origin: 'tenant' } as const
const sharing = { origin: 'tenant', sharedTables: new Set(['countries']) } as const
const id = '00000000-0000-4000-8000-000000000001'
const route = (...queries: Query[]): Route => ({ path: '/x', method: 'post', queries })
const select = (table: string, more: Partial<Query> = {}): Route => route({ table, operation: 'select', ...more })
const sql = (declared: Route, scope = {}, context: Parameters<typeof compile>[1] = tenant) =>
  compile(declared, context).queries.map((query) => onSql(query).bind(scopeOf(scope)))

/** The number of occurrences of a text. */
const count = (text: string, part: RegExp) => text.match(part)?.length ?? 0

test('only tenant tables and shared tables are available, under their own names', async (t) => {
  const names = [
    'tenantry.secrets',
    'tenantry"."secrets',
    '"tenantry"."secrets"',
    'secrets',
    'tenants',
    'pg_catalog.pg_class',
    'pg_class',
    'pg_catalog"."pg_class',
    'information_schema.tables',
    '"articles"',
    'ARTICLES',
    'Articles',
    'public.articles',
    'public"."articles',
    'articles"',
    "articles'",
    'articles;',
    'articles --',
    'articles ',
    ' articles',
    'articles t',
    'articles, authors',
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '',
    '\0',
    'articles\0',
    'ａrticles'
  ]
  for (const name of names) {
    for (const operation of ['select', 'insert', 'update', 'delete', 'upsert'] as const) {
      const query: Query = {
        table: name,
        operation,
        ...operation !== 'insert' && operation !== 'upsert' && { id },
        ...operation !== 'select' && operation !== 'delete' && { data: { title: 'x' } }
      }
      const faults = faultsOf(route(query), sharing)
      t.match(faults, [/^\/routes\/0\/queries\/0\/table: there is no table /], `${operation} ${name}`)
    }
    if (name === '' || name.startsWith(' ') || name.endsWith(' ')) continue
    for (
      const embed of [
        `id, ${name}(*)`,
        `id, "${name.replaceAll('"', '""')}"(*)`,
        `id, x:"${name.replaceAll('"', '""')}"(count)`,
        `id, authors("${name.replaceAll('"', '""')}"(*))`
      ]
    ) {
      t.not(faultsOf(select('articles', { select: embed }), sharing).length, 0, embed)
    }
  }
})

test("only the table's columns are available, under their own names", async (t) => {
  for (
    const name of [
      '"title"',
      'TITLE',
      'title"',
      'articles.title',
      't0.title',
      '__proto__',
      'constructor',
      'ctid',
      'tableoid',
      'xmin',
      'title::text',
      'title; drop table articles',
      '*'
    ]
  ) {
    t.match(faultsOf(select('articles', { filters: [{ column: name, value: 'x' }] }), tenant), [/has no column/], `filter ${name}`)
    t.match(faultsOf(select('articles', { order: { column: name } }), tenant), [/has no column/], `order ${name}`)
    t.match(faultsOf(route({ table: 'articles', operation: 'insert', data: { [name]: 'x' } }), tenant), [/has no column/], `data ${name}`)
    t.not(
      faultsOf(route({ table: 'articles', operation: 'upsert', onConflict: [name], data: { title: 'x' } }), tenant).length,
      0,
      `onConflict ${name}`
    )
  }
})

test('tables without tenants are unavailable unless they are shared, and shared ones are read-only', async (t) => {
  for (const name of ['countries', 'seats', 'we"ird']) {
    t.match(faultsOf(select(name), tenant), [/no tenant_id column: a tenant's route can use it only if/])
  }
  t.strictSame(faultsOf(select('countries'), sharing), [])
  const embeds = [
    'id, countries(*)',
    'id, country:countries(name)',
    'id, country_code(*)',
    'id, countries!authors_country_code_fkey(*)',
    'id, countries(count)',
    'id, mentor_id(countries(*))'
  ]
  for (const embed of embeds) {
    t.match(faultsOf(select('authors', { select: embed }), tenant), [/can use it only if/], embed)
    t.strictSame(faultsOf(select('authors', { select: embed }), sharing), [], embed)
  }
  t.match(faultsOf(select('articles', { select: 'id, authors(name, countries(name))' }), tenant), [/can use it only if/], 'nested')
  t.match(faultsOf(select('countries', { select: 'code, authors(*)' }), tenant), [/can use it only if/], 'backward')
  for (const operation of ['insert', 'update', 'upsert', 'delete'] as const) {
    t.match(
      faultsOf(
        route({
          table: 'countries',
          operation,
          ...operation !== 'insert' && operation !== 'upsert' && { id: 'de' },
          ...operation !== 'delete' && { data: { name: 'x' } }
        }),
        sharing
      ),
      [/shared by all tenants: a tenant's route can only read it/],
      operation
    )
  }
  const [fault] = faultsOf(select('countrys'), tenant)
  t.notMatch(fault, 'countries', 'forbidden tables are not revealed')
})

test('every selected row belongs to the tenant: embeds in all directions, counts, totals and junctions', async (t) => {
  const shapes: Record<string, number> = {
    '*': 1,
    'id, authors(name)': 2,
    'id, reviews(*)': 2,
    'id, reviews(count)': 2,
    'id, labels(name)': 3,
    'id, authors(name, mentor_id(name), profiles(bio))': 4,
    'id, reviews(id, articles(id, reviews(id)))': 4
  }
  for (const [shape, tables] of Object.entries(shapes)) {
    const [record] = sql(select('articles', { select: shape, id }))
    t.equal(count(record?.statement.text ?? '', /"tenant_id" = \$1::text/g), tables, shape)
    t.ok(record?.values.includes('a'))
    const [page] = sql(select('articles', { select: shape }))
    t.equal(count(page?.statement.text ?? '', /"tenant_id" = \$1::text/g), tables + 1, `${shape} and its total`)
  }
  const [shared] = sql(select('countries', { select: 'code, authors(name)' }), {}, sharing)
  t.equal(count(shared?.statement.text ?? '', /"tenant_id" = \$1::text/g), 1, 'rows embedded in a shared table belong to the tenant')
  const [view] = sql(select('article_titles'))
  t.equal(count(view?.statement.text ?? '', /"tenant_id" = \$\d::text/g), 2, 'a view too')
  t.match(faultsOf(route({ table: 'article_titles', operation: 'insert', data: { title: 'x' } }), tenant), [/is a view/])
})

test("a filter cannot widen the selection beyond the tenant's rows", async (t) => {
  const filters: Query['filters'][] = [
    [{ column: 'tenant_id', value: 'b' }],
    [{ column: 'tenant_id', operator: 'neq', value: 'a' }],
    [{ or: [{ column: 'tenant_id', value: 'b' }, { column: 'status', operator: 'neq', value: '' }] }],
    [{ not: { column: 'tenant_id', value: 'a' } }],
    [{ column: 'tenant_id', value: '{{query.tenant}}', optional: true }]
  ]
  for (const list of filters) {
    const [bound] = sql(select('articles', { filters: list! }), { query: { tenant: 'b' } })
    t.match(bound?.statement.text, /where t\d\."tenant_id" = \$1::text and /, 'the tenant condition comes first, combined with the rest by AND')
    t.equal(bound?.values[0], 'a')
  }
  for (const column of ['authors.name', 'reviews.stars', 'countries.name']) {
    t.match(faultsOf(select('articles', { select: 'id, authors(name)', filters: [{ column, value: 'x' }] }), sharing), [/has no column/])
  }
})

test('every write belongs to the tenant, and cannot name another', async (t) => {
  const data = { title: 'x' }
  const writes: Record<string, Query> = {
    insert: { table: 'articles', operation: 'insert', data },
    update: { table: 'articles', operation: 'update', id, data },
    delete: { table: 'articles', operation: 'delete', id },
    'by filter': { table: 'articles', operation: 'update', filters: [{ column: 'status', value: 'x' }], data },
    upsert: { table: 'articles', operation: 'upsert', id, data },
    'upsert by a unique key': { table: 'articles', operation: 'upsert', onConflict: ['slug'], data: { slug: 's', ...data } },
    'upsert by the whole key': { table: 'articles', operation: 'upsert', onConflict: ['tenant_id', 'slug'], data: { slug: 's', ...data } }
  }
  for (const [name, query] of Object.entries(writes)) {
    const [bound] = sql(route(query))
    const text = bound?.statement.text ?? ''
    t.ok(/insert into "public"\."articles" as t0 \("tenant_id", /.test(text) || /where t0\."tenant_id" = \$\d::text/.test(text), name)
    if (query.operation === 'upsert') {
      t.match(text, /on conflict \(.*\) do update set .* where t0\."tenant_id" = \$1::text/, `${name}: another tenant's row stays unchanged`)
    }
    t.notMatch(/do update set (.*) where/.exec(text)?.[1], 'tenant_id')
    t.ok(bound?.values.includes('a'))
    t.notOk(bound?.values.includes('b'))
  }
  const named: unknown[] = [
    { ...data, tenant_id: 'b' },
    { ...data, tenant_id: '{{body.tenant_id}}' },
    { ...data, tenant_id: '{{headers.x-tenant-id}}' },
    '{{body}}',
    undefined
  ]
  for (const given of named) {
    for (const operation of ['insert', 'update', 'upsert'] as const) {
      const query: Query = { table: 'articles', operation, ...operation !== 'insert' && { id }, ...given !== undefined && { data: given } }
      t.throws(
        () => sql(route(query), { body: { ...data, tenant_id: 'b' }, headers: { 'x-tenant-id': 'b' } }),
        TenantryError,
        `${operation} ${JSON.stringify(given)}`
      )
    }
  }
  t.match(faultsOf(route({ table: 'articles', operation: 'upsert', filters: [{ column: 'tenant_id', value: 'b' }], data }), tenant), [
    /always the tenant of the request/
  ])
  t.throws(
    () => sql(route({ table: 'articles', operation: 'insert', data }), { tenant: null }),
    TenantryError,
    'without a tenant nothing is written'
  )
})

test("a foreign key to another tenant's row aborts the statement", async (t) => {
  for (const operation of ['insert', 'update', 'upsert'] as const) {
    const [bound] = sql(
      route({ table: 'articles', operation, ...operation !== 'insert' && { id }, data: { title: 'x', author_id: '{{body.author}}' } }),
      { body: { author: id } }
    )
    t.match(
      bound?.statement.text,
      /exists \(select from "public"\."authors" t\d where t\d\."id" = t\d\."author_id" and t\d\."tenant_id" = \$\d::text\)/
    )
  }
})

test('documents belong to the tenant', async (t) => {
  for (const operation of ['get', 'set', 'update', 'delete', 'query', 'add'] as const) {
    const [bound] = compile({
      path: '/x',
      method: 'post',
      firebaseQueries: [{
        collection: 'tenants',
        operation,
        ...['get', 'set', 'update', 'delete'].includes(operation) && { docId: 'b' },
        ...['set', 'update', 'add'].includes(operation) && { data: { tenant_id: 'b' } }
      }]
    }, tenant).queries.map((query) => onSql(query).bind(scopeOf()))
    const text = bound?.statement.text ?? ''
    t.ok(
      /"tenant_id" = \$1::text/.test(text) ||
        /insert into "tenantry"\."documents" as d \(tenant_id, collection, id, data\) values \(\$1::text/.test(text),
      operation
    )
    t.equal(bound?.values[0], 'a')
  }
})
