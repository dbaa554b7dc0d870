import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { Embed, Filter, Query } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { onEachEngine, refusalOf, uuid } from './database.js'

const articles = `
insert into countries values ('de', 'Germany'), ('fr', 'France');
insert into authors (id, tenant_id, name, country_code) values
  ('${uuid(1)}', 'a', 'Ada', 'de'), ('${uuid(2)}', 'a', 'Ben', null), ('${uuid(9)}', 'b', 'Eve', 'fr');
insert into articles (id, tenant_id, title, status, author_id, views, rating, tags, meta, published_at, slug, deleted, mood) values
  ('${uuid(11)}', 'a', 'Alpha', 'draft', '${
  uuid(1)
}', 10, 1.5, '{x,y}', '{"kind": "note", "n": 1, "it''s": {"\\"q\\"": [{"deep": "yes"}, null]}}', '2026-01-01T00:00:00Z', 'alpha', false, 'calm'),
  ('${uuid(12)}', 'a', 'Beta', 'published', '${uuid(2)}', 20, null, '{y,z}', '{"kind": "post", "n": 20}', null, 'beta', false, 'wild'),
  ('${uuid(13)}', 'a', 'Gamma', 'published', null, 30, 0.10000000000000000000000000001, null, null, '2026-03-01T00:00:00Z', null, false, null),
  ('${uuid(14)}', 'a', 'Gone', 'published', '${uuid(1)}', 40, 5, '{x}', '{"kind": "post"}', null, 'gone', true, 'calm'),
  ('${uuid(19)}', 'b', 'Other', 'published', '${uuid(9)}', 50, 1, '{x}', '{"kind": "note"}', null, 'alpha', false, 'calm');
insert into reviews (id, tenant_id, article_id, author_id, stars, note, deleted) values
  (1, 'a', '${uuid(11)}', '${uuid(2)}', 5, 'great', false), (2, 'a', '${uuid(11)}', null, 3, null, null), (3, 'a', '${uuid(11)}', null, 1, 'deleted', true),
  (4, 'b', '${uuid(11)}', '${uuid(9)}', 1, 'of another tenant', false), (5, 'a', '${uuid(12)}', '${uuid(1)}', 2, 'fine', false);
`

const read = (select: string, more: Partial<Query> = {}): Query => ({ table: 'articles', operation: 'select', select, ...more })
const page = (data: readonly unknown[], total = data.length, limit = 20, offset = 0) => ({ data, pagination: { limit, offset, total } })

onEachEngine(articles, {
  "aggregates cover the tenant's rows, grouped by the other members": async (t, library) => {
    t.strictSame(
      await library.run(read('status, views.sum(), count()')),
      page([{ status: 'draft', sum: 10, count: 1 }, { status: 'published', sum: 50, count: 2 }])
    )
    t.strictSame(
      await library.run(read('low:views.min(), high:views.max(), mean:views.avg(), rated:rating.count(), moods:mood.max()')),
      page([{ low: 10, high: 30, mean: 20, rated: 2, moods: 'wild' }])
    )
    t.strictSame(
      await library.run(read('kind:status, total:views.sum()', { filters: [{ column: 'views', operator: 'gt', value: 10 }] })),
      page([{ kind: 'published', total: 50 }])
    )
    t.strictSame(await library.run(read('status, count()'), { tenant: scopeTenant('c') }), page([]), 'without rows there are no groups')
    t.strictSame(
      await library.run(read('count(), views.sum()'), { tenant: scopeTenant('c') }),
      page([{ count: 0, sum: null }]),
      'without groups there is one record'
    )
    t.strictSame(
      await library.run(read("meta->>'kind', count()")),
      page([{ kind: 'note', count: 1 }, { kind: 'post', count: 1 }, { kind: null, count: 1 }])
    )
    t.strictSame(await library.run(read('status, views.sum()', { single: true, order: { column: 'sum', ascending: false } })), {
      status: 'published',
      sum: 50
    })
    t.equal(await library.run(read('status, count()', { single: true, filters: [{ column: 'views', value: 0 }] })), null, 'a single record without rows is null')
    await t.rejects(library.run(read('count()'), { tenant: null }), { code: 'TENANTRY_TENANT_REQUIRED' })
  },

  'groups are ordered by their members, and pages count them': async (t, library) => {
    const titles = (more: Partial<Query>, query: Record<string, unknown> = {}) => library.run(read('title, views.sum()', more), { query })
    const [alpha, beta, gamma] = [{ title: 'Alpha', sum: 10 }, { title: 'Beta', sum: 20 }, { title: 'Gamma', sum: 30 }]
    t.strictSame(await titles({ order: { column: 'sum', ascending: false } }), page([gamma, beta, alpha]))
    t.strictSame(await titles({ limit: 2 }), page([alpha, beta], 3, 2))
    t.strictSame(await titles({ limit: 2 }, { offset: '2' }), page([gamma], 3, 2, 2))
    t.strictSame(await titles({}, { limit: '3', offset: '1' }), page([beta, gamma], 3, 3, 1))
    t.strictSame(await titles({}, { offset: '9' }), page([], 3, 20, 9), 'a page past the end has a total too')
    t.strictSame(await titles({}, { limit: '0' }), page([], 3, 0))
    t.strictSame(
      await library.run(read('kind:status, count()', { order: [{ column: 'count', ascending: false }, { column: 'status' }] })),
      page([{ kind: 'published', count: 2 }, { kind: 'draft', count: 1 }]),
      "by the column's name too"
    )
  },

  'numbers keep every digit': async (t, library) => {
    const { statement, values } = library.bind(read('rating.sum()'))
    t.match(await library.engine.text(statement, values, { tenant: tenantRef('a') }), /"sum":1\.60000000000000000000000000001\}/)
  },

  'a sum beyond every number is a 400, not a server error': async (t, library) => {
    await library.sql('create table if not exists measures (id integer primary key, tenant_id text not null, value double precision)')
    await library.engine.refresh()
    await library.sql("insert into measures values (1, 'a', 1e308), (2, 'a', 1e308), (3, 'b', 1)")
    t.match(await refusalOf(library.run({ table: 'measures', operation: 'select', select: 'value.sum()' })), { status: 400 })
    await library.sql('drop table measures')
    await library.engine.refresh()
  },

  'excluded fields are in no aggregate and in no group': async (t, library) => {
    const query = read('status, views.sum(), count()', { excludeFields: ['views'], order: { column: 'sum' } })
    t.strictSame(await library.run(query), page([{ status: 'draft', count: 1 }, { status: 'published', count: 2 }]))
    t.strictSame(
      await library.run(query, { fullAccess: true }),
      page([{ status: 'draft', sum: 10, count: 1 }, { status: 'published', sum: 50, count: 2 }])
    )
    t.strictSame(await library.run(read('status, count()', { excludeFields: ['status'] })), page([{ count: 3 }]))
    t.strictSame(await library.run(read('status, count()', { excludeFields: ['count', 'status'] })), page([{}]))
    t.strictSame(await library.run(read("meta->>'kind', title", { excludeFields: ['meta'], limit: 1 })), page([{ title: 'Alpha' }], 3, 1))
    const withheld = { columns: new Map([['articles', new Set(['views'])]]), fields: new Map() }
    t.strictSame(await library.run(read('views.max(), count()'), { fullAccess: true }, { withheld }), page([{ count: 3 }]))
  },

  'embedded rows are aggregated too': async (t, library) => {
    t.strictSame(
      await library.run(read('title, reviews(stars.avg(), n:count())', { limit: 2 })),
      page([{ title: 'Alpha', reviews: [{ avg: 4, n: 2 }] }, { title: 'Beta', reviews: [{ avg: 2, n: 1 }] }], 3, 2)
    )
    t.strictSame(
      await library.run({ table: 'authors', operation: 'select', select: 'name, articles(status, count())' }, {}, { origin: 'tenant' }),
      page([
        { name: 'Ada', articles: [{ status: 'draft', count: 1 }] },
        { name: 'Ben', articles: [{ status: 'published', count: 1 }] }
      ])
    )
  },

  'an inner embed leaves out records without a row of their tenant': async (t, library) => {
    const [alpha, beta] = [{ title: 'Alpha', authors: { name: 'Ada' } }, { title: 'Beta', authors: { name: 'Ben' } }]
    t.strictSame(await library.run(read('title, authors!inner(name)')), page([alpha, beta]), 'the total counts only matching rows')
    t.strictSame(
      await library.run(read('title, authors!inner(name)'), {}, { origin: 'tenant', excludeFields: ['authors'] }),
      page([{ title: 'Alpha' }, { title: 'Beta' }]),
      'an excluded embed filters the same rows'
    )
    t.strictSame(
      await library.run(read('title, authors!author_id!inner(name, countries!inner(name))')),
      page([{ title: 'Alpha', authors: { name: 'Ada', countries: { name: 'Germany' } } }])
    )
    t.strictSame(
      await library.run(read('title, authors(name, countries!inner(name))', { limit: 2 })),
      page([{ title: 'Alpha', authors: { name: 'Ada', countries: { name: 'Germany' } } }, { title: 'Beta', authors: null }], 3, 2),
      "within another embed it filters that embed's rows"
    )
    t.strictSame(
      await library.run(
        read('title, reviews!inner(count)', { embeds: { reviews: { filters: [{ column: 'stars', operator: 'gt', value: 2 }] } } })
      ),
      page([{ title: 'Alpha', reviews: [{ count: 2 }] }])
    )
    t.equal(await library.run(read('title, authors!inner(name)', { id: uuid(13) })), null)
    const other: Query = { table: 'authors', operation: 'select', select: 'name, reviews!reviews_author_id_fkey!inner(stars)' }
    t.strictSame(await library.run(other), page([{ name: 'Ada', reviews: [{ stars: 2 }] }, { name: 'Ben', reviews: [{ stars: 5 }] }]))
    t.strictSame(
      await library.run({ table: 'countries', operation: 'select', select: 'name, authors!inner(name)' }),
      page([{ name: 'Germany', authors: [{ name: 'Ada' }] }]),
      'from a table without tenants too'
    )
  },

  'cursor pages have the same embeds': async (t, library) => {
    const query = read('id, title, authors!inner(name), reviews(stars)', {
      pagination: 'cursor',
      limit: 1,
      embeds: { reviews: { filters: [{ column: 'stars', operator: 'gt', value: '{{query.stars}}', optional: true }] } }
    })
    const next = async (cursor: object, stars: string): Promise<{ record: unknown, next: unknown }> => {
      const { data, pagination } = Object(await library.run(query, { query: { stars, ...cursor } }, { listRoute: 'GET /x' }))
      return { record: data[0], next: pagination.next }
    }
    const first = await next({}, '4')
    t.strictSame(first.record, { id: uuid(11), title: 'Alpha', authors: { name: 'Ada' }, reviews: [{ stars: 5 }] })
    const second = await next({ cursor: first.next }, '1')
    t.strictSame(
      second,
      { record: { id: uuid(12), title: 'Beta', authors: { name: 'Ben' }, reviews: [{ stars: 2 }] }, next: null },
      'without an author, no record'
    )
  },

  'embeds have filters, an order and a limit': async (t, library) => {
    const reviews = (options: Embed, query: Record<string, unknown> = {}, changes = {}) =>
      library.run(read('reviews(stars)', { id: uuid(11), embeds: { reviews: options } }), { query }, changes)
    t.strictSame(await reviews({}), { reviews: [{ stars: 5 }, { stars: 3 }] })
    t.strictSame(await reviews({ order: { column: 'stars' } }), { reviews: [{ stars: 3 }, { stars: 5 }] })
    t.strictSame(await reviews({ order: { column: 'stars' }, limit: 1 }), { reviews: [{ stars: 3 }] })
    t.strictSame(await reviews({ limit: 0 }), { reviews: [] })
    t.strictSame(await reviews({ filters: [{ column: 'stars', operator: 'gte', value: '{{query.stars}}' }] }, { stars: '4' }), {
      reviews: [{ stars: 5 }]
    })
    t.strictSame(
      await reviews({ filters: [{ column: 'stars', operator: 'gte', value: '{{query.stars}}' }] }),
      { reviews: [] },
      'nothing matches nothing'
    )
    t.strictSame(await reviews({ filters: [{ column: 'stars', operator: 'gte', value: '{{query.stars}}', optional: true }] }), {
      reviews: [{ stars: 5 }, { stars: 3 }]
    })
    t.strictSame(await reviews({ filters: [{ or: [{ column: 'deleted', value: true }, { column: 'tenant_id', value: 'b' }] }] }), {
      reviews: []
    }, 'no filter finds deleted rows, or rows of another tenant')
    for (const origin of ['platform', 'tenant']) {
      t.strictSame(await reviews({ limit: '{{query.n}}' }, { n: '1' }, { origin }), { reviews: [{ stars: 5 }] })
      t.strictSame(await reviews({ limit: '{{query.n}}' }, { n: '99999999999' }, { origin }), { reviews: [{ stars: 5 }, { stars: 3 }] })
      t.strictSame(await reviews({ limit: '{{query.n}}' }, {}, { origin }), { reviews: [{ stars: 5 }, { stars: 3 }] })
    }
    t.match(await refusalOf(reviews({ limit: '{{query.n}}' }, { n: 'x' })), { status: 400, details: [{ path: '/query/n' }] })
    t.strictSame(
      await library.run(read('title, mine:reviews(stars, authors!author_id(name)), reviews(count)', {
        id: uuid(11),
        embeds: {
          mine: {
            filters: [{ column: 'stars', value: 5 }],
            embeds: { authors: { filters: [{ column: 'name', operator: 'neq', value: 'Ben' }] } }
          },
          reviews: { filters: [{ column: 'note', operator: 'is', value: null }] }
        }
      })),
      { title: 'Alpha', mine: [{ stars: 5, authors: null }], reviews: [{ count: 1 }] }
    )
    t.strictSame(
      await library.run(
        read('status, articles:reviews(stars, count())', {
          id: uuid(11),
          embeds: { articles: { order: { column: 'stars', ascending: false }, limit: 1 } }
        })
      ),
      { status: 'draft', articles: [{ stars: 5, count: 1 }] }
    )
  },

  "an embed's rows are bounded, with or without a limit": async (t, library) => {
    await library.sql(
      `insert into reviews (id, tenant_id, article_id, stars) select n, 'a', '${uuid(13)}', 1 from generate_series(1001, 2001) n`
    )
    const count = async (limit: Embed['limit'], origin: 'platform' | 'tenant', query = {}) => {
      const record: unknown = await library.run(
        read('reviews(stars)', { id: uuid(13), ...limit !== undefined && { embeds: { reviews: { limit } } } }),
        { query },
        { origin }
      )
      return Object(record).reviews.length
    }
    t.equal(await count(undefined, 'platform'), 1001)
    t.equal(await count(5000, 'platform'), 1000)
    t.equal(await count(1000, 'tenant'), 1000)
    t.equal(await count('{{query.n}}', 'tenant', { n: '5000' }), 1000)
    t.match(await refusalOf(count(undefined, 'tenant')), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
    t.match(await refusalOf(count('{{query.n}}', 'tenant')), { code: 'TENANTRY_ANSWER_TOO_LARGE' })
  },

  'texts are searched by words': async (t, library) => {
    for (
      const statement of [
        "create table notes (id integer primary key, tenant_id text not null, body varchar(200), words tsvector generated always as (to_tsvector('english', body)) stored)",
        "create index notes_body on notes using gin (to_tsvector('english', body))",
        'create text search configuration plain (copy = english)',
        "insert into notes values (1, 'a', 'Two ferries left the harbour'), (2, 'a', 'The ferry is late, the captain''s \"asleep\"'), (3, 'a', null), (4, 'b', 'A ferry of another tenant')"
      ]
    ) await library.sql(statement)
    await library.engine.refresh()
    const filter = (column: string, value: unknown, config?: string): Filter => ({
      column,
      operator: 'fts',
      value,
      ...config !== undefined && { config }
    })
    const search = (filters: readonly Filter[], query: Record<string, unknown> = {}) =>
      library.column('id', { table: 'notes', operation: 'select', filters: [...filters] }, { query })
    const cases: [Filter, number[]][] = [
      [filter('body', 'ferry'), [2]],
      [filter('body', 'FERRY', 'english'), [1, 2]],
      [filter('body', 'ferry -captain', 'english'), [1]],
      [filter('body', '"left the harbour"', 'english'), [1]],
      [filter('body', 'late or harbour', 'english'), [1, 2]],
      [filter('words', 'ferries', 'english'), [1, 2]],
      [filter('words', 'ferries'), []],
      [filter('body', 'ferries', 'plain'), [1, 2]]
    ]
    for (const [each, ids] of cases) t.strictSame(await search([each]), ids, JSON.stringify(each))
    t.strictSame(await search([{ not: filter('body', 'ferry', 'english') }]), [], 'a row without a text is in neither list')
    for (
      const text of [
        '',
        ' ',
        '-',
        '"',
        '- " or -or "" & | ! <-> :* ()',
        "'; drop table notes; --",
        '\\',
        '{{query.x}}',
        '-'.repeat(1000),
        ' -'.repeat(33),
        '-\u0085'.repeat(40),
        `${'!-&'.repeat(50)}"`
      ]
    ) {
      t.strictSame(await search([filter('body', '{{query.q}}', 'english')], { q: text }), [], `nothing is found for ${text.slice(0, 30)}`)
    }
    t.strictSame(
      await search([filter('body', '{{query.q}}', 'english')], { q: `${'- '.repeat(40)}captain` }),
      [2],
      'two negations cancel each other out'
    )
    t.strictSame(await search([filter('body', '{{query.q}}', 'english')], { q: `${'- '.repeat(41)}captain` }), [1])
    t.strictSame(await search([filter('body', '{{query.q}}', 'english')], { q: `ferry ${'or x '.repeat(198)}` }), [1, 2])
    t.strictSame(await search([filter('body', '{{query.q}}')]), [])
    t.strictSame(await search([{ ...filter('body', '{{query.q}}'), optional: true }]), [1, 2, 3])
    const message = 'the column "body" is searched for a string of at most 1000 characters'
    t.match(await refusalOf(search([filter('body', '{{query.q}}')], { q: 'x'.repeat(10_000) })), {
      status: 400,
      details: [{ path: '/query/q', message }]
    })
    t.match(await refusalOf(search([filter('body', '{{query.q}}')], { q: ['x'] })), {
      status: 400,
      details: [{ path: '/query/q', message }]
    })
    t.match(await refusalOf(search([filter('body', '{{query.q}}')], { q: 'a\0' })), {
      status: 400,
      details: [{ path: '/query/q', keyword: 'pattern' }]
    })
    t.throws(() => library.bind({ table: 'notes', operation: 'select', filters: [filter('body', 'x', 'englisch')] }), {
      message: '/queries/0/filters/0/config: the database has no text search configuration "englisch", did you mean "english"?'
    })

    const { statement, values } = library.bind({ table: 'notes', operation: 'select', filters: [filter('body', 'ferry', 'english')] })
    await library.sql('set enable_seqscan = off')
    const plan = await library.sql(`explain ${statement.text}`, values)
    await library.sql('reset enable_seqscan')
    t.match(JSON.stringify(plan), /notes_body/, 'an index on the same expression serves the search')
    await library.sql('drop table notes')
    await library.sql('drop text search configuration plain')
    await library.engine.refresh()
  },

  'values of JSON columns and fields of documents are searched too': async (t, library) => {
    const find = (column: string) =>
      library.column('title', read('title', { filters: [{ column, operator: 'fts', value: 'posts', config: 'english' }] }))
    t.strictSame(await find("meta->>'kind'"), ['Beta'])
    t.strictSame(await find("meta->'kind'"), ['Beta'])
    await library.runDocument({ collection: 'pages', operation: 'create', docId: 'one', data: { title: 'All the ferries', n: 1 } })
    const filters: Filter[] = [{ column: 'title', operator: 'fts', value: '{{query.q}}', config: 'english' }]
    const pages = (q: string) => library.runDocument({ collection: 'pages', operation: 'query', filters }, { query: { q } })
    t.match(await pages('ferry'), { data: [{ id: 'one' }] })
    t.match(await pages('- "'), { data: { length: 0 } })
    t.match(await refusalOf(pages('x'.repeat(1001))), { status: 400, details: [{ path: '/query/q' }] })
  },

  'selects read paths in JSON columns': async (t, library) => {
    const one = (select: string) => library.run(read(select, { id: uuid(11) }))
    t.strictSame(await one("meta->'n', text:meta->>'n', kind:meta ->> 'kind', none:meta->'no'->'such'"), {
      n: 1,
      text: '1',
      kind: 'note',
      none: null
    })
    t.strictSame(await one("meta->'it''s'->'\"q\"'->0->>'deep'"), { deep: 'yes' })
    t.strictSame(await one("last:meta->'it''s'->'\"q\"'->-1, \"a \"\"b\":meta->'no', x:meta->>'$1 \\ -- /*', meta->'kind'"), {
      last: null,
      'a "b': null,
      x: null,
      kind: 'note'
    })
  },

  'filters and orders accept paths': async (t, library) => {
    const find = (filter: object, query: Record<string, unknown> = {}) =>
      library.column('title', read('title', { filters: [filter as never] }), { query })
    t.strictSame(await find({ column: "meta->>'kind'", value: 'post' }), ['Beta'], 'a soft-deleted row is not found')
    t.strictSame(await find({ column: "meta->>'kind'", operator: 'in', value: '{{query.kind}}' }, { kind: 'note,x' }), ['Alpha'])
    t.strictSame(await find({ column: "meta->>'kind'", operator: 'like', value: 'n%' }), ['Alpha'])
    t.strictSame(await find({ column: "meta->>'kind'", operator: 'is', value: null }), ['Gamma'])
    t.strictSame(await find({ column: "meta->'n'", operator: 'gt', value: 5 }), ['Beta'], 'numbers are compared as numbers')
    t.strictSame(await find({ column: "meta->'n'", operator: 'gt', value: '{{query.n}}' }, { n: '5' }), ['Beta'], 'numbers of a URL too')
    t.strictSame(
      await find({ column: "meta->'n'", operator: 'in', value: ['{{query.n}}', '{{query.m}}'] }, { n: '20' }),
      ['Beta'],
      'numbers of a URL in a list'
    )
    t.strictSame(await find({ column: "meta->'it''s'", operator: 'contains', value: { '"q"': [{ deep: 'yes' }] } }), ['Alpha'])
    t.strictSame(await find({ column: "meta->'n'", operator: 'is', value: null }), ['Gamma'])
    t.strictSame(await find({ column: "meta->>'kind'", value: '{{query.kind}}', optional: true }), ['Alpha', 'Beta', 'Gamma'])
    t.match(await refusalOf(find({ column: "meta->>'kind'", value: '{{query.kind}}' }, { kind: 'a\0' })), { status: 400 })
    t.strictSame(await library.column('title', read('title', { order: { column: "meta->'n'", ascending: false, nullsFirst: false } })), [
      'Beta',
      'Alpha',
      'Gamma'
    ])
    t.strictSame(await library.column('title', read('title', { order: { column: "meta->>'kind'", nullsFirst: true } })), [
      'Gamma',
      'Alpha',
      'Beta'
    ])
  }
})
