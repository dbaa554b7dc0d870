import { test } from 'tap'
import type { Filter, Query } from '../../../lib/schema/query.js'
import type { Field, Route } from '../../../lib/schema/route.js'
import { compile, faultsOf } from '../compiler/routes.js'

const tenant = { origin: 'tenant' } as const
const many = <Item>(length: number, item: (index: number) => Item): Item[] => Array.from({ length }, (_, index) => item(index))
const select: Query = { table: 'articles', operation: 'select' }
const route = (...queries: Query[]): Route => ({ path: '/x', method: 'post', queries })
const filter = (value: unknown = 'x'): Filter => ({ column: 'title', value })

test("a tenant's route has bounds, and a fault reports each; the platform's route has none", async (t) => {
  const fields = (count: number): Record<string, Field> => Object.fromEntries(many(count, (index) => [`f${index}`, { type: 'string' }]))
  const texts = (count: number, text: string): Record<string, string> => Object.fromEntries(many(count, (index) => [`f${index}`, text]))
  const over: [name: string, at: (extra: number) => Route, fault: RegExp][] = [
    [
      'queries',
      (extra) => route(...many(20 + extra, (index) => ({ ...select, alias: `q${index}` }))),
      /queries.*: at most 20, got 21/
    ],
    [
      'filters of a query',
      (extra) => route({ ...select, filters: [{ or: many(49, () => filter()) }, { not: { and: many(48 + extra, () => filter()) } }] }),
      /filters.*: at most 100, got 101/
    ],
    [
      'filters of a route',
      (extra) =>
        route(
          ...many(3, (index) => ({ ...select, alias: `q${index}`, filters: many(100, () => filter()) })),
          ...extra > 0 ? [{ ...select, filters: [filter()] }] : []
        ),
      /filters.*: at most 300, got 301/
    ],
    [
      'listed values',
      (extra) => route({ ...select, filters: [{ column: 'title', operator: 'in', value: many(1000 + extra, String) }] }),
      /values in a filter: at most 1000, got 1001/
    ],
    [
      'listed text',
      (extra) => route({ ...select, filters: [{ column: 'title', operator: 'in', value: many(1000 + extra, String).join() }] }),
      /values in a filter: at most 1000, got 1001/
    ],
    [
      'select text',
      (extra) => route({ ...select, select: `id, title${' '.repeat(1991 + extra)}` }),
      /characters.*: at most 2000, got 2001/
    ],
    [
      'embeds',
      (extra) => route({ ...select, select: ['id', ...many(10 + extra, (index) => `r${index}:reviews(count)`)].join() }),
      /embedded tables.*: at most 10, got 11/
    ],
    [
      'columns',
      (extra) => route({ ...select, select: [...many(97 + extra, () => 'title'), 'id', 'reviews(id)'].join() }),
      /columns and tables.*: at most 100, got 101/
    ],
    [
      'names of one column',
      (extra) => route({ ...select, select: ['title', 'b:title', ...many(extra, () => 'c:title')].join() }),
      /names for one column.*: at most 2, got 3/
    ],
    [
      'names of one aggregate',
      (extra) =>
        route({ ...select, select: ['sum:views.sum()', 'b:views.sum()', 'views.max()', ...many(extra, () => 'c:views.sum()')].join() }),
      /names for one column.*: at most 2, got 3/
    ],
    [
      'filters of embeds',
      (extra) =>
        route({
          ...select,
          select: 'reviews(*)',
          filters: many(50, () => filter()),
          embeds: { reviews: { filters: many(50 + extra, () => ({ column: 'note', value: 'x' })) } }
        }),
      /filters.*: at most 100, got 101/
    ],
    [
      'order of an embed',
      (extra) => route({ ...select, select: 'reviews(*)', embeds: { reviews: { order: many(20 + extra, () => ({ column: 'note' })) } } }),
      /keys.*: at most 20, got 21/
    ],
    [
      'paths in one column',
      (extra) => route({ ...select, select: many(20 + extra, (index) => `meta->'k${index}'`).join() }),
      /paths in one column.*: at most 20, got 21/
    ],
    [
      'names of one column in an embed',
      (extra) => route({ ...select, select: `id, reviews(*, a:id${extra > 0 ? ', b:id' : ''})` }),
      /names for one column.*: at most 2, got 3/
    ],
    ['order', (extra) => route({ ...select, order: many(20 + extra, () => ({ column: 'title' })) }), /keys.*: at most 20, got 21/],
    [
      'computed fields',
      (extra) => ({
        ...route(select),
        transform: { fields: texts(50, '1'), operations: [{ type: 'compute', fields: texts(50 + extra, '2') }] }
      }),
      /fields.*: at most 100, got 101/
    ],
    [
      'an expression',
      (extra) => ({ ...route(select), transform: { fields: { a: `'${'x'.repeat(1998 + extra)}'` } } }),
      /characters.*: at most 2000, got 2001/
    ],
    [
      'expressions',
      (extra) => ({ ...route(select), transform: { fields: { a: `'${'x'.repeat(1998)}'`, b: `'${'x'.repeat(998 + extra)}'` } } }),
      /characters in the expressions.*: at most 3000, got 3001/
    ],
    [
      'request fields',
      (extra) => ({ ...route(select), request: { query: fields(50), body: { a: { type: 'object', properties: fields(449 + extra) } } } }),
      /fields.*: at most 500, got 501/
    ],
    [
      'query fields',
      (extra) => ({ ...route(select), request: { query: fields(50 + extra) } }),
      /fields in the query string.*: at most 50, got 51/
    ],
    [
      'enum values',
      (extra) => ({ ...route(select), request: { body: { a: { type: 'string', enum: many(1000 + extra, String) } } } }),
      /values in the enums.*: at most 1000, got 1001/
    ],
    [
      'names of a query',
      (extra) => route({ ...select, excludeFields: many(200 + extra, () => 'title') }),
      /names.*: at most 200, got 201/
    ],
    [
      'names of a cache',
      (extra) => ({ ...route(select), method: 'get', cache: { enabled: true, varyBy: many(200 + extra, () => 'query.a') } }),
      /names.*: at most 200, got 201/
    ]
  ]
  for (const [name, at, fault] of over) {
    t.strictSame(faultsOf(at(0), tenant), [], `${name} at the bound`)
    const [first, ...more] = faultsOf(at(1), tenant)
    t.match(first, fault, name)
    t.strictSame(more, [])
    t.strictSame(faultsOf(at(1)), [], `${name} of the platform`)
  }
})

test('a hostile route is rejected before any of it is compiled', async (t) => {
  let deep: unknown = 'x'
  for (let depth = 0; depth < 5000; depth++) deep = [deep]
  t.match(faultsOf({ ...route(select), response: deep }, tenant), [/nested at most 32 levels deep/])
  let filters: Filter = filter()
  for (let depth = 0; depth < 2000; depth++) filters = { not: filters }
  t.match(faultsOf(route({ ...select, filters: [filters] }), tenant), [/filters.*: at most 100/, /filters.*: at most 300/])
})

test("a route's bounds are checked when it is saved, not at each compilation", async (t) => {
  const large = route({ ...select, filters: many(101, () => filter()) })
  t.match(faultsOf(large, tenant), [/filters.*: at most 100/])
  t.strictSame(faultsOf(large, { ...tenant, checked: true }), [])
  t.match(
    faultsOf(route({ ...select, table: 'articels' }), { ...tenant, checked: true }),
    [/no table "articels"/],
    'the tables are still checked'
  )
})

test('of a thousand faults the first fifty are reported', async (t) => {
  const wrong = route(
    ...many(
      20,
      (index): Query => ({
        ...select,
        alias: `q${index}`,
        filters: many(15, (place) => ({ column: `titel_${place}`, value: '{{bdy.x}}' }))
      })
    )
  )
  t.equal(faultsOf(wrong, tenant).length, 50)
})

test('one compilation reports every fault of a route once', async (t) => {
  const wrong: Route = {
    path: '/x/:id',
    method: 'get',
    request: { body: { a: { type: 'string' } }, params: { idd: { type: 'string' } } },
    queries: [
      { table: 'articels', operation: 'select', filters: [{ column: 'a', value: '{{bdy.a}}' }], limit: '{{bdy.b}}' },
      {
        table: 'articles',
        operation: 'select',
        alias: 'b',
        filters: [{ column: 'titel', value: '{{bdy.c}}' }],
        limit: '{{bdy.d}}',
        offset: '{{bdy.e}}'
      },
      { table: 'articles', operation: 'insert', alias: 'c', data: { titel: '{{bdy.f}}', title_length: '{{bdy.g}}', title: '{{bdy.h}}' } },
      {
        table: 'articles',
        operation: 'upsert',
        alias: 'd',
        filters: [{ column: 'titel', value: '{{bdy.i}}' }],
        data: { title: '{{bdy.j}}' }
      },
      { table: 'articles', operation: 'update', alias: 'e', id: '{{bdy.k}}', data: { title: '{{bdy.l}}' } }
    ],
    firebaseQueries: [{ collection: 'f', operation: 'set', docId: '{{bdy.m}}', data: { a: '{{bdy.n}}' } }],
    transform: { fields: {} },
    response: { a: '{{bdy.o}}' },
    cache: { enabled: true, varyBy: ['bdy.p'] }
  }
  const faults = faultsOf(wrong, tenant)
  for (const letter of 'abcdefghijklmnop') t.equal(faults.filter((fault) => fault.includes(`\`bdy.${letter}\``)).length, 1, letter)
  for (
    const fault of [
      /a `get` request cannot have a body/,
      /does not compute anything/,
      /no parameter with this name/,
      /no table "articels"/,
      /title_length.*generated/
    ]
  ) t.equal(faults.filter((each) => fault.test(each)).length, 1, String(fault))
  t.equal(faults.filter((each) => each.includes('has no column "titel"')).length, 3)
  t.equal(new Set(faults).size, faults.length)
  t.equal(faults.length, 25)
  t.match(faultsOf({ path: '/x', method: 'get', response: { a: 1 }, transform: { fields: { a: '1' } } }, tenant), [
    /nothing to compute from/
  ])
})

test('a route at its bounds compiles', async (t) => {
  t.ok(compile(route(...many(20, (index) => ({ ...select, alias: `q${index}`, filters: many(15, () => filter('{{body.x}}')) }))), tenant))
})
