/** Aggregates, filtered embeds, values of JSON columns and searches over HTTP, in the platform's and tenants' documents. */
import { test } from 'tap'
import type { TestDocument } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'
import { ask, save } from '../plugins/tenant-config/document.js'
import { open } from '../plugins/tools/app.js'

const id = { type: 'integer', primaryKey: true } as const
const get = (path: string, query: object, more: object = {}) => ({
  path,
  method: 'get',
  requireAuth: true,
  queries: [{ table: 'orders', operation: 'select', ...query }],
  ...more
})
const routes = [
  get('/totals', { select: "data->>'city', sold:qty.sum(), value:price.sum(), count()", order: { column: 'count', ascending: false } }, {
    mcp: { name: 'totals' }
  }),
  get('/found', { select: 'id', filters: [{ column: 'note', operator: 'fts', value: '{{query.q}}', config: 'english' }] }, {
    mcp: { name: 'found' }
  }),
  get('/in', { select: 'id', filters: [{ column: "data->'it''s'->>'$1'", value: '{{query.value}}' }] }),
  get('/mine', {
    select: 'id, lines!inner(id, owner)',
    embeds: { lines: { filters: [{ column: 'owner', value: '{{auth.sub}}' }], limit: '{{query.lines}}' } }
  }, { cache: { enabled: true }, mcp: { name: 'mine' } })
]
const document: TestDocument = {
  tables: {
    orders: {
      tenantScoped: true,
      softDelete: true,
      columns: { id, qty: { type: 'integer' }, price: { type: 'numeric' }, data: { type: 'jsonb' }, note: { type: 'text' } }
    },
    lines: { tenantScoped: true, columns: { id, order_id: { type: 'integer', references: 'orders.id' }, owner: { type: 'text' } } },
    rates: { columns: { code: { type: 'text', primaryKey: true }, rate: { type: 'numeric' } } }
  },
  cache: { enabled: true, provider: 'memory', ttl: 60 },
  routes: [
    { path: '/orders', method: 'post', requireAuth: true, queries: [{ table: 'orders', operation: 'insert' }] },
    { path: '/lines', method: 'post', requireAuth: true, queries: [{ table: 'lines', operation: 'insert' }] },
    {
      path: '/run',
      method: 'post',
      requireAuth: true,
      workflow: {
        steps: [{ id: 'totals', type: 'database', operation: 'select', table: 'orders', select: 'count(), lines:id.max()' }, {
          id: 'one',
          type: 'database',
          operation: 'select',
          table: 'orders',
          select: 'id, lines(id)',
          embeds: { lines: { filters: [{ column: 'id', operator: 'gt', value: '{{steps.totals.result.data.0.count}}' }] } },
          order: { column: 'id' },
          limit: 1
        }]
      }
    }
  ]
}

test("a tenant's reports contain only its own rows, in its document and for its tools", async (t) => {
  const { app, as } = await open(t, document)
  const saved = await save(app, 'acme', { routes })
  t.equal(saved.statusCode, 200, saved.payload)
  t.equal((await save(app, 'globex', { routes })).statusCode, 200)
  const orders = [
    { id: 1, qty: 2, price: '90071992547409931.25', data: { city: 'Bergen', "it's": { $1: 'x' } }, note: 'Two ferries' },
    { id: 2, qty: 3, price: '0.05', data: { city: 'Bergen' }, note: 'A train' },
    { id: 3, qty: 4, price: '1', data: null, note: null }
  ]
  for (const order of orders) t.equal((await ask(app, 'acme', 'POST', '/orders', order)).statusCode, 201)
  t.equal(
    (await ask(app, 'globex', 'POST', '/orders', {
      id: 9,
      qty: 1,
      price: 1,
      data: { city: 'Bergen', "it's": { $1: 'x' } },
      note: 'A ferry'
    })).statusCode,
    201
  )
  for (const line of [{ id: 1, order_id: 1, owner: 'ada' }, { id: 4, order_id: 1, owner: 'ada' }, { id: 5, order_id: 2, owner: 'ben' }]) {
    t.equal((await ask(app, 'acme', 'POST', '/lines', line)).statusCode, 201)
  }
  const of = async (sub: string, url: string) => (await app.inject({ url, headers: bearer({ sub, tenant_id: 'acme' }) })).json()

  const totals = await ask(app, 'acme', 'GET', '/totals')
  t.match(totals.payload, '"value":90071992547409931.30,', 'every digit is kept')
  t.match(totals.json(), {
    data: [{ city: 'Bergen', sold: 5, count: 2 }, { city: null, sold: 4, value: 1, count: 1 }],
    pagination: { limit: 20, offset: 0, total: 2 }
  })
  t.match(await of('ada', '/found?q=ferry'), { data: [{ id: 1 }], pagination: { total: 1 } })
  t.match((await ask(app, 'globex', 'GET', '/found?q=ferry')).json(), { data: [{ id: 9 }], pagination: { total: 1 } })
  t.strictSame((await of('ada', '/in?value=x')).data, [{ id: 1 }])
  t.strictSame((await of('ada', "/in?value=x' or true --")).data, [])
  for (const text of ['%00', 'x'.repeat(10_000)]) {
    t.match(await of('ada', `/found?q=${text}`), { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path: '/query/q' }] })
  }
  for (const text of ['', '%22', '- or "', '-'.repeat(900)]) t.strictSame((await of('ada', `/found?q=${text}`)).data, [], text)

  t.strictSame((await of('ada', '/mine')).data, [{ id: 1, lines: [{ id: 1, owner: 'ada' }, { id: 4, owner: 'ada' }] }])
  t.strictSame((await of('ben', '/mine')).data, [{ id: 2, lines: [{ id: 5, owner: 'ben' }] }], 'a cached response belongs to one caller')
  t.strictSame((await of('ada', '/mine?lines=1')).data, [{ id: 1, lines: [{ id: 1, owner: 'ada' }] }])
  t.match(await of('ada', '/mine?lines=-1'), { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path: '/query/lines' }] })
  t.match(
    (await ask(app, 'acme', 'POST', '/run')).json(),
    { status: 'completed', result: { data: [{ id: 1, lines: [{ id: 4 }] }] } },
    'workflow steps support them too'
  )

  const { body: { tools = [] } } = await as('acme')('list')
  const tool = (name: string) => tools.find((each) => each.name === name)
  t.match(tool('found'), { inputSchema: { properties: { q: {} } } })
  t.match(tool('mine'), {
    inputSchema: { properties: { lines: {} } },
    outputSchema: { properties: { data: { items: { properties: { lines: { type: 'array' } } } } } }
  })
  t.match(tool('totals'), {
    outputSchema: { properties: { data: { items: { properties: { city: { type: ['string', 'null'] }, count: { type: 'integer' } } } } } }
  })
  t.match((await as('globex')('call', { name: 'totals', input: {} })).body, { result: { data: [{ city: 'Bergen', count: 1 }] } })
})

test("aggregates, embeds and paths give a tenant's document no additional access", async (t) => {
  const { app } = await open(t, document)
  const faults = async (query: object) => {
    const response = await save(app, 'acme', { routes: [get('/x', query)] })
    t.equal(response.statusCode, 400, response.payload)
    return response.json().details
  }
  t.match(await faults({ table: 'rates', select: 'count(), rate.sum()' }), [{
    path: '/routes/0/queries/0/table',
    message: /has no tenant_id column/
  }])
  t.match(await faults({ select: "data->'{{query.key}}'" }), [{
    path: '/routes/0/queries/0/select',
    message: 'a template is not allowed here'
  }])
  t.match(await faults({ select: 'id', filters: [{ column: "data->>'a' = 'b' or true --", value: 'x' }] }), [{
    path: '/routes/0/queries/0/filters/0/column'
  }])
  t.match(
    await faults({ select: 'id', filters: [{ column: 'note', operator: 'fts', value: 'x', config: "english'::regconfig, now()); --" }] }),
    [{ message: /text search configuration/ }]
  )
  t.match(await faults({ select: 'id', filters: [{ column: 'note', operator: 'fts', value: 'x', config: 'englisch' }] }), [{
    path: '/routes/0/queries/0/filters/0/config',
    message: /no text search configuration "englisch"; did you mean "english"/
  }])
  t.match(await faults({ select: 'id, lines(id)', embeds: { lines: { filters: [{ column: 'orders.id', value: 1 }] } } }), [{
    path: '/routes/0/queries/0/embeds/lines/filters/0/column'
  }])
  t.match(await faults({ select: 'id, lines(id)', embeds: { lines: { limit: 2_000_000 } }, order: { column: 'pg_sleep(1)' } }), [{
    path: '/routes/0/queries/0/order/column'
  }])
})
