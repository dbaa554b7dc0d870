/** Workflows on routes over HTTP: their order of steps, which no caller or document data can change. */
import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { remote } from '../../helpers/remote.js'
import type { TestDocument } from '../../helpers/server.js'
import { testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'

type Route = NonNullable<TestDocument['routes']>[number]
type RouteWorkflow = NonNullable<Route['workflow']>
type Step = NonNullable<RouteWorkflow['steps']>[number]

const tables: NonNullable<TestDocument['tables']> = {
  notes: {
    tenantScoped: true,
    columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text', notNull: true }, body: { type: 'text' } },
    unique: [['tenant_id', 'title']]
  }
}

const insert = (id: string, title: string, further: Partial<Step> = {}): Step => ({
  id,
  type: 'database',
  operation: 'insert',
  table: 'notes',
  data: { id: '{{body.id}}', title },
  ...further
})
const list: Step = { id: 'list', type: 'database', operation: 'select', table: 'notes', order: { column: 'id' } }

const route = (path: string, workflow: RouteWorkflow, further: Partial<Route> = {}): Route => ({
  method: 'post',
  path,
  workflow,
  ...further
})

/** Sends requests as a user of the tenant. */
function asking (app: FastifyInstance, tenant = 'acme') {
  return async (url: string, payload: object = {}) => {
    const response = await app.inject({ method: 'POST', url, headers: { 'x-tenant-id': tenant }, payload })
    return { status: response.statusCode, body: response.json() }
  }
}

const handlers: Step[] = [
  { id: 'pick', type: 'switch', value: 'body.type', cases: { paid: 'paid', constructor: 'other', 1: 'one' }, default: 'fallback' },
  ...['paid', 'other', 'one', 'fallback'].map((id): Step => ({
    id,
    type: 'database',
    operation: 'insert',
    table: 'notes',
    data: { id: '{{body.id}}', title: id }
  })),
  { id: 'after', type: 'database', operation: 'select', table: 'notes', filters: [{ column: 'id', value: '{{body.id}}' }] }
]

const document: TestDocument = {
  tables,
  workflows: [{
    id: 'add',
    steps: [
      { id: 'made', type: 'database', operation: 'insert', table: 'notes', data: { id: '{{input.id}}', title: '{{input.title}}' } },
      {
        id: 'found',
        type: 'database',
        operation: 'select',
        table: 'notes',
        single: true,
        filters: [{ column: 'id', value: '{{steps.made.result.id}}' }]
      }
    ]
  }],
  routes: [
    route('/order', {
      steps: [insert('first', '{{body.title}}'), {
        id: 'second',
        type: 'database',
        operation: 'update',
        table: 'notes',
        data: { body: 'after {{steps.first.result.title}}' },
        filters: [{ column: 'id', value: '{{steps.first.result.id}}' }],
        single: true
      }, list]
    }),
    route('/switch', { steps: handlers }),
    route('/only-switch', {
      steps: [{ id: 'pick', type: 'switch', value: 'body.type', cases: { a: 'target' } }, insert('target', 'picked')]
    }),
    route('/ref', { ref: 'add' }),
    route('/ref-input', { ref: 'add', input: { id: '{{body.number}}', title: 'from {{body.name}}' } }),
    route('/condition', { steps: [list, insert('sometimes', '{{body.title}}', { condition: 'body.count > 2' })] }),
    route('/parallel', {
      steps: [{ id: 'both', parallel: [insert('made', '{{body.title}}'), list] }, {
        id: 'then',
        type: 'database',
        operation: 'select',
        table: 'notes',
        single: true,
        filters: [{ column: 'title', value: '{{steps.both.result.made.title}}' }]
      }]
    }),
    route('/continue', {
      steps: [insert('made', 'twice', { onError: 'continue' }), {
        id: 'note',
        type: 'database',
        operation: 'insert',
        table: 'notes',
        data: { id: '{{body.other}}', title: '{{steps.made.error.code || "none"}}', body: '{{steps.made.result.title || "nothing"}}' }
      }]
    }),
    route('/fails', {
      steps: [
        insert('made', '{{body.title}}'),
        { ...list, id: 'gone', single: true, filters: [{ column: 'id', value: -1 }] },
        insert('never', 'never')
      ]
    }),
    route('/mapped', { steps: [insert('made', '{{body.title}}'), list] }, {
      response: { id: '{{steps.made.result.id}}', page: '{{results.workflow}}' }
    }),
    route('/computed', { steps: [insert('made', '{{body.title}}')] }, { transform: { fields: { loud: 'item.title + "!"' } } }),
    route('/filtered', { steps: [insert('made', '{{body.title}}')] }, {
      response: { type: 'object', properties: { title: { type: 'string' } } }
    }),
    route('/kept', {
      steps: [insert('made', '{{body.title}}'), {
        id: 'copy',
        type: 'database',
        operation: 'insert',
        table: 'notes',
        data: { id: '{{body.other}}', title: 'copy of {{body.id}}', body: '{{steps.made.result.title}}' }
      }]
    }),
    route('/many', {
      steps: [{ id: 'all', type: 'database', operation: 'select', table: 'notes' }, {
        id: 'copies',
        type: 'database',
        operation: 'insert',
        table: 'notes',
        data: { id: 1, title: Array.from({ length: 40 }, () => '{{steps.all.result}}').join('') }
      }]
    }),
    route('/excluded', {
      steps: [
        insert('whole', '', { data: '{{input}}', excludeFields: ['body'] }),
        insert('named', '', { data: { id: 91, title: 'named', body: 'of {{input.body}}' }, excludeFields: ['body'] }),
        { ...list, filters: [{ column: 'id', operator: 'gte', value: 90 }], select: 'title, body' }
      ]
    }),
    route('/timed', { steps: [insert('made', '{{body.title}}', { timeoutMs: 5000 }), { ...list, timeoutMs: 5000 }] })
  ]
}

test('workflows on routes', async (t) => {
  const app = await testServer(t, document, { tenants: ['acme', 'globex', 'initech', 'umbrella', 'hooli'] })
  const ask = asking(app)
  const titles = async (tenant: string) =>
    (await asking(app, tenant)('/condition', { count: 0 })).body.result.data.map(({ title }: { title: string }) => title)

  t.test('steps run in order, each reads earlier results, and the last result is the response', async (t) => {
    const { status, body } = await ask('/order', { id: 1, title: 'one' })
    t.equal(status, 200)
    t.match(body.workflowId, /^[0-9a-f-]{36}$/)
    t.equal(body.status, 'completed')
    t.strictSame(body.result.data, [{ id: 1, title: 'one', body: 'after one', tenant_id: 'acme' }])
    t.strictSame(body.result.pagination, { limit: 20, offset: 0, total: 1 })
  })

  t.test('a switch runs only the step that it selects: own members of `cases`, compared as text', async (t) => {
    const picks = asking(app, 'globex')
    let id = 0
    const picked = async (type: unknown) => {
      const { body } = await picks('/switch', { id: ++id, type })
      return body.result.data.map(({ title }: { title: string }) => title)
    }
    t.strictSame(await picked('paid'), ['paid'])
    t.strictSame(await picked('constructor'), ['other'])
    t.strictSame(await picked(1), ['one'])
    await app.db.deleteFrom('notes' as never).execute()
    for (const type of ['__proto__', 'toString', 'hasOwnProperty', '', null, ['paid', 1], { paid: 1 }]) {
      t.strictSame(await picked(type), ['fallback'], JSON.stringify(type))
      await app.db.deleteFrom('notes' as never).execute()
    }
    await ask('/order', { id: 1, title: 'one' })
  })

  t.test('a switch without a match is skipped, and so are the steps that it could have selected', async (t) => {
    t.equal((await ask('/only-switch', { id: 50, type: 'b' })).body.result, null)
    t.notOk((await titles('acme')).includes('picked'))
    t.equal((await ask('/only-switch', { id: 50, type: 'a' })).body.result.title, 'picked')
  })

  t.test("`ref` runs a workflow of the document, with the body or the route's value as its input", async (t) => {
    t.match(await ask('/ref', { id: 60, title: 'by ref' }), { status: 200, body: { result: { id: 60, title: 'by ref' } } })
    t.match(await ask('/ref-input', { number: 61, name: 'body' }), { status: 200, body: { result: { id: 61, title: 'from body' } } })
  })

  t.test('excluded fields of the input are not written', async (t) => {
    const { body } = await asking(app, 'hooli')('/excluded', { id: 90, title: 'whole', body: 'excluded' })
    t.strictSame(body.result.data, [{ title: 'whole', body: null }, { title: 'named', body: null }])
  })

  t.test('a condition that is false or cannot be computed skips the step', async (t) => {
    const conditions = asking(app, 'initech')
    t.strictSame((await conditions('/condition', { id: 1, title: 'skipped', count: 1 })).body.result.data, [])
    t.strictSame((await conditions('/condition', { id: 1, title: 'skipped' })).body.result.data, [])
    t.equal((await conditions('/condition', { id: 1, title: 'done', count: 3 })).body.result.title, 'done')
  })

  t.test('steps of a group run concurrently, and later steps read their results', async (t) => {
    t.match(await ask('/parallel', { id: 70, title: 'beside' }), { status: 200, body: { result: { id: 70, title: 'beside' } } })
  })

  t.test('a step that may fail leaves its error, and the others run', async (t) => {
    t.match(await ask('/continue', { id: 80, other: 81 }), { status: 200, body: { result: { title: 'none' } } })
    const { status, body } = await ask('/continue', { id: 82, other: 83 })
    t.equal(status, 200)
    t.match(body.result, { id: 83, title: 'TENANTRY_CONFLICT', body: 'nothing' })
  })

  t.test("the failed step's error is the response, and no later step runs", async (t) => {
    const fails = asking(app, 'umbrella')
    const { status, body } = await fails('/fails', { id: 1, title: 'before' })
    t.equal(status, 404)
    t.equal(body.code, 'TENANTRY_NOT_FOUND')
    t.strictSame(await titles('umbrella'), ['before'], 'earlier steps keep their effects')
    t.match(await fails('/fails', { id: 1, title: 'again' }), { status: 409, body: { details: [{ path: '/body/id' }] } })
  })

  t.test('the route builds its response from the result and from steps', async (t) => {
    t.match((await ask('/mapped', { id: 90, title: 'mapped' })).body, { id: 90, page: { pagination: {} } })
    t.match((await ask('/computed', { id: 91, title: 'computed' })).body, { status: 'completed', result: { id: 91, loud: 'computed!' } })
    const { workflowId, ...response } = (await ask('/filtered', { id: 92, title: 'filtered' })).body
    t.type(workflowId, 'string')
    t.strictSame(response, { status: 'completed', result: { title: 'filtered' } })
  })

  t.test('a result is data: templates, expressions and secrets in it stay text', async (t) => {
    const title = '{{secret:stripe}} {{env.HOME}} {{body.id}} {{steps.made.result}} 1 + 1'
    const { status, body } = await ask('/kept', { id: 100, other: 101, title })
    t.equal(status, 200)
    t.equal(body.result.body, title)
  })

  t.test('the size of results copied by templates is bounded', async (t) => {
    const big = asking(app, 'initech')
    for (let id = 200; id < 220; id++) {
      t.equal((await big('/condition', { id, title: `${id} ${'x'.repeat(40_000)}`, count: 3 })).status, 200)
    }
    const { status, body } = await big('/many')
    t.equal(status, 400)
    t.equal(body.code, 'TENANTRY_ANSWER_TOO_LARGE')
  })

  t.test('two tenants read and write their own rows', async (t) => {
    const other = asking(app, 'umbrella')
    t.equal((await other('/ref', { id: 60, title: 'of umbrella' })).body.result.tenant_id, 'umbrella')
    t.notOk((await titles('acme')).includes('of umbrella'))
    t.equal((await app.inject({ method: 'POST', url: '/ref', payload: { id: 1, title: 'x' } })).statusCode, 400, 'and no tenant those of the platform')
  })

  t.test('a step with a timeout reads and writes', async (t) => {
    const { status, body } = await ask('/timed', { id: 110, title: 'in time' })
    t.equal(status, 200)
    t.ok(body.result.data.some(({ id }: { id: number }) => id === 110))
  })
})

test('the documents of two tenants have their own workflows, whose routes serve at once', async (t) => {
  const app = await testServer(t, { tables }, { tenants: ['acme', 'globex'] })
  const headers = (tenant: string) => bearer({ tenant_id: tenant, role: 'admin' })
  const save = (tenant: string, title: string) =>
    app.inject({
      method: 'POST',
      url: '/tenant/config',
      headers: headers(tenant),
      payload: {
        workflows: [{
          id: 'note',
          steps: [{ id: 'made', type: 'database', operation: 'insert', table: 'notes', data: { id: '{{input.id}}', title } }, list]
        }],
        routes: [{ path: '/own', method: 'post', requireAuth: true, workflow: { ref: 'note' } }]
      }
    })
  for (const [tenant, title] of [['acme', 'of acme'], ['globex', 'of globex']] as const) {
    t.equal((await save(tenant, title)).statusCode, 200)
  }
  const run = async (tenant: string, id: number) =>
    (await app.inject({ method: 'POST', url: '/own', headers: headers(tenant), payload: { id } })).json()
  t.match((await run('acme', 1)).result.data, [{ id: 1, title: 'of acme', tenant_id: 'acme' }])
  t.match((await run('globex', 2)).result.data, [{ id: 2, title: 'of globex', tenant_id: 'globex' }])
  t.equal((await save('acme', 'anew')).statusCode, 200)
  t.match((await run('acme', 3)).result.data, [{ title: 'of acme' }, { id: 3, title: 'anew' }], 'a save replaces it')
  const wrong = await app.inject({
    method: 'POST',
    url: '/tenant/config',
    headers: headers('acme'),
    payload: { routes: [{ path: '/x', method: 'post', workflow: { ref: 'nott' } }] }
  })
  t.match(wrong.json(), { code: 'TENANTRY_CONFIG_INVALID', details: [{ path: '/routes/0/workflow/ref' }] })
  const seen = await app.inject({ url: '/doc', headers: headers('acme') })
  t.match(seen.json().paths['/own'].post.responses['200'].content['application/json'].schema.required, ['workflowId', 'status', 'result'])
})

test('steps that call services use one key for all attempts of a step', async (t) => {
  const { origin, requests } = await remote(t, (_request, response) => {
    if (requests.length < 3) response.writeHead(503).end('key=hunter2')
    else response.writeHead(200, { 'content-type': 'application/json' }).end('{"name":"{{secret:token}}","constructor":{"a":1}}')
  })
  const app = await testServer(t, {
    tables,
    customIntegrations: [{
      name: 'names',
      baseUrl: origin,
      actions: { find: { method: 'POST', path: '/names', body: { id: '{{params.id}}' } } }
    }],
    routes: [
      route('/call', {
        steps: [
          {
            id: 'called',
            type: 'integration',
            integration: 'names',
            action: 'find',
            params: { id: '{{body.id}}' },
            retry: { attempts: 3, backoffMs: 1 }
          },
          {
            id: 'kept',
            type: 'database',
            operation: 'insert',
            table: 'notes',
            data: { id: '{{body.id}}', title: '{{steps.called.result.name}}' }
          }
        ]
      }),
      route('/call-once', { steps: [{ id: 'called', type: 'integration', integration: 'names', action: 'find', params: { id: 1 } }] }),
      { method: 'get', path: '/notes', cache: { enabled: true }, queries: [{ table: 'notes', operation: 'select' }] }
    ]
  }, { tenants: ['acme'] })
  const read = () => app.inject({ url: '/notes', headers: { 'x-tenant-id': 'acme' } })
  t.strictSame((await read()).json().data, [])
  const { status, body } = await asking(app)('/call', { id: 1 })
  t.equal(status, 200, JSON.stringify(body))
  t.equal(body.result.title, '{{secret:token}}', "a service's response is data")
  t.strictSame(requests.map(({ headers }) => headers['idempotency-key']), Array.from({ length: 3 }, () => `${body.workflowId}:called`))
  t.strictSame(requests.map(({ body: sent }) => sent), Array.from({ length: 3 }, () => '{"id":1}'))
  t.match((await read()).json().data, [{ id: 1 }], 'the write dropped the cached response')
  requests.length = 0
  const failed = await asking(app)('/call-once')
  t.equal(failed.status, 502)
  t.notMatch(JSON.stringify(failed.body), /hunter2/)
})
