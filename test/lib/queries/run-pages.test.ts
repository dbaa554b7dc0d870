/** Orders that callers choose and pages that follow a cursor, on both engines. */
import type { Test } from 'tap'
import type { Order, Query } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import type { Library } from './database.js'
import { onEachEngine, refusalOf, uuid } from './database.js'

const rows = 23
const tenants = ['a', 'b'].map((tenant) => `
insert into articles (id, tenant_id, title, views, rating, published_at, status, mood)
  select ('00000000-0000-4000-8000-' || lpad((n + ${tenant === 'a' ? 0 : 500})::text, 12, '0'))::uuid, '${tenant}', 'title ' || n % 4, n % 3,
    case when n % 4 > 0 then n % 5 * 0.1000000000000000000001 end,
    case when n % 5 > 0 then '2026-01-01T00:00:00Z'::timestamptz + n % 3 * interval '1 microsecond' end, case when n % 2 = 0 then 'draft' else 'published' end,
    case n % 3 when 0 then 'calm'::mood when 1 then 'wild' end
  from generate_series(1, ${rows}) n;`).join('\n')

const list = (more: Partial<Query>): Query => ({
  table: 'articles',
  operation: 'select',
  select: 'id, title, views, rating, published_at, mood',
  pagination: 'cursor',
  ...more
})

interface Page {
  readonly data: { readonly id: string }[]
  readonly pagination: { readonly limit: number, readonly next: string | null }
}

async function pageOf (library: Library, query: Query, asked: Record<string, unknown> = {}, tenant = 'a'): Promise<Page> {
  // The response of a page by cursor.
  return await library.run(query, { query: asked, tenant: scopeTenant(tenant) }, { listRoute: 'GET /articles' }) as Page
}

/** The ids of all pages in order. */
async function walk (t: Test, library: Library, query: Query, asked: Record<string, unknown>): Promise<string[]> {
  const ids: string[] = []
  let cursor: string | null = null
  do {
    const { data, pagination }: Page = await pageOf(library, query, { ...asked, ...cursor !== null && { cursor } })
    ids.push(...data.map(({ id }) => id))
    cursor = pagination.next
    if (cursor !== null && data.length < pagination.limit) t.fail('only the last page is shorter')
    if (ids.length > rows) break
  } while (cursor !== null)
  return ids
}

const keys: Order[] = [{ column: 'views' }, { column: 'rating' }, { column: 'published_at' }, { column: 'mood' }]
  .flatMap(({ column }) =>
    [true, false].flatMap((ascending) =>
      [undefined, true, false].map((nullsFirst): Order => ({ column, ascending, ...nullsFirst !== undefined && { nullsFirst } }))
    )
  )

onEachEngine(tenants, {
  'pages of every order contain every row once, in that order, with any nulls': async (t, library) => {
    const orders: Order[][] = [[], ...keys.map((key) => [key])]
    for (const [index, key] of keys.entries()) {
      const second = keys[(index * 5 + 7) % keys.length]!
      if (second.column !== key.column) orders.push([key, second], [key, second, { column: 'id', ascending: index % 2 === 0 }])
    }
    for (const order of orders) {
      const query = order.length === 0 ? {} : { order }
      const all = await library.column('id', { table: 'articles', operation: 'select', select: 'id', limit: 100, ...query })
      t.equal(all.length, rows)
      for (const limit of [4, 9]) {
        t.strictSame(await walk(t, library, list({ ...query }), { limit }), all, `${JSON.stringify(order)} by ${limit}`)
      }
    }
  },
  'the last page has no cursor, even if it is full': async (t, library) => {
    t.match(await pageOf(library, list({}), { limit: rows }), { data: { length: rows }, pagination: { limit: rows, next: null } })
    t.match(await pageOf(library, list({}), { limit: rows - 1 }), { pagination: { next: /^[\w-]+$/ } })
    t.match(await pageOf(library, list({ filters: [{ column: 'title', value: 'none' }] })), {
      data: { length: 0 },
      pagination: { limit: 20, next: null }
    })
  },
  'a row that is inserted or deleted between two pages neither repeats nor skips another row': async (t, library) => {
    const query = list({ order: { column: 'views', ascending: false } })
    const all = await library.column('id', {
      table: 'articles',
      operation: 'select',
      select: 'id',
      limit: 100,
      order: { column: 'views', ascending: false }
    })
    const first = await pageOf(library, query, { limit: 5 })
    await library.sql('delete from articles where id = $1', [first.data[4]!.id])
    await library.sql("insert into articles (id, tenant_id, title, views, status) values ($1, 'a', 'new', 99, 'draft')", [uuid(999)])
    const second = await pageOf(library, query, { limit: 5, cursor: first.pagination.next })
    t.strictSame(second.data.map(({ id }) => id), all.slice(5, 10))
  },
  'numbers and timestamps keep every digit from page to page': async (t, library) => {
    await library.sql('delete from articles')
    for (
      const [index, rating] of [
        '0.12345678901234567890123',
        '0.12345678901234567890124',
        '0.12345678901234567890125',
        '1',
        '4.99999999999999999999999999'
      ].entries()
    ) {
      await library.sql(
        "insert into articles (id, tenant_id, title, views, rating, published_at, status) values ($1, 'a', 'x', 1, $2, '2026-01-01T00:00:00.000001Z'::timestamptz + $3 * interval '1 microsecond', 'draft')",
        [uuid(index + 1), rating, index]
      )
    }
    await library.sql("update articles set published_at = 'infinity' where rating > 4")
    for (const column of ['rating', 'published_at']) {
      t.strictSame(await walk(t, library, list({ order: { column } }), { limit: 1 }), [1, 2, 3, 4, 5].map(uuid), column)
    }
  },
  'a caller chooses one of the allowed orders': async (t, library) => {
    const query: Query = {
      table: 'articles',
      operation: 'select',
      limit: 3,
      order: { column: 'title', ascending: false },
      orderBy: { from: '{{query.sort}}', allow: ['views', 'published_at'] }
    }
    const ordered = (order: Order[]) => library.column('id', { table: 'articles', operation: 'select', limit: 3, order })
    for (
      const [sort, order] of [
        [undefined, { column: 'title', ascending: false }],
        ['views', { column: 'views' }],
        ['views.asc', { column: 'views' }],
        ['views.desc', { column: 'views', ascending: false }],
        ['published_at.desc', { column: 'published_at', ascending: false }]
      ] as const
    ) {
      t.strictSame(
        await library.column('id', query, { query: sort === undefined ? {} : { sort } }),
        await ordered([order]),
        sort ?? 'no choice'
      )
    }
    const { order: _order, ...without } = query
    t.strictSame(
      await library.column('id', without),
      await ordered([{ column: 'views' }]),
      'without its own order, the first choice is the default'
    )
    for (const sort of ['title', 'views.down', '', 'views desc', 'id; drop table articles', ['views'], { views: 1 }]) {
      t.strictSame(await refusalOf(library.run(query, { query: { sort } })), {
        status: 400,
        code: 'TENANTRY_VALIDATION_FAILED',
        details: [{
          path: '/query/sort',
          message: 'must be one of views, views.asc, views.desc, published_at, published_at.asc, published_at.desc',
          keyword: 'enum'
        }]
      }, JSON.stringify(sort))
    }
  },
  "pages that follow a cursor keep the caller's order": async (t, library) => {
    const query = list({ orderBy: { from: '{{query.sort}}', allow: ['views', 'rating'] } })
    for (const [sort, order] of [['rating.desc', { column: 'rating', ascending: false }], ['views', { column: 'views' }]] as const) {
      const all = await library.column('id', { table: 'articles', operation: 'select', select: 'id', limit: 100, order })
      t.strictSame(await walk(t, library, query, { sort, limit: 7 }), all)
    }
    const { pagination: { next } } = await pageOf(library, query, { sort: 'views', limit: 2 })
    t.match(await refusalOf(pageOf(library, query, { sort: 'views.desc', cursor: next })), {
      status: 400,
      details: [{ path: '/query/cursor', message: 'is not a cursor of this list and this order: start without one' }]
    })
  },
  'a cursor belongs to one route, one order and one tenant': async (t, library) => {
    const query = list({ order: { column: 'views' } })
    const { pagination: { next } } = await pageOf(library, query, { limit: 2 })
    const foreign = {
      status: 400,
      details: [{ path: '/query/cursor', message: 'is not a cursor of this list and this order: start without one' }]
    }
    t.match(
      await refusalOf(pageOf(library, list({ order: { column: 'views', ascending: false } }), { cursor: next })),
      foreign,
      'another order'
    )
    t.match(await refusalOf(pageOf(library, query, { cursor: next }, 'b')), foreign, 'another tenant')
    t.match(await refusalOf(library.run(query, { query: { cursor: next } }, { listRoute: 'GET /others' })), foreign, 'another route')
  },
  'a forged cursor reads only rows of its own tenant that match the filters': async (t, library) => {
    const query = list({ order: { column: 'rating' }, filters: [{ column: 'status', value: 'draft' }] })
    const { pagination: { next } } = await pageOf(library, query, { limit: 2 })
    const tag = Buffer.from(next!, 'base64url').toString().slice(0, 16)
    const forge = (values: unknown): string =>
      Buffer.from(tag + (typeof values === 'string' ? values : JSON.stringify(values))).toString('base64url')
    const own = new Set(
      await library.column('id', { table: 'articles', operation: 'select', limit: 100, filters: [{ column: 'status', value: 'draft' }] })
    )
    let seen = 0
    for (const values of [['-1', uuid(0)], [null, uuid(0)], ['0.2', uuid(5)], ['NaN', uuid(0)]]) {
      const { data } = await pageOf(library, query, { limit: 100, cursor: forge(values) })
      t.ok(data.every(({ id }) => own.has(id)), JSON.stringify(values))
      seen += data.length
    }
    t.ok(seen > 0)
    for (const values of [[], ['1'], ['1', null], ['1', uuid(1), 'more'], [1, 2], {}, 'null', '[', "0' or true --", ['x\0', uuid(1)]]) {
      t.match(
        await refusalOf(pageOf(library, query, { cursor: forge(values) })),
        { status: 400, details: [{ path: '/query/cursor' }] },
        JSON.stringify(values)
      )
    }
    for (const values of [['x', uuid(1)], ['1', 'no id'], ["1') or true --", uuid(1)]]) {
      t.match(await refusalOf(pageOf(library, query, { cursor: forge(values) })), { status: 400 }, JSON.stringify(values))
    }
    for (const cursor of ['', 'x', '%%%', 7, [next], null, `${next}${'A'.repeat(5000)}`]) {
      t.match(
        await refusalOf(pageOf(library, query, { cursor })),
        { status: 400, details: [{ path: '/query/cursor' }] },
        JSON.stringify(cursor).slice(0, 20)
      )
    }
  },
  'a value that no cursor can contain is rejected, and other pages are returned': async (t, library) => {
    await library.sql("update articles set title = repeat('x', 5000) where id = $1", [uuid(2)])
    const query = list({ order: { column: 'title', ascending: false } })
    t.match(await refusalOf(pageOf(library, query, { limit: 1 })), { status: 400, details: [{ path: '/query/limit' }] })
    t.match(await pageOf(library, query, { limit: 2 }), { data: { length: 2 }, pagination: { next: String } })
    t.match(await refusalOf(pageOf(library, query, { limit: 0 })), { status: 400, details: [{ path: '/query/limit' }] })
  },
  'pages that follow a cursor can be ordered by paths in JSON columns': async (t, library) => {
    await library.sql("update articles set meta = case when views > 0 then jsonb_build_object('n', views, 'word', title) end")
    for (const column of ["meta->'n'", "meta->>'word'"]) {
      const order = { column, ascending: false }
      const all = await library.column('id', { table: 'articles', operation: 'select', select: 'id', limit: 100, order })
      t.strictSame(await walk(t, library, list({ select: 'id, meta', order }), { limit: 6 }), all, column)
      t.strictSame(await walk(t, library, list({ select: `id, value:${column}`, order }), { limit: 6 }), all, `${column} alone`)
      await t.rejects(pageOf(library, list({ order })), { message: /every record must include them: add "meta->/ })
    }
  },
  'pages that follow a cursor include embedded rows and leave out excluded fields': async (t, library) => {
    const query = list({ select: 'id, reviews(count), slug', excludeFields: ['slug'] })
    const { data } = await pageOf(library, query, { limit: 1 })
    t.strictSame(data, [{ id: uuid(1), reviews: [{ count: 0 }] }])
  }
})
