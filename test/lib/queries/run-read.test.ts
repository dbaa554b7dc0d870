import type { Query } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { onEachEngine, uuid } from './database.js'

const articles = `
insert into countries values ('de', 'Germany'), ('fr', 'France');
insert into authors (id, tenant_id, name, email, country_code, mentor_id) values
  ('${uuid(1)}', 'a', 'Ada', 'ada@example.com', 'de', null), ('${uuid(2)}', 'a', 'Ben', 'ben@example.com', null, '${uuid(1)}'), ('${
  uuid(9)
}', 'b', 'Eve', null, 'fr', null);
insert into profiles values ('${uuid(1)}', 'a', 'Writes');
insert into articles (id, tenant_id, title, status, author_id, views, rating, tags, meta, published_at, slug, featured, deleted, mood) values
  ('${uuid(11)}', 'a', 'Alpha', 'draft', '${uuid(1)}', 10, 1.5, '{x,y}', '{"kind": "note", "n": 1}', '2026-01-01T00:00:00Z', 'alpha', true, false, 'calm'),
  ('${uuid(12)}', 'a', 'Beta 100%', 'published', '${uuid(2)}', 20, null, '{y,z}', '{"kind": "post"}', null, 'beta', false, false, 'wild'),
  ('${uuid(13)}', 'a', 'Gamma', 'published', null, 30, 4, null, null, '2026-03-01T00:00:00Z', null, null, false, null),
  ('${uuid(14)}', 'a', 'Gone', 'published', '${uuid(1)}', 40, null, '{x}', null, null, 'gone', true, true, 'calm'),
  ('${uuid(19)}', 'b', 'Other', 'published', '${uuid(9)}', 50, 1, '{x}', '{"kind": "note"}', null, 'alpha', true, false, 'calm');
insert into reviews (id, tenant_id, article_id, author_id, editor_id, stars, note, deleted) values
  (1, 'a', '${uuid(11)}', '${uuid(2)}', '${uuid(1)}', 5, 'great', false), (2, 'a', '${uuid(11)}', null, null, 3, null, null), (3, 'a', '${
  uuid(11)
}', null, null, 1, 'deleted', true),
  (4, 'b', '${uuid(11)}', '${uuid(9)}', null, 1, 'of another tenant', false);
insert into labels values (1, 'a', 'red'), (2, 'a', 'blue'), (3, 'b', 'green');
insert into article_labels values ('a', '${uuid(11)}', 1), ('a', '${uuid(11)}', 2), ('a', '${uuid(12)}', 2);
insert into "we""ird" values (1, 'it''s "quoted"', 'row', 'x');
insert into seats values ('hall', 1, 'Ada'), ('hall', 2, null);
`

onEachEngine(articles, {
  'every operator finds the matching rows': async (t, library) => {
    const find = (filter: object, query: Record<string, unknown> = {}): Promise<unknown[]> =>
      library.column('title', { table: 'articles', operation: 'select', select: 'title', filters: [filter as never] }, { query })
    const [alpha, beta, gamma] = ['Alpha', 'Beta 100%', 'Gamma']
    const cases: [object, unknown[]][] = [
      [{ column: 'title', value: 'Alpha' }, [alpha]],
      [{ column: 'id', operator: 'eq', value: uuid(12) }, [beta]],
      [{ column: 'status', operator: 'neq', value: 'draft' }, [beta, gamma]],
      [{ column: 'views', operator: 'gt', value: 20 }, [gamma]],
      [{ column: 'views', operator: 'gte', value: '20' }, [beta, gamma]],
      [{ column: 'rating', operator: 'lt', value: 4 }, [alpha]],
      [{ column: 'published_at', operator: 'lte', value: '2026-01-01T01:00:00+01:00' }, [alpha]],
      [{ column: 'title', operator: 'like', value: '%a' }, [alpha, gamma]],
      [{ column: 'title', operator: 'like', value: '%A%' }, [alpha]],
      [{ column: 'title', operator: 'ilike', value: 'BETA 100\\%' }, [beta]],
      [{ column: 'id', operator: 'like', value: '%13' }, [gamma]],
      [{ column: 'author_id', operator: 'is', value: null }, [gamma]],
      [{ column: 'featured', operator: 'is', value: true }, [alpha]],
      [{ column: 'featured', operator: 'is', value: false }, [beta]],
      [{ column: 'featured', operator: 'is', value: 'unknown' }, [gamma]],
      [{ not: { column: 'featured', operator: 'is', value: 'true' } }, [beta, gamma]],
      [{ column: 'views', operator: 'in', value: [10, 30, 50] }, [alpha, gamma]],
      [{ column: 'slug', operator: 'in', value: 'alpha, beta' }, [alpha, beta]],
      [{ column: 'slug', operator: 'in', value: [] }, []],
      [{ column: 'tags', operator: 'contains', value: ['y', 'x'] }, [alpha]],
      [{ column: 'tags', operator: 'overlaps', value: 'z,q' }, [beta]],
      [{ column: 'meta', operator: 'contains', value: { kind: 'note' } }, [alpha]],
      [{ column: 'meta', value: { n: 1, kind: 'note' } }, [alpha]],
      [{ column: 'mood', value: 'wild' }, [beta]],
      [{ column: 'mood', operator: 'in', value: ['calm'] }, [alpha]],
      [{
        or: [{ column: 'views', value: 10 }, {
          and: [{ column: 'status', value: 'published' }, { column: 'views', operator: 'gt', value: 20 }]
        }]
      }, [alpha, gamma]],
      [{ not: { or: [{ column: 'views', value: 10 }, { column: 'views', value: 20 }] } }, [gamma]]
    ]
    for (const [filter, expected] of cases) t.strictSame(await find(filter), expected, JSON.stringify(filter))
  },

  'a value that resolves to nothing matches nothing, or drops an optional filter': async (t, library) => {
    const find = (operator: string, column: string, more: object, query: Record<string, unknown>): Promise<unknown[]> =>
      library.column('views', {
        table: 'articles',
        operation: 'select',
        filters: [{ column, operator, value: '{{query.x}}', ...more } as never]
      }, { query })
    for (
      const [operator, column] of [
        ['eq', 'title'],
        ['neq', 'title'],
        ['gt', 'views'],
        ['like', 'title'],
        ['in', 'slug'],
        ['contains', 'tags'],
        ['overlaps', 'tags'],
        ['is', 'featured'],
        ['is', 'slug']
      ] as const
    ) {
      t.strictSame(await find(operator, column, {}, {}), [], `${operator} ${column}`)
      t.strictSame(await find(operator, column, { optional: true }, {}), [10, 20, 30], `optional ${operator} ${column}`)
      const negated: Query = { table: 'articles', operation: 'select', filters: [{ not: { column, operator, value: '{{query.x}}' } }] }
      t.strictSame(await library.column('views', negated), [], `not ${operator} ${column}`)
    }
    await library.sql(`update articles set meta = '{"n": null}' where id = '${uuid(13)}'`)
    for (const operator of ['eq', 'neq', 'gt', 'like', 'is', 'in', 'contains'] as const) {
      for (const value of ['{{query.x}}', '{{body.x}}']) {
        const negated: Query = { table: 'articles', operation: 'select', filters: [{ not: { column: "meta->'n'", operator, value } }] }
        t.strictSame(await library.column('views', negated), [], `not ${operator} meta->'n' ${value}`)
      }
    }
    t.strictSame(await find('is', 'featured', {}, { x: 'true' }), [10])
    t.strictSame(await find('is', 'slug', {}, { x: 'null' }), [30])
    t.strictSame(await find('is', 'slug', { optional: true }, { x: null }), [30], 'null is a value of an optional `is`')
    t.strictSame(await find('eq', 'title', { optional: true }, { x: null }), [10, 20, 30], 'and of no other operator')
    const search: Query = {
      table: 'articles',
      operation: 'select',
      filters: [{ column: 'title', operator: 'ilike', value: '%{{query.q}}%' }]
    }
    t.strictSame(await library.column('views', search), [], 'a pattern with an empty text matches nothing')
    t.strictSame(await library.column('views', search, { query: { q: 'mm' } }), [30])

    const parts: [operator: string, column: string, value: unknown][] = [
      ['contains', 'meta', { owner: '{{query.x}}' }],
      ['contains', 'meta', { a: { owner: '{{query.x}}' } }],
      ['contains', 'tags', ['{{query.x}}']],
      ['in', 'slug', ['{{query.x}}']],
      ['overlaps', 'tags', ['{{query.x}}', '{{query.y}}']],
      ['like', 'title', '%{{query.x || query.y}}%']
    ]
    for (const [operator, column, value] of parts) {
      const title = `${operator} ${column} ${JSON.stringify(value)}`
      t.strictSame(await find(operator, column, { value }, {}), [], title)
      t.strictSame(await find(operator, column, { value, optional: true }, {}), [10, 20, 30], `optional ${title}`)
      const negated = { not: { column, operator, value } } as never
      t.strictSame(await library.column('views', { table: 'articles', operation: 'select', filters: [negated] }), [], `not ${title}`)
    }
    t.strictSame(await find('in', 'views', { value: [10, '{{query.x}}'] }, {}), [10], 'the other values of a list count')
  },

  'a page has its rows, the total, and a stable order': async (t, library) => {
    const page = (more: object, query: Record<string, unknown> = {}): Promise<unknown> =>
      library.run({ table: 'articles', operation: 'select', select: 'views', ...more }, { query })
    const of = (views: number[], limit: number, offset: number, total: number): object => ({
      data: views.map((each) => ({ views: each })),
      pagination: { limit, offset, total }
    })
    t.strictSame(await page({}), of([10, 20, 30], 20, 0, 3))
    t.strictSame(await page({ limit: 2 }), of([10, 20], 2, 0, 3))
    t.strictSame(await page({ limit: 2 }, { offset: 2 }), of([30], 2, 2, 3))
    t.strictSame(await page({}, { limit: 1, offset: 1 }), of([20], 1, 1, 3))
    t.strictSame(await page({}, { limit: 3, offset: 0 }), of([10, 20, 30], 3, 0, 3))
    t.strictSame(await page({}, { limit: 1000, offset: 7 }), of([], 100, 7, 3), 'a page past the end has a total too')
    t.strictSame(await page({}, { limit: 0 }), of([], 0, 0, 3))
    t.strictSame(await page({ filters: [{ column: 'title', value: 'none' }] }), of([], 20, 0, 0))
    t.strictSame(await page({ filters: [{ column: 'title', value: 'none' }] }, { offset: 3 }), of([], 20, 3, 0))
    t.strictSame(await page({ order: { column: 'views', ascending: false } }), of([30, 20, 10], 20, 0, 3))
    t.strictSame(
      await page({ order: [{ column: 'status', ascending: false }, { column: 'rating', nullsFirst: true }] }),
      of([20, 30, 10], 20, 0, 3)
    )
  },

  'records embed the rows of their foreign keys, of their tenant and not deleted': async (t, library) => {
    t.strictSame(
      await library.run({
        table: 'articles',
        operation: 'select',
        id: uuid(11),
        select:
          'title, author:authors(name, country:countries(name), profiles(bio), mentor_id(name)), reviews(stars, writer:authors!author_id(name), authors!reviews_editor_id_fkey(name)), count:reviews(count), labels(name)'
      }),
      {
        title: 'Alpha',
        author: { name: 'Ada', country: { name: 'Germany' }, profiles: { bio: 'Writes' }, mentor_id: null },
        reviews: [{ stars: 5, writer: { name: 'Ben' }, authors: { name: 'Ada' } }, { stars: 3, writer: null, authors: null }],
        count: [{ count: 2 }],
        labels: [{ name: 'red' }, { name: 'blue' }]
      }
    )
    t.strictSame(
      await library.run({
        table: 'authors',
        operation: 'select',
        select: 'name, students:authors!authors_mentor_id_fkey(name), articles(title)'
      }),
      {
        data: [
          { name: 'Ada', students: [{ name: 'Ben' }], articles: [{ title: 'Alpha' }] },
          { name: 'Ben', students: [], articles: [{ title: 'Beta 100%' }] }
        ],
        pagination: { limit: 20, offset: 0, total: 2 }
      }
    )
    t.strictSame(await library.run({ table: 'countries', operation: 'select', select: 'code, authors(name)' }), {
      data: [{ code: 'de', authors: [{ name: 'Ada' }] }, { code: 'fr', authors: [] }],
      pagination: { limit: 20, offset: 0, total: 2 }
    }, 'from a table without tenants too')
    await t.rejects(library.run({ table: 'countries', operation: 'select', select: 'authors(name)' }, { tenant: null }), {
      code: 'TENANTRY_TENANT_REQUIRED'
    })
    t.strictSame(await library.run({ table: 'countries', operation: 'select', select: 'name', id: 'fr' }, { tenant: null }), {
      name: 'France'
    })
  },

  'one record is read by its key, or is the first match': async (t, library) => {
    t.strictSame(
      await library.run({ table: 'articles', operation: 'select', select: 'title', id: '{{params.id}}' }, { params: { id: uuid(12) } }),
      { title: 'Beta 100%' }
    )
    t.equal(await library.run({ table: 'articles', operation: 'select', id: '{{params.id}}' }), null, 'a missing id matches nothing')
    t.equal(await library.run({ table: 'articles', operation: 'select', id: uuid(14) }), null, 'deleted')
    t.equal(await library.run({ table: 'articles', operation: 'select', id: uuid(19) }), null, "another tenant's row")
    t.strictSame(
      await library.run({ table: 'articles', operation: 'select', select: 'title', id: uuid(19) }, { tenant: scopeTenant('b') }),
      { title: 'Other' }
    )
    t.strictSame(
      await library.run({
        table: 'articles',
        operation: 'select',
        select: 'title',
        single: true,
        order: { column: 'views', ascending: false }
      }),
      { title: 'Gamma' }
    )
    t.strictSame(
      await library.run({ table: 'seats', operation: 'select', id: { venue: 'hall', number: '{{params.n}}' } }, { params: { n: '2' } }),
      { venue: 'hall', number: 2, holder: null }
    )
  },

  'excluded fields are in no response, at any level, without full access': async (t, library) => {
    const query = {
      table: 'articles',
      operation: 'select',
      select: 'title, note:slug, authors(name, email), reviews(stars)',
      id: uuid(11)
    } as const
    const changes = { excludeFields: ['email', 'slug', 'reviews'] }
    t.strictSame(await library.run(query, {}, changes), { title: 'Alpha', authors: { name: 'Ada' } })
    t.strictSame(await library.run(query, { fullAccess: true }, changes), {
      title: 'Alpha',
      note: 'alpha',
      authors: { name: 'Ada', email: 'ada@example.com' },
      reviews: [{ stars: 5 }, { stars: 3 }]
    })
    t.strictSame(
      await library.run({ table: 'countries', operation: 'select', select: 'name', id: 'de' }, {}, { excludeFields: ['name'] }),
      {}
    )
  },

  'names that need quotes and columns named like internal aliases work': async (t, library) => {
    t.strictSame(
      await library.run({
        table: 'we"ird',
        operation: 'select',
        filters: [{ column: 'na"me', value: 'it\'s "quoted"' }, { column: 'r', value: 'row' }],
        order: { column: 'select' }
      }),
      {
        data: [{ id: 1, 'na"me': 'it\'s "quoted"', r: 'row', select: 'x' }],
        pagination: { limit: 20, offset: 0, total: 1 }
      }
    )
    t.strictSame(await library.run({ table: 'we"ird', operation: 'select', id: 1, select: '"t""1":"na""me", t1:r' }), {
      't"1': 'it\'s "quoted"',
      t1: 'row'
    })
    t.strictSame(
      await library.run({ table: 'we"ird', operation: 'update', id: 1, select: 'r' }, {
        body: { r: '"; drop table "we""ird"; --', 'na"me': null }
      }),
      { r: '"; drop table "we""ird"; --' }
    )
    t.strictSame(
      await library.run({ table: 'we"ird', operation: 'insert' }, { body: { id: 2, 'na"me': "'; delete from seats; --", select: '$1' } }),
      { id: 2, 'na"me': "'; delete from seats; --", r: null, select: '$1' }
    )
  },

  'SQL in a value stays a value': async (t, library) => {
    const hostile = ["' or 1=1 --", "'; drop table articles; --", '$1', "\\'; select pg_sleep(10); --", '{{body.x}}', '%', '{"a":1}']
    for (const value of hostile) {
      t.strictSame(
        await library.column('title', { table: 'articles', operation: 'select', filters: [{ column: 'title', value: '{{query.q}}' }] }, {
          query: { q: value }
        }),
        [],
        value
      )
      t.strictSame(
        await library.column('title', {
          table: 'articles',
          operation: 'select',
          filters: [{ column: 'slug', operator: 'in', value: '{{query.q}}' }]
        }, { query: { q: [value, '"', '}'] } }),
        [],
        value
      )
      t.equal(
        await library.run({ table: 'articles', operation: 'select', single: true }, { tenant: scopeTenant(value) }),
        null,
        value
      )
    }
    t.equal((await library.sql('select from articles')).length, 5)
  },

  'types are returned as clients expect them': async (t, library) => {
    t.strictSame(await library.run({ table: 'articles', operation: 'select', id: uuid(11) }), {
      id: uuid(11),
      tenant_id: 'a',
      title: 'Alpha',
      status: 'draft',
      author_id: uuid(1),
      views: 10,
      rating: 1.5,
      tags: ['x', 'y'],
      meta: { kind: 'note', n: 1 },
      published_at: '2026-01-01T00:00:00+00:00',
      slug: 'alpha',
      featured: true,
      title_length: 5,
      deleted: false,
      deleted_at: null,
      mood: 'calm'
    })
  }
})
