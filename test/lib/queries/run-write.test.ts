import type { Scope } from '../../../lib/expressions/types.js'
import type { Query } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { onEachEngine, refusalOf, uuid } from './database.js'

const rows = `
insert into countries values ('de', 'Germany');
insert into authors (id, tenant_id, name, email) values ('${uuid(1)}', 'a', 'Ada', 'ada@example.com'), ('${uuid(9)}', 'b', 'Eve', null);
insert into articles (id, tenant_id, title, status, author_id, views, slug) values ('${uuid(11)}', 'a', 'Alpha', 'draft', '${
  uuid(1)
}', 10, 'alpha'), ('${uuid(12)}', 'a', 'Beta', 'draft', null, 20, null), ('${uuid(19)}', 'b', 'Other', 'draft', '${uuid(9)}', 50, 'other');
insert into articles (id, tenant_id, title, deleted, deleted_at) values ('${uuid(14)}', 'a', 'Gone', true, '2026-01-01T00:00:00Z');
insert into labels values (1, 'a', 'red'), (9, 'b', 'green');
`

const inB: Partial<Scope> = { tenant: scopeTenant('b') }
const titles = 'select id, tenant_id, title from articles order by tenant_id, id'

onEachEngine(rows, {
  'items of arrays of JSON are stored as given, from one record and from many': async (t, library) => {
    await library.sql('create table boxes (id integer primary key, tenant_id text not null, parts jsonb[], texts json[])')
    await library.engine.refresh()
    t.teardown(() => library.sql('drop table boxes'))
    const parts = [[1, 2], [3], { a: [null] }, null, 'x"y', []]
    const texts = [[1], [2]]
    const stored = async (query: Query, body: unknown) => {
      await library.sql('delete from boxes')
      await library.run(query, { body })
      return await library.sql(
        'select id, array_ndims(parts) as parts, array_ndims(texts) as texts, to_json(parts) as p, to_json(texts) as t, parts @> $1::jsonb[] as contains from boxes order by id',
        [['[1, 2]']]
      )
    }
    const insert: Query = { table: 'boxes', operation: 'insert' }
    const row = { parts: 1, texts: 1, p: parts, t: texts, contains: true }
    const empty = { parts: null, texts: null, p: null, t: [], contains: null }
    t.strictSame(await stored(insert, { id: 1, parts, texts }), [{ id: 1, ...row }])
    for (const operation of ['insert', 'upsert'] as const) {
      t.strictSame(
        await stored({ ...insert, operation }, [{ id: 1, parts, texts }, { id: 2, parts: null, texts: [] }]),
        [{ id: 1, ...row }, { id: 2, ...empty }],
        operation
      )
    }
    t.strictSame(
      await stored({ ...insert, operation: 'upsert' }, [{ id: 1, parts, texts }, { id: 2, texts: [] }]),
      [{ id: 1, ...row }, { id: 2, ...empty }],
      'records with different fields'
    )
  },

  'an insert sets the given columns, uses defaults for the rest, and belongs to the tenant': async (t, library) => {
    const insert: Query = {
      table: 'articles',
      operation: 'insert',
      select: 'tenant_id, title, status, views, rating, tags, meta, author_id, published_at, title_length, authors(name)'
    }
    t.strictSame(await library.run(insert, { body: { title: 'New' } }), {
      tenant_id: 'a',
      title: 'New',
      status: 'draft',
      views: 0,
      rating: null,
      tags: null,
      meta: null,
      author_id: null,
      published_at: null,
      title_length: 3,
      authors: null
    })
    const body = {
      title: 'Full',
      status: 'x',
      views: 3,
      rating: 2.5,
      tags: ['a,b', '"q"', null, '\\'],
      meta: { deep: [1, { a: null }], text: "it's" },
      author_id: uuid(1),
      published_at: '2026-01-01T12:00:00+02:00',
      tenant_id: 'a'
    }
    t.strictSame(await library.run(insert, { body }), {
      ...body,
      published_at: '2026-01-01T10:00:00+00:00',
      title_length: 4,
      authors: { name: 'Ada' }
    })
    t.match(
      await library.run({ ...insert, data: { title: '{{body.name}}', status: 'fixed', rating: '{{body.none}}' } }, {
        body: { name: 'From data' }
      }),
      { title: 'From data', status: 'fixed', rating: null }
    )
    t.match(await library.run({ ...insert, data: '{{body.article}}' }, { body: { article: { title: 'Within' } } }), { title: 'Within' })
    t.match(await library.run(insert, { ...inB, body: { title: 'B' } }), { tenant_id: 'b' })
    t.match(await library.run({ table: 'seats', operation: 'insert' }, { body: { venue: 'x', number: 1 } }), { holder: null })
  },

  "a URL's id, timestamp or number may have any form that PostgreSQL accepts": async (t, library) => {
    const insert = (more: Record<string, unknown>) =>
      library.run({ table: 'articles', operation: 'insert' }, { body: { title: 'x', ...more } })
    for (
      const id of [
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
        'B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11',
        '{c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}',
        'd0eebc999c0b4ef8bb6d6bb9bd380a11',
        'e0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11',
        '{f0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}'
      ]
    ) {
      t.match(await insert({ id }), { title: 'x' }, id)
    }
    const data = { title: 'x', published_at: '{{query.at}}', views: '{{query.views}}' }
    const ofUrl = (query: Record<string, string>) => library.run({ table: 'articles', operation: 'insert', data }, { query })
    for (
      const moment of [
        '2026-01-31',
        '2024-02-29',
        '2000-02-29T00:00:00Z',
        '0001-02-28 BC',
        '0001-02-29 BC',
        '2026-1-3 4:05',
        '2026-12-31T24:00:00Z',
        '2026-06-30 23:59:60',
        '2026-01-31T12:00:00.123456+02:00',
        ' 2026-01-31 ',
        '20260131T120000',
        'January 8, 1999',
        '1/8/1999',
        'Jan-08-1999',
        '08-Jan-1999',
        'J2451187',
        '1999.008',
        'infinity',
        '-INFINITY',
        'epoch',
        'now',
        'Today',
        'tomorrow',
        'yesterday 12:00',
        '12026-01-31'
      ]
    ) {
      t.match(await ofUrl({ at: moment }), { title: 'x' }, moment)
    }
    for (const views of ['2147483647', '-2147483648', '+7', '007']) t.match(await ofUrl({ views }), { views: Number(views) }, views)
  },

  'jsonb accepts any JSON, and keeps its types': async (t, library) => {
    for (const meta of [1, 'text', true, [1, 'x', null], { a: { b: [] } }, '']) {
      t.strictSame(await library.run({ table: 'articles', operation: 'insert', select: 'meta' }, { body: { title: 'x', meta } }), { meta })
      t.strictSame(await library.run({ table: 'articles', operation: 'insert', select: 'meta' }, { body: [{ title: 'x', meta }] }), {
        data: [{ meta }]
      })
    }
  },

  'an inserted array returns records in order, with absent fields absent': async (t, library) => {
    const insert: Query = { table: 'articles', operation: 'insert', select: 'title, status, views, tags, meta' }
    t.strictSame(await library.run(insert, { body: [{ title: 'One', tags: ['x', 'y'], meta: { n: [1] } }, { title: 'Two' }] }), {
      data: [{ title: 'One', status: 'draft', views: 0, tags: ['x', 'y'], meta: { n: [1] } }, {
        title: 'Two',
        status: 'draft',
        views: 0,
        tags: null,
        meta: null
      }]
    })
    t.strictSame(await library.run(insert, { body: [{ title: 'Three', views: 7 }, { title: 'Four' }, { title: 'Five', status: 'x' }] }), {
      data: [
        { title: 'Three', status: 'draft', views: 7, tags: null, meta: null },
        { title: 'Four', status: 'draft', views: 0, tags: null, meta: null },
        { title: 'Five', status: 'x', views: 0, tags: null, meta: null }
      ]
    })
    t.strictSame(await library.run(insert, { body: [] }), { data: [] })
    const many = Array.from({ length: 1000 }, (_, index) => ({ title: `t${index}`, ...(index % 2 === 0 && { views: index }) }))
    t.match(await library.run(insert, { body: many }), { data: { length: 1000 } })
    t.strictSame(await library.sql("select count(*)::int as n, sum(views)::int as views from articles where title like 't%'"), [{
      n: 1000,
      views: 249_500
    }])
    t.match(await refusalOf(library.run(insert, { body: [...many, { title: 'x' }] })), {
      status: 400,
      details: [{ path: '/body', message: 'must contain at most 1000 records' }]
    })
  },

  'an update returns the row, sets only the given columns, and nothing without any': async (t, library) => {
    const update: Query = { table: 'articles', operation: 'update', id: '{{params.id}}', select: 'title, status, authors(name)' }
    const params = { id: uuid(11) }
    t.strictSame(await library.run(update, { params, body: { title: 'Changed' } }), {
      title: 'Changed',
      status: 'draft',
      authors: { name: 'Ada' }
    })
    t.strictSame(await library.run(update, { params, body: {} }), { title: 'Changed', status: 'draft', authors: { name: 'Ada' } })
    t.strictSame(await library.run(update, { params, body: { author_id: null } }), { title: 'Changed', status: 'draft', authors: null })
    for (const id of [uuid(19), uuid(14), uuid(99), null]) {
      t.equal(await library.run(update, { params: { id }, body: { title: 'x' } }), null, String(id))
    }
    t.strictSame(await library.sql('select title from articles where id = any($1) order by title', [[uuid(14), uuid(19)]]), [{
      title: 'Gone'
    }, { title: 'Other' }])
    t.strictSame(
      await library.run({
        table: 'articles',
        operation: 'update',
        filters: [{ column: 'status', value: 'draft' }],
        data: { status: 'done' },
        select: 'title'
      }),
      { data: [{ title: 'Changed' }, { title: 'Beta' }] }
    )
    t.strictSame(
      await library.run({
        table: 'articles',
        operation: 'update',
        filters: [{ column: 'status', value: 'draft' }],
        data: { status: 'done' },
        select: 'title'
      }),
      { data: [] }
    )
    t.match(
      await library.run({ table: 'articles', operation: 'update', filters: [{ column: 'id', value: uuid(12) }], data: { status: 'done' } }),
      { title: 'Beta' },
      'a filter by the key selects one record'
    )
  },

  "an upsert inserts, then updates the given columns, and never another tenant's or a deleted row": async (t, library) => {
    const upsert: Query = { table: 'articles', operation: 'upsert', select: 'title, status, views' }
    t.strictSame(await library.run(upsert, { body: { id: uuid(21), title: 'New', views: 5 } }), { title: 'New', status: 'draft', views: 5 })
    t.strictSame(await library.run(upsert, { body: { id: uuid(21), title: 'Newer' } }), { title: 'Newer', status: 'draft', views: 5 })
    t.strictSame(
      await library.run({ ...upsert, id: '{{params.id}}' }, { params: { id: uuid(21) }, body: { id: uuid(99), title: 'Newest' } }),
      { title: 'Newest', status: 'draft', views: 5 }
    )
    t.strictSame(
      await library.run({ ...upsert, filters: [{ column: 'id', value: '{{params.id}}' }] }, {
        params: { id: uuid(22) },
        body: { title: 'By filter' }
      }),
      { title: 'By filter', status: 'draft', views: 0 }
    )
    t.strictSame(await library.run({ ...upsert, onConflict: ['tenant_id', 'slug'] }, { body: { slug: 'alpha', title: 'By slug' } }), {
      title: 'By slug',
      status: 'draft',
      views: 10
    })
    t.strictSame(await library.run({ ...upsert, onConflict: ['slug'] }, { body: { slug: 'alpha', title: 'By slug alone' } }), {
      title: 'By slug alone',
      status: 'draft',
      views: 10
    }, 'unique columns of a tenant table are unique within the tenant')
    t.strictSame(await library.run({ table: 'countries', operation: 'upsert' }, { body: { code: 'de', name: 'Germany' } }), {
      code: 'de',
      name: 'Germany'
    })
    const before = await library.sql(titles)
    t.equal(await library.run(upsert, { body: { id: uuid(19), title: 'Stolen' } }), null)
    t.equal(await library.run(upsert, { body: { id: uuid(14), title: 'Revived' } }), null)
    t.strictSame(await library.sql(titles), before)
  },

  'a bulk upsert is all or nothing': async (t, library) => {
    const upsert: Query = { table: 'labels', operation: 'upsert', select: 'id, name' }
    t.strictSame(await library.run(upsert, { body: [{ id: 1, name: 'crimson' }, { id: 2, name: 'blue' }] }), {
      data: [{ id: 1, name: 'crimson' }, { id: 2, name: 'blue' }]
    })
    t.match(await refusalOf(library.run(upsert, { body: [{ id: 3, name: 'x' }, { id: 9, name: 'stolen' }] })), {
      status: 409,
      code: 'TENANTRY_CONFLICT'
    }, 'as an upsert of this record alone')
    t.match(await refusalOf(library.run(upsert, { body: [{ id: 3, name: 'x' }, { id: 3, name: 'y' }] })), { status: 400 })
    t.strictSame(await library.sql('select id, tenant_id, name from labels order by id'), [{ id: 1, tenant_id: 'a', name: 'crimson' }, {
      id: 2,
      tenant_id: 'a',
      name: 'blue'
    }, { id: 9, tenant_id: 'b', name: 'green' }])
  },

  'a delete marks or removes existing rows of the tenant': async (t, library) => {
    const remove: Query = { table: 'articles', operation: 'delete', id: '{{params.id}}' }
    const softDelete = { enabled: true, allowHardDelete: true }
    const run = (id: string, query = {}): Promise<unknown> => library.run(remove, { params: { id }, query }, { softDelete })
    t.strictSame(await run(uuid(11)), { success: true, softDeleted: true })
    t.equal(await run(uuid(11)), null, 'the second time it is gone')
    t.strictSame(await library.sql('select deleted, deleted_at is not null as at from articles where id = $1', [uuid(11)]), [{
      deleted: true,
      at: true
    }])
    t.strictSame(await run(uuid(11), { hard: true }), { success: true }, 'a soft-deleted row is removed')
    t.strictSame(await run(uuid(12), { hard: 'true' }), { success: true })
    t.equal(await run(uuid(19), { hard: true }), null, "another tenant's row")
    t.strictSame(await library.column('id', { table: 'articles', operation: 'select' }), [])
    t.strictSame(await library.column('id', { table: 'articles', operation: 'select' }, inB), [uuid(19)])
    t.strictSame(await library.run(remove, { ...inB, params: { id: uuid(19) } }), { success: true }, 'without soft delete on the route')
    t.equal((await library.sql('select from articles')).length, 1)
    await t.rejects(library.run(remove, { params: { id: uuid(11) }, query: { hard: true } }, { softDelete: { enabled: true } }), {
      code: 'TENANTRY_FORBIDDEN'
    })
    const several: Query = { table: 'labels', operation: 'delete', filters: [{ column: 'id', operator: 'gt', value: 0 }] }
    t.strictSame(await library.run(several), { success: true })
    t.equal(await library.run(several), null)
    t.strictSame(await library.sql('select id from labels'), [{ id: 9 }])
  },

  "an upsert of records with different fields fails as a whole if a row is another tenant's, deleted, or refers to one": async (
    t,
    library
  ) => {
    const before = await library.sql(titles)
    const upsert: Query = { table: 'articles', operation: 'upsert', select: 'id, title, views, authors(name)' }
    for (
      const [bad, code] of [
        [{ id: uuid(19), title: 'x' }, 'TENANTRY_CONFLICT'],
        [{ id: uuid(14), title: 'x' }, 'TENANTRY_CONFLICT'],
        [{ id: uuid(12), title: 'x', author_id: uuid(9) }, 'TENANTRY_CONSTRAINT_VIOLATED']
      ] as const
    ) {
      t.match(await refusalOf(library.run(upsert, { body: [{ id: uuid(11), title: 'y', views: 1 }, bad] })), { code })
      t.strictSame(await library.sql(titles), before)
    }
    t.strictSame(
      await library.run(upsert, {
        body: [{ id: uuid(12), title: 'B', author_id: uuid(1) }, { id: uuid(11), title: 'A', views: 1 }, {
          id: uuid(15),
          title: 'C',
          author_id: null
        }]
      }),
      {
        data: [{ id: uuid(12), title: 'B', views: 20, authors: { name: 'Ada' } }, {
          id: uuid(11),
          title: 'A',
          views: 1,
          authors: { name: 'Ada' }
        }, { id: uuid(15), title: 'C', views: 0, authors: null }]
      }
    )
    const mentors = [{ id: uuid(6), name: 'x', mentor_id: uuid(7) }, { id: uuid(7), name: 'y' }]
    t.match(await library.run({ table: 'authors', operation: 'upsert', select: 'name' }, { body: mentors }), {
      data: [{ name: 'x' }, { name: 'y' }]
    }, 'one record refers to another in the same request')
  },

  "a foreign key refers only to the tenant's own rows": async (t, library) => {
    const before = await library.sql(titles)
    const refusals: [Query, Partial<Scope>][] = [
      [{ table: 'articles', operation: 'insert' }, { body: { title: 'x', author_id: uuid(9) } }],
      [{ table: 'articles', operation: 'insert' }, { body: [{ title: 'x', author_id: uuid(1) }, { title: 'x', author_id: uuid(9) }] }],
      [{ table: 'articles', operation: 'update', id: uuid(11) }, { body: { author_id: uuid(9) } }],
      [{ table: 'articles', operation: 'upsert' }, { body: { id: uuid(11), title: 'x', author_id: uuid(9) } }],
      [{ table: 'authors', operation: 'insert' }, { body: { name: 'x', mentor_id: uuid(9) } }]
    ]
    for (const [query, scope] of refusals) t.match(await refusalOf(library.run(query, scope)), { status: 400 }, JSON.stringify(query))
    t.strictSame(await library.sql(titles), before)
    t.match(
      await library.run({ table: 'authors', operation: 'insert' }, { body: { id: uuid(5), name: 'Own mentor', mentor_id: uuid(5) } }),
      { mentor_id: uuid(5) }
    )
    t.match(
      await library.run({ table: 'authors', operation: 'insert' }, {
        body: [{ id: uuid(6), name: 'x', mentor_id: uuid(7) }, { id: uuid(7), name: 'y', mentor_id: uuid(1) }]
      }),
      { data: { length: 2 } }
    )
    await t.rejects(library.run({ table: 'articles', operation: 'insert' }, { body: { title: 'x', author_id: uuid(77) } }), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED'
    })
  },

  "database errors caused by the caller are the caller's": async (t, library) => {
    await t.rejects(library.run({ table: 'articles', operation: 'insert' }, { body: { id: uuid(11), title: 'again' } }), {
      code: 'TENANTRY_CONFLICT'
    })
    await t.rejects(library.run({ table: 'articles', operation: 'insert' }, { body: { id: uuid(19), title: "another tenant's id" } }), {
      code: 'TENANTRY_CONFLICT'
    })
    await t.rejects(library.run({ table: 'articles', operation: 'insert' }, { body: { status: 'x' } }), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED'
    })
    await t.rejects(library.run({ table: 'articles', operation: 'insert' }, { body: { title: 'x', rating: 9 } }), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED'
    })
    const late = { title: 'x', published_at: '2026-01-01T00:00:00+99:99' }
    for (const body of [late, [late]]) {
      await t.rejects(
        library.run({ table: 'articles', operation: 'insert' }, { body }),
        { code: 'TENANTRY_INVALID_VALUE' },
        JSON.stringify(body)
      )
    }
  },

  'a value that the database would reject is rejected with its field': async (t, library) => {
    for (
      const [field, value] of [['id', `${uuid(1)}-`], ['id', `{${uuid(1)}`], ['title', 'nul\0'], ['title', '\ud800'], ['meta', {
        a: '\0'
      }]] as const
    ) {
      const body = { title: 'x', [field]: value }
      await t.rejects(library.run({ table: 'articles', operation: 'insert' }, { body }), {
        code: 'TENANTRY_VALIDATION_FAILED',
        extras: { details: [{ path: `/body/${field}` }] }
      }, JSON.stringify(body))
      await t.rejects(library.run({ table: 'articles', operation: 'insert' }, { body: [body] }), {
        code: 'TENANTRY_VALIDATION_FAILED',
        extras: { details: [{ path: `/body/0/${field}` }] }
      }, JSON.stringify([body]))
    }
    await t.rejects(library.run({ table: 'articles', operation: 'select', id: '{{body.id}}' }, { body: { id: `${uuid(1)}-` } }), {
      code: 'TENANTRY_VALIDATION_FAILED',
      extras: { details: [{ path: '/body/id' }] }
    })
  },

  'more combinations of columns than are cached still run': async (t, library) => {
    const names = ['status', 'views', 'rating', 'tags', 'meta', 'slug', 'featured']
    const values: Record<string, unknown> = { status: 's', views: 1, rating: 1, tags: ['x'], meta: {}, featured: true }
    for (let bits = 0; bits < 128; bits += 1) {
      const body = Object.fromEntries(
        names.filter((_, index) => bits & 1 << index).map((name) => [name, name === 'slug' ? `s${bits}` : values[name]])
      )
      const result = await library.run({ table: 'articles', operation: 'insert', select: 'title' }, {
        body: { title: `v${bits}`, ...body }
      })
      if (bits % 32 === 0) t.strictSame(result, { title: `v${bits}` })
    }
    t.strictSame(await library.sql("select count(*)::int as n, sum(views)::int as views from articles where title like 'v%'"), [{
      n: 128,
      views: 64
    }])
  }
})
