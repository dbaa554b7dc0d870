/** Routes that call SQL functions, over HTTP. */
import { type Test, test } from 'tap'
import { ConfigError, formatFault } from '../../../lib/schema/faults.js'
import { schemaWithoutReferences } from '../../helpers/openapi.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'

type Routes = NonNullable<TestDocument['routes']>
type Step = NonNullable<NonNullable<TestDocument['workflows']>[number]['steps']>[number]
type Functions = NonNullable<TestDocument['functions']>

const tables = {
  items: {
    tenantScoped: true,
    columns: { id: { type: 'integer', primaryKey: true }, name: { type: 'text' }, stock: { type: 'integer' }, cost: { type: 'numeric' } }
  }
} as const satisfies TestDocument['tables']

const sql = `
create table items (id integer not null, tenant_id text not null, name text, stock integer, cost numeric, primary key (tenant_id, id));
create type size as (width integer, height integer);
create function stock_of (wanted integer) returns bigint stable language sql as 'select sum(stock) from items where id = wanted';
create function item (wanted integer) returns items stable language sql as 'select * from items where id = wanted';
create function low (below integer default 5, named text default null) returns setof items stable language sql as 'select * from items where stock < below and (named is null or name = named) order by id';
create function names (prefix text) returns setof text stable language sql as 'select name from items where name like prefix || ''%'' order by name';
create function totals () returns table (name text, total numeric) stable language sql as 'select name, stock * cost from items order by id';
create function sum_up ("values" integer[], extra jsonb, at timestamptz, ratio numeric) returns jsonb immutable language sql as 'select jsonb_build_object(''sum'', (select sum(v) from unnest("values") v), ''extra'', extra, ''at'', at, ''ratio'', ratio)';
create function square (side integer) returns size immutable language sql as 'select row(side, side)::size';
create function restock (wanted integer, amount integer) returns void language plpgsql as $$
begin
  if amount < 0 then raise exception 'secret reason %', amount; end if;
  if amount = 0 then raise exception 'The amount must be more than 0' using errcode = 'TN001'; end if;
  update items set stock = stock + amount where id = wanted;
end $$;
create function slow () returns integer stable language sql as 'select 1 from pg_sleep(30)';
create function divide (a integer, b integer) returns integer immutable language sql as 'select a / b';
create function of_tenant (tenant text, wanted integer) returns bigint stable language sql as 'select stock from items where tenant_id = tenant and id = wanted';
create function writes_in_secret () returns integer stable language plpgsql as $$ begin delete from items; return 1; end $$;
create function definer () returns integer stable security definer language sql as 'select 1';
create function over (a integer) returns integer immutable language sql as 'select a';
create function over (a integer, b integer default 1) returns integer immutable language sql as 'select a';
create function rows_of (a integer) returns setof record immutable language sql as 'select a, a';
`

const call = (name: string, more: object = {}): NonNullable<Routes[number]['queries']> => [{ operation: 'call', function: name, ...more }]

const functions: Functions = {
  stock_of: { arguments: { wanted: 'integer' }, returns: 'bigint' },
  item: { arguments: { wanted: 'int' }, returns: 'items' },
  low: { arguments: { below: 'integer', named: 'text' }, returns: 'setof items', tenants: true },
  names: { arguments: { prefix: 'text' } },
  totals: { returns: 'TABLE(name text, total numeric)' },
  sum_up: { arguments: { values: 'integer[]', extra: 'jsonb', at: 'timestamptz', ratio: 'numeric' }, tenantScoped: false },
  square: { arguments: { side: 'integer' }, tenantScoped: false },
  restock: { arguments: { wanted: 'integer', amount: 'integer' }, returns: 'void' },
  slow: {},
  divide: { arguments: { a: 'integer', b: 'integer' }, tenantScoped: false },
  writes_in_secret: {}
}

const wanted = '{{params.id}}'

const routes: Routes = [
  { method: 'post', path: '/items', queries: [{ table: 'items', operation: 'insert' }] },
  { method: 'get', path: '/stock/:id', cache: { enabled: true }, queries: call('stock_of', { arguments: { wanted } }) },
  { method: 'get', path: '/items/:id', excludeFields: ['cost'], queries: call('item', { arguments: { wanted } }) },
  {
    method: 'get',
    path: '/low',
    excludeFields: ['cost'],
    queries: call('low', { alias: 'few', arguments: { below: '{{query.below}}', named: '{{query.named}}' } })
  },
  { method: 'get', path: '/first', queries: call('low', { single: true, arguments: { below: 100 } }) },
  {
    method: 'get',
    path: '/names',
    queries: call('names', { arguments: { prefix: '{{query.prefix}}' } }),
    response: { all: '{{results.names.data}}' }
  },
  { method: 'get', path: '/totals', queries: call('totals') },
  {
    method: 'post',
    path: '/sum',
    queries: call('sum_up', {
      arguments: { values: '{{body.values}}', extra: '{{body.extra}}', at: '{{body.at}}', ratio: '{{body.ratio}}' }
    })
  },
  { method: 'get', path: '/square', queries: call('square', { arguments: { side: '{{query.side}}' } }) },
  { method: 'post', path: '/items/:id/restock', queries: call('restock', { arguments: { wanted, amount: '{{body.amount}}' } }) },
  {
    method: 'post',
    path: '/items/:id/restock-and-read',
    queries: [...call('restock', { arguments: { wanted, amount: '{{body.amount}}' } }), { table: 'items', operation: 'select', id: wanted }]
  },
  { method: 'get', path: '/slow', queries: call('slow') },
  { method: 'get', path: '/divide', queries: call('divide', { arguments: { a: 1, b: '{{query.b}}' } }) },
  { method: 'get', path: '/secretly', queries: call('writes_in_secret') }
]

async function database (t: Test) {
  return postgresDatabase(t, { role: 'owner', sql })
}

test('calls of SQL functions', async (t) => {
  const { connectionString } = await database(t)
  const postgres = { connectionString, rowLevelSecurity: true, pool: { statementTimeoutMs: 1000 } }
  const app = await testServer(t, {
    databaseProvider: 'postgres',
    postgres,
    tables,
    functions,
    routes,
    cache: { enabled: true, provider: 'memory' }
  }, { engine: { provider: 'postgres', postgres }, tenants: ['acme', 'globex'] })
  const ask = async (
    url: string,
    { tenant = 'acme', ...options }: { tenant?: string, method?: 'POST', payload?: object, headers?: object } = {}
  ) => {
    const { statusCode, body, headers } = await app.inject({ url, ...options, headers: { 'x-tenant-id': tenant, ...options.headers } })
    return { status: statusCode, body: JSON.parse(body), cache: headers['x-cache'] }
  }
  for (const [tenant, stock] of [['acme', 3], ['globex', 900]] as const) {
    await ask('/items', {
      method: 'POST',
      tenant,
      payload: [{ id: 1, name: 'nut', stock, cost: '0.1' }, { id: 2, name: 'bolt', stock: stock + 1, cost: 2 }, {
        id: 3,
        name: 'nail',
        stock: stock + 50,
        cost: 1
      }]
    })
  }

  await t.test('a function returns a value, a row, rows, or nothing', async (t) => {
    t.strictSame((await ask('/stock/1')).body, { result: 3 })
    t.strictSame((await ask('/stock/9')).body, { result: null })
    t.strictSame((await ask('/items/1')).body, { id: 1, tenant_id: 'acme', name: 'nut', stock: 3 })
    t.match(await ask('/items/9'), { status: 404 })
    t.strictSame((await ask('/low')).body, {
      data: [{ id: 1, tenant_id: 'acme', name: 'nut', stock: 3 }, { id: 2, tenant_id: 'acme', name: 'bolt', stock: 4 }],
      pagination: { limit: 20, offset: 0, total: 2 }
    })
    t.strictSame((await ask('/first')).body.id, 1)
    t.strictSame((await ask('/names?prefix=n')).body, { all: [{ value: 'nail' }, { value: 'nut' }] })
    t.strictSame((await ask('/totals')).body.data[0], { name: 'nut', total: 0.3 })
    t.strictSame((await ask('/square?side=3')).body, { width: 3, height: 3 })
    t.match(await ask('/items/1/restock', { method: 'POST', payload: { amount: 1 } }), { status: 200, body: { success: true } })
    t.strictSame((await ask('/items/1')).body.stock, 4)
    t.match(await ask('/items/1/restock-and-read', { method: 'POST', payload: { amount: 1 } }), {
      body: { restock: { success: true }, items: { stock: 5 } }
    })
  })

  await t.test('rows are paginated', async (t) => {
    t.match((await ask('/low?below=1000&limit=2&offset=1')).body, {
      data: [{ id: 2 }, { id: 3 }],
      pagination: { limit: 2, offset: 1, total: 3 }
    })
    t.match((await ask('/low?below=1000&offset=7')).body, { data: { length: 0 }, pagination: { total: 3 } })
    t.match((await ask('/low?below=1000&named=nail')).body, { data: [{ id: 3 }], pagination: { total: 1 } })
  })

  await t.test("a function sees only the rows of the request's tenant", async (t) => {
    t.strictSame((await ask('/stock/2', { tenant: 'globex' })).body, { result: 901 })
    t.strictSame((await ask('/low?below=10', { tenant: 'globex' })).body.data, [])
    await ask('/items/2/restock', { method: 'POST', tenant: 'globex', payload: { amount: 1 } })
    t.strictSame((await ask('/stock/2')).body, { result: 4 })
    t.match(await app.inject({ url: '/totals' }).then((response) => response.json()), { code: 'TENANTRY_TENANT_REQUIRED' })
    t.match(await app.inject({ url: '/square?side=2' }).then((response) => response.json()), { width: 2 }, 'a function without a tenant')
  })

  await t.test('excluded fields are visible to administrators', async (t) => {
    const { body } = await ask('/items/1', { headers: bearer({ role: 'admin', tenant_id: 'acme' }) })
    t.match(body, { cost: 0.1 })
  })

  await t.test('arguments keep their types and digits, and invalid ones are rejected with their place', async (t) => {
    const sum = async (payload: object) => (await ask('/sum', { method: 'POST', payload })).body
    t.strictSame(
      (await ask('/sum', {
        method: 'POST',
        payload: { values: [1, 2], extra: { a: [1] }, at: '2026-01-01T00:00:00.123456Z', ratio: '1.00000000000000000001' }
      })).body,
      { result: { at: '2026-01-01T00:00:00.123456+00:00', sum: 3, extra: { a: [1] }, ratio: 1 } }
    )
    t.match(await sum({ values: null, extra: null, at: null, ratio: null }), { result: { sum: null, extra: null } })
    t.match(await sum({ values: ['x'], extra: 1, at: '2026-01-01', ratio: 1 }), {
      details: [{ path: '/body/values', message: 'the argument "values" must be an array (integer[])', keyword: 'type' }]
    })
    t.match(await sum({ values: [], extra: 1, at: 'soon', ratio: 1 }), { details: [{ path: '/body/at' }] })
    t.match(await sum({ values: [], extra: 1, at: '2026-01-01' }), {
      details: [{ path: '/body/ratio', message: 'the argument "ratio" has no value', keyword: 'required' }]
    })
    t.match(await ask('/low?below=1)%20or%20(1=1'), { status: 400, body: { details: [{ path: '/query/below' }] } })
    t.match(await ask("/names?prefix=n'%20or%20'1"), { status: 200, body: { all: { length: 0 } } })
  })

  await t.test("an error raised by a function has its own code, and reveals only the function's message", async (t) => {
    const restock = (amount: number) => ask('/items/1/restock', { method: 'POST', payload: { amount } })
    t.strictSame(Object.keys((await restock(-1)).body), ['error', 'message', 'code', 'requestId'])
    t.match(await restock(-1), { status: 422, body: { code: 'TENANTRY_FUNCTION_REFUSED', message: 'The function rejected the call' } })
    t.match(await restock(0), { status: 422, body: { code: 'TENANTRY_FUNCTION_REFUSED', message: 'The amount must be more than 0' } })
    t.match(await ask('/divide?b=0'), { status: 400, body: { code: 'TENANTRY_INVALID_VALUE' } })
    t.match(await ask('/slow'), { status: 503, body: { code: 'TENANTRY_DATABASE_BUSY' } })
    t.match(await ask('/secretly'), { status: 500, body: { code: 'TENANTRY_INTERNAL' } }, 'PostgreSQL does not let a STABLE function write')
    t.strictSame((await ask('/stock/3')).body, { result: 53 })
  })

  await t.test("any write drops a cached response, also a function's", async (t) => {
    t.equal((await ask('/stock/1')).cache, 'MISS')
    t.equal((await ask('/stock/1')).cache, 'HIT')
    await ask('/items/1/restock', { method: 'POST', payload: { amount: 10 } })
    t.match(await ask('/stock/1'), { cache: 'MISS', body: { result: 15 } })
    await ask('/items', { method: 'POST', payload: { id: 7, name: 'new', stock: 1, cost: 1 } })
    t.equal((await ask('/stock/1')).cache, 'MISS')
  })

  await t.test('/doc describes the form of each result', async (t) => {
    const document = (await app.inject('/doc')).json()
    const respond = (path: string, method = 'get') =>
      schemaWithoutReferences(document, document.paths[path][method].responses['200'].content['application/json'].schema)
    t.match(respond('/stock/{id}'), { properties: { result: { type: ['integer', 'null'] } } })
    t.match(respond('/low'), { properties: { data: { items: { properties: { name: {}, stock: {} } } }, pagination: {} } })
    t.notOk('cost' in Object(respond('/low')).properties.data.items.properties)
    t.match(respond('/items/{id}/restock', 'post'), { properties: { success: { type: 'boolean' } } })
    t.ok(document.paths['/low'].get.parameters.some(({ name }: { name: string }) => name === 'below'))
    t.match(document.paths['/stock/{id}'].get.responses, { 422: {} })
  })

  await t.test("a tenant's document can call only the functions that the platform allows", async (t) => {
    const headers = bearer({ role: 'admin', tenant_id: 'acme' })
    const save = async (queries: object) =>
      (await ask('/tenant/config', { method: 'POST', headers, payload: { routes: [{ method: 'get', path: '/mine', queries }] } })).body
    t.match(await save(call('stock_of', { arguments: { wanted: 1 } })), {
      code: 'TENANTRY_CONFIG_INVALID',
      details: [
        { path: '/routes/0/queries/0/function', message: 'the platform does not allow documents of tenants to call a function "stock_of"' }
      ]
    })
    t.match(await save(call('pg_sleep')), { code: 'TENANTRY_CONFIG_INVALID', details: [{ path: '/routes/0/queries/0/function' }] })
    const saved = await save(call('low', { arguments: { below: '{{query.below}}' } }))
    t.notOk('code' in saved, JSON.stringify(saved))
    t.match(await ask('/mine?below=60'), { status: 200, body: { data: [{ id: 1 }, { id: 2 }, { id: 3 }, { id: 7 }] } })
    t.match((await ask('/mine?below=60', { tenant: 'globex' })).status, 404)
  })
})

test('workflow steps call functions, and accept the order that a caller chooses', async (t) => {
  const { connectionString } = await database(t)
  const step = (id: string, name: string, more: object = {}): Step => ({ id, type: 'database', operation: 'call', function: name, ...more })
  const steps: Step[] = [
    step('add', 'restock', { arguments: { wanted: '{{input.id}}', amount: '{{input.amount}}' } }),
    step('few', 'low', { arguments: { below: 1000, named: '{{input.named}}' }, excludeFields: ['cost'], limit: 2 }),
    {
      id: 'all',
      type: 'database',
      operation: 'select',
      table: 'items',
      select: 'id, stock',
      orderBy: { from: '{{input.sort}}', allow: ['stock', 'id'] }
    },
    step('stock', 'stock_of', { arguments: { wanted: '{{steps.few.result.data.0.id}}' } })
  ]
  const response = { few: '{{steps.few.result.data}}', all: '{{steps.all.result.data}}', stock: '{{steps.stock.result.result}}' }
  const postgres = { connectionString, rowLevelSecurity: true }
  const app = await testServer(t, {
    databaseProvider: 'postgres',
    postgres,
    tables,
    functions,
    workflows: [{ id: 'restock', steps }],
    routes: [
      { method: 'post', path: '/items', queries: [{ table: 'items', operation: 'insert' }] },
      { method: 'post', path: '/inline', workflow: { steps }, response },
      { method: 'post', path: '/named', workflow: { ref: 'restock' }, response }
    ]
  }, { engine: { provider: 'postgres', postgres }, tenants: ['acme', 'globex'] })
  const headers = (tenant: string) => bearer({ role: 'admin', tenant_id: tenant })
  const post = async (url: string, payload: object, tenant = 'acme') => {
    const reply = await app.inject({ method: 'POST', url, payload, headers: headers(tenant) })
    return { status: reply.statusCode, body: reply.json() }
  }
  for (const [tenant, stock] of [['acme', 3], ['globex', 900]] as const) {
    await post('/items', [{ id: 1, name: 'nut', stock, cost: 1 }, { id: 2, name: 'bolt', stock: stock - 1, cost: 1 }], tenant)
  }
  for (const [url, stock] of [['/inline', 13], ['/named', 33]] as const) {
    t.match(await post(url, { id: 1, amount: 10, sort: 'stock.desc' }), {
      status: 200,
      body: { few: [{ id: 1, stock }, { id: 2, stock: 2 }], all: [{ id: 1 }, { id: 2 }], stock }
    }, url)
    t.match(await post(url, { id: 1, amount: -1 }), { status: 422, body: { code: 'TENANTRY_FUNCTION_REFUSED' } }, url)
    t.match(await post(url, { id: 1, amount: 'x' }), {
      status: 400,
      body: { details: [{ message: 'the argument "amount" must be an integer (integer)' }] }
    }, url)
    t.match(await post(url, { id: 1, amount: 10, sort: 'cost' }), {
      status: 400,
      body: { details: [{ message: 'must be one of stock, stock.asc, stock.desc, id, id.asc, id.desc' }] }
    }, `${url}: the function's earlier write stays`)
  }
  t.match(await post('/named', { id: 1, amount: 5 }, 'globex'), {
    body: { few: [{ id: 1, stock: 905 }, { id: 2, stock: 899 }], all: [{ id: 2 }, { id: 1 }] }
  }, "only the tenant's rows")

  await t.test('a durable run calls functions too', async (t) => {
    const { body: { workflowId } } = await post('/agent/workflow/run', { ref: 'restock', input: { id: 2, amount: 100 } }, 'globex')
    const status = { url: `/agent/workflow/status?workflowId=${workflowId}`, headers: headers('globex') }
    await until('the run ends', async () => (await app.inject(status)).json().status === 'completed')
    t.match(await post('/named', { id: 2, amount: 1 }, 'globex'), { body: { all: [{ id: 1 }, { id: 2, stock: 1000 }] } })
  })

  await t.test('a workflow of a tenant calls only the functions that the platform allows', async (t) => {
    const run = (step: Step) => post('/agent/workflow', { steps: [step], async: false })
    t.match(await run(step('few', 'low', { arguments: { below: 10 } })), { status: 200, body: { result: { data: [{ id: 2 }] } } })
    t.match(await run(step('stock', 'stock_of', { arguments: { wanted: 1 } })), {
      body: {
        code: 'TENANTRY_CONFIG_INVALID',
        details: [{ message: 'the platform does not allow documents of tenants to call a function "stock_of"' }]
      }
    })
  })
})

test('without row-level security a function gets the tenant as an argument that no document can set', async (t) => {
  const { connectionString } = await database(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const app = await testServer(t, {
    tables,
    functions: { of_tenant: { arguments: { wanted: 'integer' }, tenantArgument: 'tenant' } },
    routes: [{ method: 'post', path: '/items', queries: [{ table: 'items', operation: 'insert' }] }, {
      method: 'get',
      path: '/of/:id',
      queries: call('of_tenant', { arguments: { wanted } })
    }]
  }, { engine, tenants: ['acme', 'globex'] })
  for (const [tenant, stock] of [['acme', 3], ['globex', 9]] as const) {
    const headers = { 'x-tenant-id': tenant }
    await app.inject({ method: 'POST', url: '/items', headers, payload: { id: stock, name: 'nut', stock } })
    t.strictSame((await app.inject({ url: '/of/3', headers })).json(), { result: tenant === 'acme' ? 3 : null })
  }
})

test('a function that writes counts as a write even if it is declared without tables', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, {
    role: 'owner',
    sql: `
create table hits (n integer);
create function hit () returns bigint language sql as 'insert into hits values (1); select count(*) from hits';
create function hits_so_far () returns bigint stable language sql as 'select count(*) from hits';
`
  })
  const postgres = { connectionString }
  const app = await testServer(t, {
    databaseProvider: 'postgres',
    postgres,
    functions: { hit: { tenantScoped: false, tables: [] }, hits_so_far: { tenantScoped: false, tables: [] } },
    routes: [
      { method: 'post', path: '/hits', queries: call('hit') },
      { method: 'get', path: '/hits', queries: call('hits_so_far') },
      { method: 'put', path: '/hits', queries: call('hit') }
    ]
  }, { engine: { provider: 'postgres', postgres }, tenants: ['acme'] })
  const headers = { 'x-tenant-id': 'acme' }

  await t.test('a repeated request with the same Idempotency-Key calls it once', async (t) => {
    const post = () => app.inject({ method: 'POST', url: '/hits', headers: { ...headers, 'idempotency-key': 'k1' } })
    t.strictSame((await post()).json(), { result: 1 })
    const repeated = await post()
    t.strictSame([repeated.json(), repeated.headers['idempotency-replayed']], [{ result: 1 }, 'true'])
    t.strictSame(await admin('select count(*)::int as n from hits'), [{ n: 1 }])
    const { paths } = (await app.inject('/doc')).json()
    t.match(JSON.stringify(paths['/hits'].post.parameters), /idempotency-?key/i, '/doc lists the header')
  })

  await t.test('If-Match protects it', async (t) => {
    const { headers: { etag } } = await app.inject({ url: '/hits', headers })
    const put = () => app.inject({ method: 'PUT', url: '/hits', headers: { ...headers, 'if-match': String(etag) } })
    t.strictSame((await put()).json(), { result: 2 })
    t.equal((await put()).statusCode, 412)
    t.strictSame(await admin('select count(*)::int as n from hits'), [{ n: 2 }])
  })
})

test('a function that differs from its declaration or is unsafe is a fault of the document', async (t) => {
  const { connectionString, admin } = await database(t)
  await admin(
    "create function scopes () returns integer stable set app.tenant_id = '*' language sql as 'select 1'; create function hidden () returns integer immutable language sql as 'select 1'; revoke execute on function hidden from public"
  )
  const cases: [Functions, Routes[number]['queries'], string][] = [
    [{ stok_of: {} }, undefined, '/functions/stok_of: there is no function "stok_of" in the schema "public", did you mean "stock_of"?'],
    [
      { stock_of: { arguments: { wantd: 'integer' } } },
      undefined,
      '/functions/stock_of/arguments/wantd: the function has no argument with this name: the database has stock_of(wanted integer), did you mean "wanted"?'
    ],
    [
      { stock_of: { arguments: { wanted: 'text' } } },
      undefined,
      '/functions/stock_of/arguments/wanted: the argument has the type integer: the database has stock_of(wanted integer)'
    ],
    [
      { stock_of: {} },
      undefined,
      '/functions/stock_of/arguments: no function "stock_of" has these arguments: the database has stock_of(wanted integer)'
    ],
    [
      { stock_of: { arguments: { wanted: 'integer' }, returns: 'text' } },
      undefined,
      '/functions/stock_of/returns: stock_of(wanted integer) returns bigint in the database: write this type in `returns`'
    ],
    [
      { stock_of: { arguments: { wanted: 'integer' }, tables: ['item'] } },
      undefined,
      '/functions/stock_of/tables/0: there is no table "item", did you mean "items"?'
    ],
    [
      { of_tenant: { arguments: { tenant: 'text', wanted: 'integer' }, tenantArgument: 'tenant' } },
      undefined,
      '/functions/of_tenant/arguments/tenant: the server sets this argument, `tenantArgument`: remove it here'
    ],
    [
      { of_tenant: { arguments: { tenant: 'text' }, tenantArgument: 'wanted' } },
      undefined,
      '/functions/of_tenant/tenantArgument: the id of a tenant is a string, but the argument has the type integer'
    ],
    [
      { definer: {} },
      undefined,
      '/functions/definer: definer() cannot be called: it is SECURITY DEFINER and would run with the permissions of its owner: make it SECURITY INVOKER'
    ],
    [
      { scopes: {} },
      undefined,
      '/functions/scopes: scopes() cannot be called: it sets app.tenant_id, which separates tenants: remove that setting from the function'
    ],
    [
      { over: { arguments: { a: 'integer' } } },
      undefined,
      '/functions/over/arguments: several functions match: over(a integer), over(a integer, b integer default). List all arguments of one of them'
    ],
    [
      { hidden: {} },
      undefined,
      "/functions/hidden: hidden() cannot be called: the server's role cannot execute it: grant EXECUTE on it"
    ],
    [
      { rows_of: { arguments: { a: 'integer' } } },
      undefined,
      '/functions/rows_of: rows_of(a integer) cannot be called: it returns records without columns: write RETURNS TABLE'
    ],
    [
      functions,
      call('restock', { arguments: { wanted: 1, amount: 1 } }),
      '/routes/0/queries/0/function: "restock" is VOLATILE, so it can write, but a `get` route can only read. Declare the function STABLE or IMMUTABLE, or use another method'
    ],
    [
      functions,
      call('pg_sleep'),
      '/routes/0/queries/0/function: the document does not declare a function "pg_sleep": add it to `functions`'
    ],
    [functions, call('stock_of'), '/routes/0/queries/0/arguments: the function also needs the argument "wanted"'],
    [
      functions,
      call('stock_of', { arguments: { wanted: 'x' } }),
      '/routes/0/queries/0/arguments/wanted: the argument "wanted" must be an integer (integer)'
    ],
    [
      functions,
      call('stock_of', { arguments: { wanted: 1, more: 2 } }),
      '/routes/0/queries/0/arguments/more: the function is declared without an argument "more"'
    ],
    [
      functions,
      call('stock_of', { arguments: { wanted: '{{secret.key}}' } }),
      '/routes/0/queries/0/arguments/wanted: `secret.key`: a secret cannot be used in the arguments of a function, which may return them'
    ],
    [functions, call('stock_of', { arguments: { wanted: 1 }, limit: 1 }), '/routes/0/queries/0/limit: a single result has no pages'],
    [functions, call('low', { table: 'items' }), '/routes/0/queries/0/table: a `call` does not use a table'],
    [
      functions,
      call('low', { pagination: 'cursor' }),
      '/routes/0/queries/0/pagination: the rows of a function have pages by offset, not by cursor'
    ],
    [
      functions,
      [{ table: 'items', operation: 'insert', data: { id: 1, name: '{{secret.key}}' } }, ...call('low')!],
      '/routes/0/queries/1/function: the route writes a value of a secret, which the function could return: call it in another route'
    ],
    [functions, [{ table: 'items', operation: 'select', function: 'low' }], '/routes/0/queries/0/function: only a `call` has a function']
  ]
  for (const [declared, queries, expected] of cases) {
    const started = testServer(t, {
      databaseProvider: 'postgres',
      postgres: { connectionString, rowLevelSecurity: true },
      tables,
      functions: declared,
      routes: queries === undefined ? [] : [{ method: 'get', path: '/x', queries }]
    }, { engine: { provider: 'postgres', postgres: { connectionString } } })
    const error: unknown = await started.then(() => undefined, (reason: unknown) => reason)
    t.equal(error instanceof ConfigError ? formatFault(error.faults[0]!) : String(error), expected)
  }
  const started = testServer(t, { tables, functions: { stock_of: { arguments: { wanted: 'integer' } } } }, {
    engine: { provider: 'postgres', postgres: { connectionString } }
  })
  await t.rejects(started, { message: /without `postgres.rowLevelSecurity` the function sees the rows of every tenant/ })
})
