import type { DocumentQuery, Filter } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { onEachEngine, refusalOf } from './database.js'

const notes = `
insert into tenantry.documents (tenant_id, collection, id, data) values
  ('a', 'notes', 'n1', '{"title": "Alpha", "age": 3, "tags": ["x", "y"], "owner": {"name": "Ada"}, "open": true}'),
  ('a', 'notes', 'n2', '{"title": "Beta", "age": 20, "tags": ["z"], "owner": {"name": "Ben"}, "open": false, "left": null}'),
  ('a', 'notes', 'n3', '{"title": "Gamma", "age": "3"}'),
  ('a', 'tasks', 'n1', '{"title": "A task"}'), ('b', 'notes', 'n1', '{"title": "Other"}'), ('', 'notes', 'n1', '{"title": "Of nobody"}');
`

onEachEngine(notes, {
  'documents belong to the tenant and to one collection': async (t, library) => {
    const get: DocumentQuery = { collection: 'notes', operation: 'get', docId: '{{params.id}}' }
    t.strictSame(await library.runDocument(get, { params: { id: 'n3' } }), { id: 'n3', title: 'Gamma', age: '3' })
    t.strictSame(await library.runDocument(get, { params: { id: 'n1' }, tenant: scopeTenant('b') }), { id: 'n1', title: 'Other' })
    t.strictSame(await library.runDocument(get, { params: { id: 'n1' }, tenant: null }), { id: 'n1', title: 'Of nobody' })
    t.equal(await library.runDocument(get, { params: { id: 'n9' } }), null)
    t.equal(await library.runDocument(get), null)
    t.strictSame(await library.runDocument({ collection: 'tasks', operation: 'query' }), {
      data: [{ id: 'n1', title: 'A task' }],
      pagination: { limit: 20, offset: 0, total: 1 }
    })
  },

  'filters compare by the type of the value': async (t, library) => {
    const find = async (filter: object, query: Record<string, unknown> = {}): Promise<unknown> => {
      const page: unknown = await library.runDocument({ collection: 'notes', operation: 'query', filters: [filter as Filter] }, { query })
      return JSON.stringify(page).match(/"id":\s*"n\d"/g)?.map((text) => text.slice(-3, -1)) ?? []
    }
    const cases: [object, string[]][] = [
      [{ column: 'age', value: 3 }, ['n1']],
      [{ column: 'age', value: '3' }, ['n3']],
      [{ column: 'age', operator: 'gt', value: 3 }, ['n2']],
      [{ column: 'age', operator: 'gte', value: 3 }, ['n1', 'n2']],
      [{ column: 'age', operator: 'lt', value: 20.5 }, ['n1', 'n2']],
      [{ column: 'title', operator: 'lte', value: 'Beta' }, ['n1', 'n2']],
      [{ column: 'title', operator: 'neq', value: 'Alpha' }, ['n2', 'n3']],
      [{ column: 'owner.name', value: 'Ada' }, ['n1']],
      [{ column: 'owner', value: { name: 'Ben' } }, ['n2']],
      [{ column: 'open', value: true }, ['n1']],
      [{ column: 'open', operator: 'is', value: false }, ['n2']],
      [{ column: 'left', operator: 'is', value: null }, ['n1', 'n2', 'n3']],
      [{ column: 'open', operator: 'is', value: 'unknown' }, ['n3']],
      [{ column: 'title', operator: 'like', value: '%a' }, ['n1', 'n2', 'n3']],
      [{ column: 'owner.name', operator: 'ilike', value: 'b%' }, ['n2']],
      [{ column: 'age', operator: 'in', value: [3, 20] }, ['n1', 'n2']],
      [{ column: 'title', operator: 'in', value: 'Alpha,Gamma' }, ['n1', 'n3']],
      [{ column: 'tags', operator: 'contains', value: ['x'] }, ['n1']],
      [{ column: 'tags', operator: 'contains', value: 'z' }, ['n2']],
      [{ column: 'owner', operator: 'contains', value: { name: 'Ada' } }, ['n1']],
      [{ column: 'tags', operator: 'overlaps', value: ['y', 'z'] }, ['n1', 'n2']],
      [{ column: 'id', operator: 'in', value: ['n1', 'n3'] }, ['n1', 'n3']],
      [{ not: { column: 'age', value: 3 } }, ['n2', 'n3']],
      [{ column: 'left', operator: 'neq', value: 5 }, []],
      [{ not: { column: 'left', operator: 'neq', value: 5 } }, []],
      [{ not: { column: 'age', operator: 'neq', value: 20 } }, ['n2']],
      [{ or: [{ column: 'id', value: 'n2' }, { column: 'title', value: 'Alpha' }] }, ['n1', 'n2']]
    ]
    for (const [filter, expected] of cases) t.strictSame(await find(filter), expected, JSON.stringify(filter))
    for (const operator of ['eq', 'neq', 'gt', 'like', 'is', 'in', 'contains', 'overlaps']) {
      t.strictSame(await find({ column: 'title', operator, value: '{{query.x}}' }), [], `${operator} nothing`)
      t.strictSame(await find({ not: { column: 'title', operator, value: '{{query.x}}' } }), [], `not ${operator} nothing`)
      t.strictSame(
        await find({ column: 'title', operator, value: '{{query.x}}', optional: true }),
        ['n1', 'n2', 'n3'],
        `optional ${operator}`
      )
    }
    for (const operator of ['eq', 'neq', 'gt', 'lte', 'like', 'is', 'in', 'contains', 'overlaps', 'array-contains', 'array-contains-any']) {
      for (const value of ['{{query.x}}', '{{body.x}}']) {
        t.strictSame(await find({ not: { column: 'left', operator, value } }), [], `not ${operator} nothing, of a field that is null: ${value}`)
      }
    }
    t.strictSame(await find({ column: 'left', operator: 'neq', value: '{{query.x}}' }, { x: '5' }), [])
    t.strictSame(await find({ not: { column: 'left', operator: 'neq', value: '{{query.x}}' } }, { x: '5' }), [])
    t.strictSame(await find({ not: { column: 'age', operator: 'neq', value: '{{query.x}}' } }, { x: '3' }), ['n1', 'n3'])
    const wrong = find({ column: 'title', operator: 'is', value: '{{query.x}}' }, { x: { toString: 1, valueOf: 1 } })
    t.match(await refusalOf(wrong), { status: 400, details: [{ path: '/query/x' }] }, 'an object that cannot become text')
    for (const x of ["'", '"', "') or true --", '\\', '{}']) {
      t.strictSame(await find({ column: 'title', value: '{{query.x}}' }, { x }), [], x)
    }
  },

  'a list loses each item with a part that has no value': async (t, library) => {
    await library.sql(`insert into tenantry.documents (tenant_id, collection, id, data) values
      ('a', 'lists', 'n1', '{"tags": [{}, ""], "owner": {}, "name": ""}'),
      ('a', 'lists', 'n2', '{"tags": [{"tag": "x"}, "x-y"], "owner": {"name": "x"}, "name": "x-y"}'),
      ('a', 'lists', 'n3', '{"tags": ["own"], "owner": "own", "name": "own"}')`)
    const find = async (filter: object, query: Record<string, unknown> = {}): Promise<unknown> => {
      const page: unknown = await library.runDocument({ collection: 'lists', operation: 'query', filters: [filter as Filter] }, { query })
      return JSON.stringify(page).match(/"id":\s*"n\d"/g)?.map((text) => text.slice(-3, -1)) ?? []
    }
    const cases: [column: string, operator: string, item: unknown][] = [
      ['tags', 'array-contains-any', { tag: '{{query.x}}' }],
      ['tags', 'overlaps', { tag: '{{query.x}}' }],
      ['tags', 'array-contains-any', '{{query.x}}-{{query.y}}'],
      ['owner', 'in', { name: '{{query.x}}' }],
      ['name', 'in', '{{query.x}}-{{query.y}}']
    ]
    for (const [column, operator, item] of cases) {
      const title = `${operator} ${column} ${JSON.stringify(item)}`
      t.strictSame(await find({ column, operator, value: [item] }), [], title)
      t.strictSame(await find({ not: { column, operator, value: [item] } }), [], `not ${title}`)
      t.strictSame(await find({ column, operator, value: [item], optional: true }), ['n1', 'n2', 'n3'], `optional ${title}`)
      t.strictSame(await find({ column, operator, value: [item, 'own'] }), ['n3'], `another item beside ${title}`)
      t.strictSame(await find({ column, operator, value: [item] }, { x: 'x', y: 'y' }), ['n2'], `${title} with values`)
    }
  },

  'a page is ordered by a field': async (t, library) => {
    const page = (more: object, query: Record<string, unknown> = {}): Promise<unknown> =>
      library.runDocument({ collection: 'notes', operation: 'query', ...more }, { query }, {
        excludeFields: ['tags', 'owner', 'open', 'left', 'title']
      })
    t.strictSame(await page({ order: { column: 'title', ascending: false }, limit: 2 }), {
      data: [{ id: 'n3', age: '3' }, { id: 'n2', age: 20 }],
      pagination: { limit: 2, offset: 0, total: 3 }
    })
    t.strictSame(await page({ order: [{ column: 'owner.name', nullsFirst: true }] }, { offset: 1, limit: 5 }), {
      data: [{ id: 'n1', age: 3 }, { id: 'n2', age: 20 }],
      pagination: { limit: 5, offset: 1, total: 3 }
    })
  },

  'writes create, replace, merge and delete': async (t, library) => {
    const created: unknown = await library.runDocument({ collection: 'notes', operation: 'create' }, {
      body: { title: 'New', deep: { a: [1] } }
    })
    t.match(created, { title: 'New', deep: { a: [1] }, id: /^[0-9a-f-]{36}$/ })
    t.strictSame(
      await library.runDocument({ collection: 'notes', operation: 'create', docId: '{{params.id}}' }, {
        params: { id: 'own' },
        body: { title: 'x' }
      }),
      { id: 'own', title: 'x' }
    )
    t.match(await refusalOf(library.runDocument({ collection: 'notes', operation: 'create', docId: 'own' }, { body: {} })), {
      code: 'TENANTRY_CONFLICT'
    })
    t.match(await library.runDocument({ collection: 'notes', operation: 'add' }, { body: [{ n: 1 }, { n: 2 }] }), {
      data: [{ n: 1 }, { n: 2 }]
    })
    t.strictSame(await library.runDocument({ collection: 'notes', operation: 'add' }, { body: [] }), { data: [] })
    const params = { id: 'own' }
    const [set, update]: DocumentQuery[] = [{ collection: 'notes', operation: 'set', docId: '{{params.id}}' }, {
      collection: 'notes',
      operation: 'update',
      docId: '{{params.id}}'
    }]
    t.strictSame(await library.runDocument(set!, { params, body: { a: 1, b: { c: 2 }, id: 'own' } }), { id: 'own', a: 1, b: { c: 2 } })
    t.strictSame(await library.runDocument(update!, { params, body: { b: { d: 3 }, e: null } }), { id: 'own', a: 1, b: { d: 3 }, e: null })
    t.equal(await library.runDocument(update!, { params: { id: 'none' }, body: {} }), null)
    t.strictSame(await library.runDocument(set!, { params: { id: 'n1' }, tenant: scopeTenant('c'), body: { mine: true } }), {
      id: 'n1',
      mine: true
    })
    const remove: DocumentQuery = { collection: 'notes', operation: 'delete', docId: '{{params.id}}' }
    t.strictSame(await library.runDocument(remove, { params }), { success: true })
    t.equal(await library.runDocument(remove, { params }), null)
    t.equal((await library.sql("select from tenantry.documents where id = 'n1'")).length, 5)
  },

  'excluded fields cannot be read or written without full access': async (t, library) => {
    const changes = { excludeFields: ['secret'] }
    const set: DocumentQuery = { collection: 'notes', operation: 'set', docId: 's' }
    t.strictSame(await library.runDocument(set, { body: { a: 1, secret: 2 } }, changes), { id: 's', a: 1 })
    t.strictSame(await library.sql("select data from tenantry.documents where id = 's'"), [{ data: { a: 1 } }])
    t.strictSame(await library.runDocument(set, { body: { a: 1, secret: 2 }, fullAccess: true }, changes), { id: 's', a: 1, secret: 2 })
    t.strictSame(await library.runDocument({ ...set, operation: 'get' }, {}, changes), { id: 's', a: 1 })
    t.strictSame(
      await library.runDocument({ ...set, data: { a: 3, secret: 'fixed', b: '{{body.secret}}', c: '{{body.c}}' } }, {
        body: { secret: 9, c: 4 }
      }, changes),
      { id: 's', a: 3, c: 4 }
    )
    t.strictSame(await library.sql("select data from tenantry.documents where id = 's'"), [{ data: { a: 3, c: 4, secret: 'fixed' } }])

    const whole: DocumentQuery = { ...set, data: { entry: '{{body}}', deep: { all: '{{body}}' }, note: 'of {{body}}' } }
    const seen = { b: 5 }
    const all = { b: 5, secret: 9 }
    await library.runDocument(whole, { body: all }, changes)
    t.strictSame(await library.sql("select data - 'secret' as data from tenantry.documents where id = 's'"), [
      { data: { entry: seen, deep: { all: seen }, note: 'of {"b":5}' } }
    ])
    await library.runDocument(whole, { body: all, fullAccess: true }, changes)
    t.strictSame(await library.sql("select data from tenantry.documents where id = 's'"), [
      { data: { entry: all, deep: { all }, note: 'of {"b":5,"secret":9}' } }
    ])
    const add: DocumentQuery = { collection: 'logs', operation: 'add', data: [{ entry: '{{body}}' }, { b: '{{body.secret}}' }] }
    await library.runDocument(add, { body: all }, changes)
    t.strictSame(await library.sql("select data from tenantry.documents where collection = 'logs' order by data"), [
      { data: {} },
      { data: { entry: seen } }
    ])
  },

  'set by a caller without full access keeps the excluded fields that it does not write': async (t, library) => {
    const changes = { excludeFields: ['secret', 'note'] }
    const set: DocumentQuery = { collection: 'notes', operation: 'set', docId: 's' }
    const stored = () => library.sql("select data from tenantry.documents where id = 's'")
    await library.runDocument(set, { body: { a: 1, secret: { deep: [2] } }, fullAccess: true }, changes)
    t.strictSame(await library.runDocument(set, { body: { b: 2, secret: 9 } }, changes), { id: 's', b: 2 })
    t.strictSame(await stored(), [{ data: { b: 2, secret: { deep: [2] } } }])
    await library.runDocument({ ...set, data: { c: 3, secret: 'fixed' } }, {}, changes)
    t.strictSame(await stored(), [{ data: { c: 3, secret: 'fixed' } }], 'a value of the route counts')
    await library.runDocument(set, { body: { d: 4 }, fullAccess: true }, changes)
    t.strictSame(await stored(), [{ data: { d: 4 } }], 'an administrator replaces all fields')
  }
})
