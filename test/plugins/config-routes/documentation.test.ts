/** The documentation of configured routes, on a running server. */
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { test } from 'tap'
import { schemaWithoutReferences } from '../../helpers/openapi.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { everyKind } from '../../http/document.js'

test('the documentation of all kinds of routes is valid OpenAPI 3.1 with bodies, responses, errors and tokens', async (t) => {
  const app = await testServer(t, everyKind)
  const document = (await app.inject('/doc')).json()
  const { valid, errors } = await new Validator().validate(document)
  t.ok(valid, JSON.stringify(errors))
  const { paths } = document
  const jsonOf = ({ content }: { content: { 'application/json': { schema: object } } }) =>
    schemaWithoutReferences(document, content['application/json'].schema)
  t.match(jsonOf(paths['/people'].post.requestBody), {
    anyOf: [{ properties: { name: { type: 'string' } }, required: ['name'] }, { type: 'array' }]
  })
  t.match(jsonOf(paths['/people'].post.responses['201']), { anyOf: [{ type: 'object' }, { properties: { data: { type: 'array' } } }] })
  t.match(jsonOf(paths['/short'].get.responses['200']), {
    properties: { data: { items: { properties: { title: { type: 'string' } } } }, pagination: {} }
  })
  t.match(jsonOf(paths['/computed'].get.responses['200']), { properties: { data: { items: { properties: { shout: {}, title: {} } } } } })
  t.match(jsonOf(paths['/echo/{word}'].get.responses['200']), { properties: { word: {}, text: {} } })
  t.strictSame(paths['/people'].get.security, [{}, { bearer: [] }, { apiKey: [] }])
  t.strictSame(paths['/mine'].get.security, [{ bearer: [] }, { apiKey: [] }])
  t.match(paths['/people'].post.responses, { 413: {}, 415: {}, 503: {} })
  t.match(paths['/mine'].get.responses, { 503: {} })
})

test('the documentation follows the tables of the database', async (t) => {
  const database = await postgresDatabase(t, { sql: 'create table notes (id integer primary key, title text)' })
  const app = await testServer(t, {
    routes: [
      { method: 'get', path: '/notes', queries: [{ table: 'notes', operation: 'select' }] },
      { method: 'get', path: '/titles', queries: [{ table: 'notes', operation: 'select', select: 'title' }] }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString: database.connectionString } } })
  const fieldsOf = async (path: string) => {
    const document = (await app.inject('/doc')).json()
    const schema = schemaWithoutReferences(document, document.paths[path].get.responses['200'].content['application/json'].schema)
    return Object.keys(Object(schema).properties.data.items.properties)
  }
  t.strictSame(await fieldsOf('/notes'), ['id', 'title'])
  await database.query('alter table notes add column colour text, drop column title')
  await app.engine.refresh()
  t.strictSame(await fieldsOf('/notes'), ['id', 'colour'])
  t.strictSame(await fieldsOf('/titles'), ['title'], 'a route that no longer matches its tables stays as it was')
  t.match((await app.inject('/titles')).json(), { code: 'TENANTRY_SCHEMA_CHANGED' })
  await database.query('alter table notes add column title integer')
  await app.engine.refresh()
  t.strictSame(await fieldsOf('/notes'), ['id', 'colour', 'title'])
  t.equal((await app.inject('/titles')).statusCode, 200)
})

test('the documentation has the types of aggregates, of values in JSON columns and of embeds', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql:
      "create type size as enum ('s', 'l'); create table items (id integer primary key, kind text not null, qty integer, price numeric, size size, data jsonb, made date); create table parts (id integer primary key, item_id integer not null references items, name text not null)"
  })
  const app = await testServer(t, {
    routes: [
      {
        method: 'get',
        path: '/stock',
        queries: [{
          table: 'items',
          operation: 'select',
          select: 'kind, qty.sum(), mean:qty.avg(), value:price.sum(), largest:size.max(), last:made.max(), priced:price.count(), count()'
        }]
      },
      { method: 'get', path: '/colours', queries: [{ table: 'items', operation: 'select', select: "id, data->>'colour', data->'parts'" }] },
      {
        method: 'get',
        path: '/parts',
        queries: [{ table: 'parts', operation: 'select', select: 'id, items!inner(kind), item:items(id)' }]
      },
      {
        method: 'get',
        path: '/assemblies',
        queries: [{
          table: 'items',
          operation: 'select',
          select: 'id, parts(name)',
          embeds: { parts: { filters: [{ column: 'name', value: '{{query.part}}' }], limit: '{{query.parts}}' } }
        }]
      }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } } })
  const document = (await app.inject('/doc')).json()
  const recordOf = (path: string) =>
    Object(schemaWithoutReferences(document, document.paths[path].get.responses['200'].content['application/json'].schema)).properties.data
      .items
  t.match(document.components.schemas, { ItemsGroup: {}, ItemsGroupPage: {}, ItemsRow: {} })
  t.strictSame(recordOf('/stock'), {
    type: 'object',
    properties: {
      kind: { type: 'string' },
      sum: { type: ['integer', 'null'] },
      mean: { type: ['number', 'null'] },
      value: { type: ['number', 'null'] },
      largest: { type: ['string', 'null'], enum: ['s', 'l', null] },
      last: { type: ['string', 'null'], format: 'date' },
      priced: { type: 'integer' },
      count: { type: 'integer' }
    },
    required: ['kind', 'sum', 'mean', 'value', 'largest', 'last', 'priced', 'count']
  })
  t.strictSame(recordOf('/parts').properties.items.type, 'object', 'an inner embed is never null')
  t.strictSame(recordOf('/parts').properties.item.type, ['object', 'null'])
  t.strictSame(document.paths['/assemblies'].get.parameters.flatMap(({ name = '' }) => name.startsWith('part') ? [name] : []).sort(), [
    'part',
    'parts'
  ])
  t.strictSame(recordOf('/colours'), {
    type: 'object',
    properties: { id: { type: 'integer' }, colour: { type: ['string', 'null'] }, parts: {} },
    required: ['id', 'colour', 'parts']
  })
})

test('the documentation of array columns has their null items, and lists within lists only for several dimensions', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql:
      "create type size as enum ('s', 'l'); create table boards (id integer primary key, tags text[], sizes size[], cells integer[][], short varchar(3)[])"
  })
  const app = await testServer(t, {
    routes: [
      { method: 'get', path: '/boards', queries: [{ table: 'boards', operation: 'select' }] },
      { method: 'post', path: '/boards', queries: [{ table: 'boards', operation: 'insert' }] },
      {
        method: 'put',
        path: '/boards/:id',
        request: { body: { tags: { type: 'array' } } },
        queries: [{ table: 'boards', operation: 'update', id: '{{params.id}}', data: { tags: '{{body.tags}}' } }]
      }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } } })
  const document = (await app.inject('/doc')).json()
  const { get, post } = document.paths['/boards']
  const valid = (schema: unknown, value: unknown) =>
    new Ajv2020({ strict: false }).validate(Object(schemaWithoutReferences(document, schema)), value)
  const bodySchema = post.requestBody.content['application/json'].schema
  const add = async (payload: object) => await app.inject({ method: 'POST', url: '/boards', payload })

  const row = { id: 1, tags: ['x', null], sizes: ['s', null], cells: [[1, null], [3, 4]], short: [null] }
  for (const body of [row, [{ ...row, id: 2 }], { id: 3, cells: [7] }]) {
    const response = await add(body)
    t.equal(response.statusCode, 201, response.body)
    t.ok(valid(bodySchema, body), 'the body is documented')
    t.ok(valid(post.responses['201'].content['application/json'].schema, response.json()), `the response is documented: ${response.body}`)
  }
  const { data } = (await app.inject('/boards')).json()
  t.match(data[0], row)
  t.ok(valid(get.responses['200'].content['application/json'].schema, { data, pagination: { limit: 20, offset: 0, total: 3 } }))

  for (const [name, value] of [['tags', [['a'], ['b']]], ['sizes', [['s']]], ['short', [['a'], ['b']]]] as const) {
    for (const body of [{ id: 4, [name]: value }, [{ id: 4, [name]: value }]]) {
      const refused = await add(body)
      t.equal(refused.statusCode, 400, name)
      t.match(refused.json().details, [{ message: /must be an array .*without arrays in it/, keyword: 'type' }])
      t.notOk(valid(bodySchema, body), name)
    }
  }
  const changed = await app.inject({ method: 'PUT', url: '/boards/1', payload: { tags: [['a']] } })
  t.equal(changed.statusCode, 400)
  t.match(changed.json(), { details: [{ path: '/body/tags', message: /without arrays in it/ }] })
  t.match((await add({ id: 4, short: ['long'] })).json().details, [{ message: /at most 3 characters/, keyword: 'maxLength' }])
})

test('the documentation has the JSON of composite types, domains, and types with a cast to JSON', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create type address as (street text, no integer);
create domain posint as integer check (value > 0);
create domain small as posint not null check (value < 100);
create domain attributes as jsonb;
create type pair;
create function pair_in (cstring) returns pair immutable strict language internal as 'textin';
create function pair_out (pair) returns cstring immutable strict language internal as 'textout';
create type pair (input = pair_in, output = pair_out, like = text);
create function pair_json (pair) returns json immutable strict language sql as 'select json_build_object(''pair'', split_part(textin(pair_out($1)), ''='', 2))';
create cast (pair as json) with function pair_json (pair);
create table odd (id integer primary key, home address, homes address[], doms posint[] default '{1,null}', small small default 7, extra attributes[], pair pair, top posint);
create function a_domain () returns posint immutable language sql as 'select 3::posint';
create function domains () returns setof posint immutable language sql as 'select 3::posint';
create function rows_of_domains () returns table (a posint, b posint[], home address) immutable language sql as $$select 3::posint, '{4}'::posint[], row('a', 1)::address$$;
create function odds () returns setof odd stable language sql as 'select * from odd';
create function an_address () returns address immutable language sql as $$select row('a', 1)::address$$;`
  })
  const functions = ['a_domain', 'domains', 'rows_of_domains', 'odds', 'an_address']
  const app = await testServer(t, {
    functions: Object.fromEntries(functions.map((name) => [name, { tenantScoped: false, tables: name === 'odds' ? ['odd'] : [] }])),
    routes: [
      { method: 'get', path: '/odd', queries: [{ table: 'odd', operation: 'select' }] },
      { method: 'get', path: '/most', queries: [{ table: 'odd', operation: 'select', select: 'doms.max(), top:top.max()' }] },
      {
        method: 'get',
        path: '/with/:dom',
        queries: [{ table: 'odd', operation: 'select', filters: [{ column: 'doms', operator: 'contains', value: '{{params.dom}}' }] }]
      },
      { method: 'post', path: '/odd', queries: [{ table: 'odd', operation: 'insert' }] },
      ...functions.map((name) => ({ method: 'get' as const, path: `/${name}`, queries: [{ operation: 'call' as const, function: name }] }))
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } } })
  const document = (await app.inject('/doc')).json()
  const valid = (schema: unknown, value: unknown) =>
    new Ajv2020({ strict: false }).validate(Object(schemaWithoutReferences(document, schema)), value)
  const { post } = document.paths['/odd']
  const bodySchema = post.requestBody.content['application/json'].schema

  const one = { id: 1, home: '(a,1)', homes: ['(b,2)', null], doms: [1, null], small: 8, extra: [{ a: [1] }, [2]], pair: 'a=b', top: 5 }
  for (const body of [one, [{ ...one, id: 2 }]]) {
    const response = await app.inject({ method: 'POST', url: '/odd', payload: body })
    t.equal(response.statusCode, 201, response.body)
    t.ok(valid(bodySchema, body), 'the body is documented')
    t.ok(valid(post.responses['201'].content['application/json'].schema, response.json()), response.body)
  }
  for (const wrong of [{ doms: ['1'] }, { doms: [1.5] }, { home: { street: 'a' } }, { homes: [{ street: 'a' }] }, { small: 'x' }]) {
    const body = { ...one, id: 3, ...wrong }
    t.equal((await app.inject({ method: 'POST', url: '/odd', payload: body })).statusCode, 400, JSON.stringify(wrong))
    t.notOk(valid(bodySchema, body), JSON.stringify(wrong))
  }
  const shown = { ...one, home: { street: 'a', no: 1 }, homes: [{ street: 'b', no: 2 }, null], pair: { pair: 'b' } }
  t.match((await app.inject('/odd')).json(), { data: [shown, { ...shown, id: 2 }] })
  t.match((await app.inject('/with/1')).json(), { data: [{ id: 1 }, { id: 2 }] })
  for (const path of ['/odd', '/most', ...functions.map((name) => `/${name}`)]) {
    const response = await app.inject(path)
    t.equal(response.statusCode, 200, response.body)
    t.ok(valid(document.paths[path].get.responses['200'].content['application/json'].schema, response.json()), `${path} ${response.body}`)
  }
  const { properties } = Object(schemaWithoutReferences(document, document.components.schemas.OddRow))
  t.match(properties, { doms: { items: { type: ['integer', 'null'] } }, small: { type: 'integer' }, top: { type: ['integer', 'null'] } })
  t.strictSame([properties.home, properties.homes.items, properties.pair], [{}, {}, {}])
})

test('the documentation of documents has no id if the route excludes it', async (t) => {
  const app = await testServer(t, {
    routes: [
      { method: 'post', path: '/notes', excludeFields: ['id'], firebaseQueries: [{ collection: 'notes', operation: 'add' }] },
      { method: 'get', path: '/notes', firebaseQueries: [{ collection: 'notes', operation: 'query', excludeFields: ['id'] }] },
      { method: 'get', path: '/whole', firebaseQueries: [{ collection: 'notes', operation: 'query', select: 'a' }] }
    ]
  })
  const document = (await app.inject('/doc')).json()
  const schemaOf = (path: string, method: 'get' | 'post', status: number) =>
    Object(schemaWithoutReferences(document, document.paths[path][method].responses[status].content['application/json'].schema))
  for (const payload of [{ a: 1 }, [{ a: 2 }]]) {
    const added = await app.inject({ method: 'POST', url: '/notes', payload })
    t.equal(added.statusCode, 201)
    t.notMatch(added.body, /"id"/)
    t.ok(new Ajv2020({ strict: false }).validate(schemaOf('/notes', 'post', 201), added.json()), added.body)
  }
  const listed = (await app.inject('/notes')).json()
  t.strictSame(listed.data.map((note: object) => Object.keys(note)), [['a'], ['a']])
  t.ok(new Ajv2020({ strict: false }).validate(schemaOf('/notes', 'get', 200), listed))
  t.match(schemaOf('/whole', 'get', 200).properties.data.items, { properties: { id: { type: 'string' } }, required: ['id'] })
})

test('array columns of tables that are made from others take lists within lists, as documented', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create table boards (id integer primary key, cells integer[][], tags text[]); create table liked (like boards including all);
      create table made as select * from boards; create view seen as select id, tags from boards;
      create view drawn as select id, cells as squares, tags from boards; insert into boards values (1, '{{1,2},{3,4}}', '{a}')`
  })
  const app = await testServer(t, {
    routes: [
      { method: 'post', path: '/liked', queries: [{ table: 'liked', operation: 'insert' }] },
      { method: 'post', path: '/made', queries: [{ table: 'made', operation: 'insert' }] },
      { method: 'get', path: '/seen', queries: [{ table: 'seen', operation: 'select' }] },
      { method: 'get', path: '/drawn', queries: [{ table: 'drawn', operation: 'select' }] }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString } } })
  const document = (await app.inject('/doc')).json()
  const isValid = (schema: unknown, value: unknown) =>
    new Ajv2020({ strict: false }).validate(Object(schemaWithoutReferences(document, schema)), value)
  for (const url of ['/liked', '/made']) {
    const payload = { id: 1, cells: [[1, 2], [3, 4]], tags: ['a'] }
    const response = await app.inject({ method: 'POST', url, payload })
    t.equal(response.statusCode, 201, response.body)
    t.match(response.json(), payload)
    const { requestBody, responses } = document.paths[url].post
    t.ok(isValid(requestBody.content['application/json'].schema, payload), 'the body is documented')
    t.ok(isValid(responses['201'].content['application/json'].schema, response.json()), 'the response is documented')
  }
  const shown = document.paths['/seen'].get.responses['200'].content['application/json'].schema
  const drawn = (await app.inject('/drawn')).json()
  t.match(drawn.data, [{ id: 1, squares: [[1, 2], [3, 4]], tags: ['a'] }])
  const shownDrawn = document.paths['/drawn'].get.responses['200'].content['application/json'].schema
  t.ok(isValid(shownDrawn, drawn), 'a view may show a column of several dimensions')
  t.notOk(isValid(shownDrawn, { ...drawn, data: [{ ...drawn.data[0], tags: [1] }] }), 'and documents the type of other items')
  const page = (tags: unknown) => ({ data: [{ id: 1, tags }], pagination: { limit: 20, offset: 0, total: 1 } })
  t.ok(isValid(shown, page(['a'])))
  t.notOk(isValid(shown, page([1])), 'a view documents the type of the items')
})
