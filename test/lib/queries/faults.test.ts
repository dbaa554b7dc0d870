import { test } from 'tap'
import type { DocumentQuery, Query } from '../../../lib/schema/query.js'
import { documentFaultsOf, faultsOf } from './helpers.js'
import { catalogueOf, table } from './tables.js'

const select = (more: Partial<Query>): Query => ({ table: 'articles', operation: 'select', ...more })
const filter = (operator: string, column: string, value?: unknown): Query =>
  select({ filters: [{ column, operator, ...(value !== undefined && { value }) } as never] })

test('a query that contradicts the database or itself is reported with its place and a correction', async t => {
  const cases: [Query, string[]][] = [
    [{ operation: 'select' }, ['/q: a query requires a `table`']],
    [{ table: 'artcles', operation: 'select' }, ['/q/table: there is no table "artcles" in the schema "public", did you mean "articles"?']],
    [{ table: 'documents', operation: 'select' }, ['/q/table: there is no table "documents" in the schema "public"']],
    [select({ filters: [{ column: 'titel', value: 1 }] }), [
      '/q/filters/0/column: the table "articles" has no column "titel", did you mean "title"?'
    ]],
    [select({ filters: [{ or: [{ column: 'x"; drop', value: 1 }] }] }), [
      '/q/filters/0/or/0/column: the table "articles" has no column "x"; drop"'
    ]],
    [select({ select: 'authors(name)', filters: [{ column: 'authors.name', value: 1 }] }), [
      '/q/filters/0/column: the table "articles" has no column "authors.name": filters and orders of embedded rows are in `embeds`'
    ]],
    [select({ order: { column: 'titel' } }), ['/q/order/column: the table "articles" has no column "titel", did you mean "title"?']],
    [select({ order: [{ column: 'id' }, { column: 'no' }] }), ['/q/order/1/column: the table "articles" has no column "no"']],
    [select({ select: 'titel' }), ['/q/select: the table "articles" has no column "titel", did you mean "title"?']],
    [select({ select: 'authors' }), ['/q/select: "authors" is a table: write `authors(*)` to embed it']],
    [select({ select: 'autors(*)' }), ['/q/select: there is no table "autors", did you mean "authors"?']],
    [select({ select: 'count(*)' }), ['/q/select: there is no table "count", did you mean `count()`?']],
    [select({ select: 'status, total:count(*)' }), ['/q/select: there is no table "count", did you mean `count()`?']],
    [select({ select: 'status, sum(views)' }), ['/q/select: there is no table "sum", did you mean `views.sum()`?']],
    [select({ select: "avg(meta->'n')" }), ['/q/select: there is no table "avg", did you mean `meta->\'n\'.avg()`?']],
    [select({ select: 'sum(*)' }), ['/q/select: there is no table "sum"']],
    [select({ select: 'max(views, rating)' }), ['/q/select: there is no table "max"']],
    [select({ select: 'seats(*)' }), ['/q/select: there is no foreign key between "articles" and "seats"']],
    [select({ select: 'id, id:title' }), [
      '/q/select: two members of "articles" have the name "id": rename one of them, `other_name:title`'
    ]],
    [select({ select: 'id, id : authors!author_id(name)' }), [
      '/q/select: two members of "articles" have the name "id": rename one of them, `other_name:authors!author_id(name)`'
    ]],
    [select({ select: `${'x'.repeat(64)}:id` }), [`/q/select: "${'x'.repeat(64)}" is too long for a name: at most 63 bytes`]],
    [select({ select: 'status, title.sum()' }), [
      '/q/select: `title.sum()`: `sum` takes numbers or intervals, but the column "title" has the type text'
    ]],
    [select({ select: 'featured.max()' }), [
      '/q/select: `featured.max()`: `max` takes numbers, strings, dates, times, enums or arrays, but the column "featured" has the type boolean'
    ]],
    [select({ select: "meta->>'n'.avg()" }), [
      "/q/select: `meta->>'n'.avg()`: `avg` takes numbers or intervals, but the value at this path has the type text"
    ]],
    [select({ select: 'vews.sum()' }), ['/q/select: the table "articles" has no column "vews", did you mean "views"?']],
    [select({ select: 'views.sum(), rating.sum()' }), [
      '/q/select: two members of "articles" have the name "sum": rename one of them, `other_name:rating.sum()`'
    ]],
    [select({ select: 'status, count(), authors(name)' }), [
      '/q/select: a `select` with aggregates returns groups of rows, which cannot embed tables: remove "authors"'
    ]],
    [select({ select: 'authors(count())' }), ['/q/select: "authors" is one record, which has no aggregates: select its columns']],
    [select({ select: 'status, count()', order: { column: 'cuont' } }), [
      '/q/order/column: groups have no member "cuont": expected one of "status", "count", did you mean "count"?'
    ]],
    [select({ select: 'status, count()', order: [{ column: 'status' }, { column: 'views' }] }), [
      '/q/order/1/column: groups have no member "views": expected one of "status", "count"'
    ]],
    [select({ select: 'count()', id: '{{params.id}}' }), ['/q/id: `id` selects one row, which cannot be aggregated']],
    [{ table: 'articles', operation: 'insert', select: 'count()' }, [
      '/q/select: an `insert` returns the rows that it writes: aggregates need `operation: select`'
    ]],
    [{ table: 'articles', operation: 'delete', select: 'count()', id: '{{params.id}}' }, ['/q/select: a `delete` returns no records']],
    [select({ select: 'id, reviews(*)', embeds: { review: { limit: 1 } } }), [
      '/q/embeds/review: the `select` has no embedded table "review", did you mean "reviews"?'
    ]],
    [select({ select: 'id', embeds: { reviews: {} } }), [
      '/q/embeds/reviews: the `select` has no embedded table "reviews": add `reviews(*)` to it'
    ]],
    [select({ embeds: { x: {} } }), ['/q/embeds/x: the `select` has no embedded table "x"']],
    [select({ select: 'reviews(*, authors!author_id(name))', embeds: { reviews: { embeds: { autors: {} } } } }), [
      '/q/embeds/reviews/embeds/autors: the `select` has no embedded table "autors", did you mean "authors"?'
    ]],
    [
      select({
        select: 'authors(name), reviews(count)',
        embeds: { authors: { limit: 1, order: { column: 'name' } }, reviews: { limit: 1, embeds: {} } }
      }),
      [
        '/q/embeds/authors/order: a single record has no `order`',
        '/q/embeds/authors/limit: a single record has no `limit`',
        '/q/embeds/reviews/embeds: a count cannot embed tables',
        '/q/embeds/reviews/limit: a count has no `limit`'
      ]
    ],
    [
      select({
        select: 'reviews(*)',
        embeds: { reviews: { filters: [{ column: 'star', value: 1 }], order: { column: 'strs' }, limit: 'x' } }
      }),
      [
        '/q/embeds/reviews/filters/0/column: the table "reviews" has no column "star", did you mean "stars"?',
        '/q/embeds/reviews/order/column: the table "reviews" has no column "strs", did you mean "stars"?',
        '/q/embeds/reviews/limit: expected a whole number of at least 0, or a template that returns one'
      ]
    ],
    [{ table: 'articles', operation: 'insert', select: 'authors!inner(name)' }, [
      '/q/select: an `insert` returns the rows that it writes: `!inner` of "authors" needs `operation: select`'
    ]],
    [{ table: 'articles', operation: 'insert', select: 'reviews(*)', embeds: { reviews: { limit: 1 } } }, [
      '/q/embeds: only a `select` can filter embedded rows'
    ]],
    [{ table: 'nowhere', operation: 'select', embeds: { x: { filters: [{ column: 'a', value: '{{nothing.b}}' }] } } }, [
      '/q/table: there is no table "nowhere" in the schema "public"',
      '/q/embeds/x/filters/0/value: `nothing.b` is not a source of templates: expected one of body, params, query, headers, auth, tenant, results, now(), uuid()'
    ]],
    [filter('fts', 'views', 'x'), ['/q/filters/0/operator: `fts` requires a text or tsvector column, but "views" is integer']],
    [filter('fts', 'title', 'x'.repeat(1001)), [
      '/q/filters/0/value: the column "title" is searched for a string of at most 1000 characters'
    ]],
    [select({ filters: [{ column: 'title', value: 'x', config: 'english' }] }), [
      '/q/filters/0/config: only the operator `fts` has a `config`'
    ]],
    [select({ filters: [{ column: "meta->'a'", value: 'x', config: 'english' }] }), [
      '/q/filters/0/config: only the operator `fts` has a `config`'
    ]],
    [select({ select: "title->>'a'" }), [
      '/q/select: `title->>\'a\'` is a path in JSON, but the column "title" of "articles" has the type text: paths require json or jsonb'
    ]],
    [select({ select: "mata->>'a'" }), ['/q/select: the table "articles" has no column "mata", did you mean "meta"?']],
    [select({ select: "meta->'a', meta->>'a'" }), [
      '/q/select: two members of "articles" have the name "a": rename one of them, `other_name:meta->>\'a\'`'
    ]],
    [select({ select: `meta->'${'k'.repeat(64)}'` }), [
      `/q/select: "${'k'.repeat(64)}" is too long for a name: at most 63 bytes, so give it another, \`name:column->…\``
    ]],
    [filter('eq', 'meta->>city', 'x'), [
      "/q/filters/0/column: expected a key in single quotes, such as `->>'city'`, or the index of an item, such as `->0` at character 8"
    ]],
    [filter('eq', "meta->>'a' or true", 'x'), ['/q/filters/0/column: expected `->`, `->>` or the end at character 11']],
    [filter('eq', "meta->>'a'->'b'", 'x'), ['/q/filters/0/column: `->>` returns text, which has no members: write `->` before it']],
    [filter('eq', "titel->>'a'", 'x'), ['/q/filters/0/column: the table "articles" has no column "titel", did you mean "title"?']],
    [filter('eq', "tags->>'a'", 'x'), [
      '/q/filters/0/column: `tags->>\'a\'` is a path in JSON, but the column "tags" of "articles" has the type text[]: paths require json or jsonb'
    ]],
    [filter('contains', "meta->>'a'", 'x'), [
      '/q/filters/0/operator: `contains` requires an array, jsonb or range column, but "meta->>\'a\'" is text'
    ]],
    [select({ order: { column: 'meta->0.x' } }), ['/q/order/column: expected `->`, `->>` or the end at character 8']],
    [{ table: 'articles', operation: 'upsert', filters: [{ column: "meta->>'a'", value: 1 }] }, [
      '/q/filters/0/value: the table "articles" has no column "meta->>\'a\'"'
    ]],
    [select({ select: 'id;' }), ['/q/select: expected `,` or the end at character 3, found `;`']],
    [{ table: 'reviews', operation: 'select', select: 'authors(name)' }, [
      '/q/select: several foreign keys connect "reviews" and "authors": write one of `authors!reviews_author_id_fkey` (one), `authors!reviews_editor_id_fkey` (one)'
    ]],
    [{ table: 'reviews', operation: 'select', select: 'authors!writer(name)' }, [
      '/q/select: no foreign key "writer" connects "reviews" and "authors": write one of `authors!reviews_author_id_fkey` (one), `authors!reviews_editor_id_fkey` (one)'
    ]],
    [{ table: 'authors', operation: 'select', select: 'authors(name)' }, [
      '/q/select: several foreign keys connect "authors" and "authors": write one of `authors!mentor_id` (one), `authors!authors_mentor_id_fkey` (many)'
    ]],
    [select({ excludeFields: ['titel'] }), ['/q/excludeFields/0: no record of "articles" has a field "titel", did you mean "title"?']],
    [filter('eq', 'title'), ['/q/filters/0: a filter requires a `value`']],
    [filter('eq', 'title', null), ['/q/filters/0/value: no value equals null, did you mean "operator: is"?']],
    [filter('eq', 'views', 'many'), ['/q/filters/0/value: the column "views" must be an integer (integer)']],
    [filter('eq', 'mood', 'sad'), ['/q/filters/0/value: the column "mood" must be one of "calm", "wild"']],
    [
      filter('in', 'views', ['x']),
      ['/q/filters/0/value: the column "views" is compared with a list, where each item must be an integer (integer)']
    ],
    [filter('in', 'tags', ['x']), ['/q/filters/0/operator: "tags" is an array (text[]): use `contains` or `overlaps`']],
    [filter('is', 'title', true), ['/q/filters/0/value: the column "title" is compared with null']],
    [filter('is', 'featured', 'maybe'), ['/q/filters/0/value: the column "featured" is compared with null, true, false or "unknown"']],
    [filter('contains', 'title', 'x'), ['/q/filters/0/operator: `contains` requires an array, jsonb or range column, but "title" is text']],
    [filter('overlaps', 'meta', {}), ['/q/filters/0/operator: `overlaps` requires an array or range column, but "meta" is jsonb']],
    [filter('eq', 'title', '{{nowhere.x}}'), [
      '/q/filters/0/value: `nowhere.x` is not a source of templates: expected one of body, params, query, headers, auth, tenant, results, now(), uuid()'
    ]],
    [select({ limit: 'ten' }), ['/q/limit: expected a whole number of at least 0, or a template that returns one']],
    [select({ data: {} }), ['/q/data: a `select` does not write']],
    [select({ id: '{{params.id}}', offset: 1 }), ['/q/offset: a `select` of one record has no pages']],
    [select({ id: '{{params.id}}', limit: 1, order: { column: 'title' } }), [
      '/q/limit: a `select` of one record has no pages',
      '/q/order: `id` selects one row, which has no order'
    ]],
    [select({ single: true, limit: 1, order: { column: 'title' } }), ['/q/limit: a `select` of one record has no pages']],
    [{ table: 'seats', operation: 'select', id: 1 }, [
      '/q/id: the primary key of "seats" has 2 columns: expected an object with venue, number'
    ]],
    [{ table: 'seats', operation: 'select', id: { venu: 'x', number: 1 } }, [
      '/q/id/venu: "venu" is not in the primary key of "seats", did you mean "venue"?',
      '/q/id: the primary key of "seats" also has "venue"'
    ]],
    [{ table: 'article_titles', operation: 'select', id: 'x' }, [
      '/q/id: "article_titles" has no primary key: select the row with `filters`'
    ]],
    [{ table: 'article_titles', operation: 'insert' }, ['/q/table: "article_titles" is a view: it can only be read']],
    [{ table: 'articles', operation: 'insert', filters: [] }, ['/q/filters: an `insert` has no rows to filter']],
    [{ table: 'articles', operation: 'insert', data: { titel: 'x', title_length: 3, views: 'x' } }, [
      '/q/data/titel: the table "articles" has no column "titel", did you mean "title"?',
      '/q/data/title_length: the column "title_length" is generated by the database and cannot be written',
      '/q/data/views: the column "views" must be an integer (integer)'
    ]],
    [{ table: 'articles', operation: 'insert', data: [{ titel: 'x' }, 1] }, [
      '/q/data/0/titel: "articles" has no column with this name, did you mean "title"?',
      '/q/data/1: expected an object'
    ]],
    ...(['insert', 'update', 'upsert'] as const).map((operation): [Query, string[]] => [{ table: 'desks', operation, data: { floor: 'b' }, id: 1 }, [
      '/q/table: the database computes "tenant_id" of "desks", so its rows can only be read and deleted: make it an ordinary column'
    ]]),
    [{ table: 'desks', operation: 'delete', id: 1 }, []],
    [{ table: 'articles', operation: 'insert', data: 7 }, ['/q/data: expected an object, a template, or an array of objects']],
    [{ table: 'articles', operation: 'update', data: [], id: 1 }, [
      '/q/id: the column "id" must be a UUID',
      '/q/data: expected an object or a template'
    ]],
    [{ table: 'articles', operation: 'update' }, ['/q: `update` without `filters` or `id` would change every row: say which rows']],
    [{ table: 'articles', operation: 'delete', filters: [{ column: 'title', value: '{{query.x}}', optional: true }] }, [
      '/q/filters: all filters of this `delete` are optional: without them it would affect all rows'
    ]],
    [{ table: 'articles', operation: 'delete', single: true, filters: [{ column: 'titel', value: 'x' }] }, [
      '/q/filters/0/column: the table "articles" has no column "titel", did you mean "title"?'
    ]],
    [{ table: 'articles', operation: 'delete', filters: [{ or: [{ column: 'title', value: '{{query.x}}', optional: true }] }] }, [
      '/q/filters: all filters of this `delete` are optional: without them it would affect all rows'
    ]],
    [{ table: 'articles', operation: 'upsert', onConflict: ['title'] }, [
      '/q/onConflict: no primary key or unique constraint of "articles" has these columns; it has (id), (tenant_id, slug)'
    ]],
    [{ table: 'articles', operation: 'upsert', filters: [{ column: 'tenant_id', value: '{{auth.tenant_id}}' }] }, [
      '/q/filters/0/value: "tenant_id" is always the tenant of the request: remove it'
    ]],
    [{ table: 'articles', operation: 'upsert', id: '{{body.id}}', filters: [{ column: 'id', value: '{{body.id}}' }] }, [
      '/q/filters/0/value: the query already sets "id": remove one of the two'
    ]],
    [{ table: 'articles', operation: 'upsert', filters: [{ column: 'views', operator: 'gt', value: 1 }] }, [
      '/q/filters/0: an `upsert` can have only filters with the operator `eq`, whose values identify its row'
    ]]
  ]
  for (const [query, faults] of cases) t.strictSame(faultsOf(query), faults, JSON.stringify(query))
})

test('an upsert cannot find its row by a column that callers without full access cannot send', t => {
  const bySlug: Query = { table: 'articles', operation: 'upsert', onConflict: ['slug'], excludeFields: ['slug'] }
  const upsert = (more: Partial<Query>): Query => ({ ...bySlug, ...more })
  const reason = (name: string) =>
    `the upsert finds its row by "${name}", whose value \`excludeFields\` removes from requests: set "${name}" in \`filters\`, or omit it by \`response\` instead`
  const refused: Partial<Query>[] = [
    {},
    { onConflict: ['tenant_id', 'slug'] },
    { data: '{{body}}' },
    { data: { slug: '{{body.slug}}' } },
    { data: { slug: '{{body.title}}' }, excludeFields: ['title'] }
  ]
  for (const more of refused) t.strictSame(faultsOf(upsert(more)), [`/q/onConflict: ${reason('slug')}`], JSON.stringify(more))
  const byKey: Query = { table: 'labels', operation: 'upsert', excludeFields: ['id'] }
  t.strictSame(faultsOf(byKey), [`/q: ${reason('id')}`], 'the primary key')

  const accepted: Partial<Query>[] = [
    { filters: [{ column: 'slug', value: '{{body.slug}}' }] },
    { data: { slug: '{{params.slug}}', title: '{{body.title}}' } },
    { data: { slug: 'fixed' } },
    { excludeFields: ['title'] }
  ]
  for (const more of accepted) t.strictSame(faultsOf(upsert(more)), [], JSON.stringify(more))
  t.strictSame(faultsOf({ ...byKey, id: '{{params.id}}' }), [], 'the path sets the key')
  t.end()
})

test('orders that callers choose and pages that follow a cursor are validated', t => {
  const by = (from: string, ...allow: string[]): Query => select({ orderBy: { from, allow } })
  const page = (more: Partial<Query>): Query => select({ pagination: 'cursor', ...more })
  const cases: [Query, string[]][] = [
    [by('{{query.sort}}', 'titel'), ['/q/orderBy/allow/0: the table "articles" has no column "titel", did you mean "title"?']],
    [by('{{query.sort}}', 'title', 'title'), ['/q/orderBy/allow/1: "title" is listed twice']],
    [by('title', 'title'), [
      '/q/orderBy/from: the order would be the same for all callers: expected a template such as {{query.sort}}, or `order` instead of `orderBy`'
    ]],
    [by('{{qery.sort}}', 'title'), [
      '/q/orderBy/from: `qery.sort` is not a source of templates: expected one of body, params, query, headers, auth, tenant, results, now(), uuid(), did you mean "query"?'
    ]],
    [select({ single: true, orderBy: { from: '{{query.sort}}', allow: ['title'] } }), [
      '/q/orderBy: a `select` of one record has no order for the caller to choose'
    ]],
    [select({ id: '{{params.id}}', pagination: 'cursor' }), ['/q/pagination: a `select` of one record has no pages']],
    [{ table: 'articles', operation: 'insert', pagination: 'cursor' }, ['/q/pagination: an `insert` has no pages']],
    [{ table: 'article_titles', operation: 'select', pagination: 'cursor' }, [
      '/q/pagination: "article_titles" has no primary key to mark the end of a page'
    ]],
    [page({ select: 'status, count()' }), [
      '/q/pagination: a cursor works with lists of rows, not of groups: remove it, and use `limit` and `offset`'
    ]],
    [select({ select: 'status, count()', orderBy: { from: '{{query.sort}}', allow: ['status'] } }), [
      '/q/orderBy: groups have the order of `order`, which a caller cannot choose'
    ]],
    [page({ offset: 5 }), ['/q/offset: pages with a cursor have no offset']],
    [page({ limit: 0 }), ['/q/pagination: a page with a cursor must have at least one row: set `limit`']],
    [page({ order: ['title', 'status', 'views', 'rating', 'slug', 'mood'].map((column) => ({ column })) }), [
      '/q/pagination: a cursor can contain at most 5 columns of an order, but this order has 6'
    ]],
    [page({ select: 'title' }), [
      '/q/pagination: a cursor reveals the values of the order and of the primary key of "articles", so every record must include them: add "id" to `select`, or remove "id" from `excludeFields`'
    ]]
  ]
  for (const [query, faults] of cases) {
    t.strictSame(faultsOf(query, { listRoute: 'GET /articles', params: new Set(['id']) }), faults, JSON.stringify(query))
  }
  t.strictSame(faultsOf(page({})), [
    '/q/pagination: the query string of a route can have only one `cursor`: use it in a route with one query'
  ])
  t.end()
})

test('an update or delete of one record needs a filter that matches at most one', async t => {
  const fault = (verb: string, operation: string) =>
    `/q/single: this \`${operation}\` would ${verb} all matching rows instead of one: set \`id\`, or \`eq\` filters on all columns of a primary or unique key that are not \`optional\``
  for (const [operation, verb] of [['update', 'change'], ['delete', 'delete']] as const) {
    const one = (filters: Query['filters'], table = 'articles'): string[] =>
      faultsOf({ table, operation, single: true, ...(filters !== undefined && { filters }) })
    t.strictSame(one([{ column: 'status', value: 'draft' }]), [fault(verb, operation)])
    t.strictSame(one([{ column: 'slug', operator: 'neq', value: 'x' }]), [fault(verb, operation)])
    t.strictSame(one([{ column: 'status', value: 'draft' }, { column: 'slug', value: '{{query.slug}}', optional: true }]), [
      fault(verb, operation)
    ])
    t.strictSame(one([{ or: [{ column: 'slug', value: 'x' }] }]), [fault(verb, operation)])
    t.strictSame(one([{ column: 'venue', value: 'x' }], 'seats'), [fault(verb, operation)])
    t.strictSame(one(undefined).length, 1, 'one fault if there is no filter at all')
    t.strictSame(one([{ column: 'slug', value: '{{params.slug}}' }]), [], 'unique within the tenant')
    t.strictSame(one([{ column: 'id', value: '{{params.id}}' }]), [])
    t.strictSame(one([{ column: 'venue', value: 'x' }, { column: 'number', value: 1 }], 'seats'), [])
    t.strictSame(faultsOf({ table: 'articles', operation, single: true, id: '{{params.id}}' }), [])
  }
})

test('an insert or upsert of one record does not accept an array', async t => {
  for (const operation of ['insert', 'upsert'] as const) {
    t.strictSame(faultsOf({ table: 'countries', operation, single: true, data: [{ code: 'de', name: 'Germany' }] }), [
      '/q/data: expected an object or a template'
    ])
    t.strictSame(faultsOf({ table: 'countries', operation, single: true }), [])
  }
})

test('soft delete needs its columns', async t => {
  t.strictSame(faultsOf({ table: 'labels', operation: 'delete', id: 1 }, { softDelete: { enabled: true } }), [
    '/q: the route\'s `softDelete` marks rows as deleted, but "labels" lacks the column "deleted" (boolean) and the column "deleted_at" (timestamptz)'
  ])
})

test('the configuration cannot set the columns of soft delete', async t => {
  const because = 'marks a soft-deleted row: only a `delete` with `softDelete` can set it'
  t.strictSame(
    faultsOf({ table: 'articles', operation: 'update', id: '{{params.id}}', data: { deleted: true, deleted_at: '{{now()}}' } }),
    [`/q/data/deleted: the column "deleted" ${because}`, `/q/data/deleted_at: the column "deleted_at" ${because}`]
  )
  t.strictSame(
    faultsOf({ table: 'articles', operation: 'insert', data: [{ title: 'x', deleted: '{{body.deleted}}' }, { title: 'y' }] }),
    []
  )
  t.strictSame(faultsOf({ table: 'articles', operation: 'insert', data: [{ title: 'x', deleted: false }] }), [
    `/q/data/0/deleted: ${because}`
  ])
  t.strictSame(faultsOf({ table: 'articles', operation: 'upsert', filters: [{ column: 'deleted', value: false }], data: { title: 'x' } }), [
    `/q/filters/0/value: the column "deleted" ${because}`
  ])
})

test("a tenant's route can use tenant tables, and read the platform's shared ones", async t => {
  const tenant = { origin: 'tenant', sharedTables: new Set(['countries']) } as const
  const hidden = "has no tenant_id column: a tenant's route can use it only if the platform lists it in `tenancy.sharedTables`"
  t.strictSame(faultsOf({ table: 'articles', operation: 'select', select: '*, authors(countries(*))' }, tenant), [])
  t.strictSame(faultsOf({ table: 'countries', operation: 'select' }, tenant), [])
  t.strictSame(faultsOf({ table: 'seats', operation: 'select' }, tenant), [`/q/table: the table "seats" ${hidden}`])
  t.strictSame(faultsOf({ table: 'countries', operation: 'insert' }, tenant), [
    '/q/table: the table "countries" is shared by all tenants: a tenant\'s route can only read it'
  ])
  t.strictSame(faultsOf({ table: 'articles', operation: 'select', select: 'authors(countries(name))' }, { origin: 'tenant' }), [
    `/q/select: the table "countries" ${hidden}`
  ])
  t.strictSame(
    faultsOf({ table: 'seat', operation: 'select' }, tenant),
    ['/q/table: there is no table "seat" in the schema "public"'],
    'forbidden tables are not suggested'
  )
})

test('a document query reports missing and unused members', async t => {
  const cases: [DocumentQuery, string[]][] = [
    [{ operation: 'query' }, ['/q: a document query requires a `collection`']],
    [{ collection: '{{body.x}}', operation: 'query' }, ['/q/collection: expected a name of 1 to 255 characters, without templates']],
    [{ collection: 'notes', operation: 'get' }, ['/q: `get` requires a `docId`; `query` reads many documents']],
    [{ collection: 'notes', operation: 'set', data: {} }, ['/q: `set` requires a `docId`']],
    [{ collection: 'notes', operation: 'add', docId: 'x' }, ['/q/docId: is not used by `add`']],
    [{ collection: 'notes', operation: 'delete', docId: 'x', data: {} }, ['/q/data: is not used by `delete`']],
    [{ collection: 'notes', operation: 'get', docId: '' }, ['/q/docId: expected the id of a document, or a template']],
    [{ collection: 'notes', operation: 'create', data: 7 }, ['/q/data: expected an object with the fields, or a template']],
    [{ collection: 'notes', operation: 'query', filters: [{ column: "a' or true", value: 1 }] }, [
      '/q/filters/0/column: "a\' or true" is not a valid field: expected letters, digits, `_` and `-`, with `.` between the names of a path'
    ]],
    [{ collection: 'notes', operation: 'query', order: { column: 'a..b' } }, [
      '/q/order/column: "a..b" is not a valid field: expected letters, digits, `_` and `-`, with `.` between the names of a path'
    ]],
    [{ collection: 'notes', operation: 'query', filters: [{ column: 'a', value: null }] }, [
      '/q/filters/0/value: no value equals null, did you mean "operator: is"?'
    ]],
    [{ collection: 'notes', operation: 'query', filters: [{ column: 'a', operator: 'is', value: 'x' }] }, [
      '/q/filters/0/value: expected null, true, false or "unknown"'
    ]]
  ]
  for (const [query, faults] of cases) t.strictSame(documentFaultsOf(query), faults, JSON.stringify(query))
  t.strictSame(documentFaultsOf({ collection: 'notes', operation: 'delete', docId: 'x' }, { softDelete: { enabled: true } }), [
    "/q: documents have no `deleted` column, so the route's `softDelete` cannot apply"
  ])
})

test('ordering by a column that PostgreSQL cannot sort is a fault of the document', async t => {
  const catalogue = catalogueOf(table('places', ['id integer!', 'at point', 'ats point[]', 'note json', 'page xml']))
  const faults = (more: Partial<Query>) => faultsOf({ table: 'places', operation: 'select', ...more }, { catalogue })
  for (
    const [column, type, instead] of [['at', 'point', ''], ['ats', 'point[]', ''], ['page', 'xml', ''], [
      'note',
      'json',
      ': make it jsonb'
    ]] as const
  ) {
    for (const operator of ['eq', 'lt', 'neq', 'in', 'contains'] as const) {
      t.strictSame(faults({ filters: [{ column, operator, value: '1' }] }), [
        `/q/filters/0/operator: the column "${column}" has the type ${type}, which PostgreSQL cannot compare${instead}`
      ], `${column} ${operator}`)
    }
    t.strictSame(faults({ order: { column } }), [
      `/q/order/column: the column "${column}" has the type ${type}, which PostgreSQL cannot order${instead}`
    ])
    t.strictSame(faults({ filters: [{ column, operator: 'is', value: null }, { column, operator: 'like', value: '%1%' }] }), [])
  }
})
