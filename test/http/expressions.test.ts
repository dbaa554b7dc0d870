/** Expressions over HTTP: neither a document's text nor a caller's value makes an expression exceed its budget. */
import { Writable } from 'node:stream'
import type { Test } from 'tap'
import { test } from 'tap'
import { maxSteps } from '../../lib/expressions/cel/frame.js'
import { remote } from '../helpers/remote.js'
import { createWorld, type Routes, save } from './tenants/world.js'

const grown = "body.t.split('').join(body.t)"
const searched = { h: 'a'.repeat(600_000), n: `${'a'.repeat(150_000)}b${'a'.repeat(150_000)}` }
const limited = (path: string) => ({
  status: 422,
  body: { code: 'TENANTRY_EXPRESSION_LIMIT', error: 'Unprocessable Entity', details: [{ path, keyword: 'expressionLimit' }] }
})

/** Counts the characters that the engine's own search may compare: its worst case is the product of both lengths. */
function watchSearches (t: Test): () => number {
  let most = 0
  for (const name of ['includes', 'indexOf', 'lastIndexOf', 'split'] as const) {
    const original = Reflect.get(String.prototype, name)
    Reflect.set(String.prototype, name, function (this: string, ...args: unknown[]): unknown {
      if (typeof args[0] === 'string' && args[0].length > 1) most = Math.max(most, this.length * args[0].length)
      return Reflect.apply(original, this, args)
    })
    t.teardown(() => Reflect.set(String.prototype, name, original))
  }
  return () => most
}

test("an expression that grows a text is rejected, in every place of a tenant's document", async (t) => {
  const { attacker, stranger, victim } = await createWorld(t)
  const expression = (text: string) => `[${Array.from({ length: 24 }, () => text).join(',')}].size() > 0`
  const inline = {
    async: false,
    input: { t: 'a'.repeat(20_000) },
    steps: [{
      id: 'a',
      type: 'database',
      operation: 'select',
      table: 'countries',
      condition: expression(grown.replaceAll('body', 'input'))
    }]
  }
  t.match(await attacker('POST /agent/workflow', { body: inline }), limited('/steps/0/condition'))
  t.match(
    await attacker('POST /agent/workflow', {
      body: {
        ...inline,
        steps: [{ id: 'a', type: 'switch', value: grown.replaceAll('body', 'input'), cases: { x: 'b' } }, {
          id: 'b',
          type: 'database',
          operation: 'select',
          table: 'countries'
        }]
      }
    }),
    limited('/steps/0/value')
  )
  await save(t, attacker, [
    {
      method: 'post',
      path: '/grow',
      queries: [{ table: 'notes', operation: 'select' }],
      transform: { fields: { x: `result.data.size() >= 0 ? ${expression(grown).replace(' > 0', '')} : 0` } }
    },
    {
      method: 'post',
      path: '/nested',
      queries: [{ table: 'notes', operation: 'select' }],
      transform: {
        fields: {
          x: 'result.data.size() >= 0 ? [[[body.t, body.t, body.t], [body.t, body.t, body.t]], [[body.t, body.t, body.t], [body.t, body.t, body.t]]] : []'
        }
      }
    },
    {
      method: 'post',
      path: '/continue',
      workflow: {
        steps: [{ id: 'a', type: 'database', operation: 'select', table: 'countries', onError: 'continue', condition: expression(grown) }, {
          id: 'b',
          type: 'database',
          operation: 'select',
          table: 'countries'
        }]
      },
      response: { error: '{{steps.a.error}}' }
    }
  ])
  const body = { t: 'a'.repeat(20_000) }
  const tenant = 'attacker'
  t.match(await stranger('POST /grow', { tenant, body }), limited('/routes/0/transform/fields/x'))
  t.match(
    await stranger('POST /nested', { tenant, body: { t: 'a'.repeat(600_000) } }),
    limited('/routes/1/transform/fields/x'),
    'each occurrence of a text in a result counts'
  )
  t.match(
    await stranger('POST /continue', { tenant, body }),
    { status: 200, body: { error: { code: 'TENANTRY_EXPRESSION_LIMIT' } } },
    'a workflow step fails with this code'
  )
  t.match(await victim('GET /platform/notes'), { status: 200 })
})

test('a search takes time proportional to the text', async (t) => {
  const service = await remote(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  const { attacker, stranger } = await createWorld(t, {}, {
    egress: { allow: [`127.0.0.1:${service.port}`] },
    routes: [{
      method: 'post',
      path: '/platform/search',
      integrations: [{ type: 'http', action: 'request', params: { url: service.origin }, condition: 'body.h.contains(body.n)' }]
    }]
  })
  const mostCompared = watchSearches(t)
  const step = (condition: string) => ({
    async: false,
    input: searched,
    steps: [{ id: 'a', type: 'database', operation: 'select', table: 'countries', condition }]
  })
  for (
    const call of [
      'input.h.contains(input.n)',
      'input.h.indexOf(input.n) > 0',
      'input.h.lastIndexOf(input.n) > 0',
      'input.h.split(input.n).size() > 1'
    ]
  ) {
    t.match(await attacker('POST /agent/workflow', { body: step(call) }), limited('/steps/0/condition'), call)
  }
  const smaller = { h: 'a'.repeat(150_000), n: `${'a'.repeat(30_000)}b${'a'.repeat(30_000)}` }
  t.match(await stranger('POST /platform/search', { body: smaller }), { status: 200, text: 'null' }, 'an expression within the budget is computed')
  t.match(
    await stranger('POST /platform/search', { body: { ...smaller, h: smaller.h + smaller.n } }),
    { status: 200, text: '{}' },
    'the search finds its text'
  )
  t.match(
    await stranger('POST /platform/search', { body: searched }),
    limited('/routes/0/integrations/0/condition'),
    'a caller without a token is limited'
  )
  t.ok(mostCompared() <= 16 * maxSteps, `the engine's own search compares at most ${mostCompared()} characters`)
})

test('a transform has one budget for all records of a response', async (t) => {
  const { attacker, stranger } = await createWorld(t)
  await save(t, attacker, [
    { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] },
    { method: 'post', path: '/sized', queries: [{ table: 'notes', operation: 'select' }], transform: { fields: { n: 'size(body.t)' } } }
  ])
  for (let index = 0; index < 20; index++) t.match(await attacker('POST /notes', { body: { title: 'a' } }), { status: 201 })
  const ask = (length: number) => stranger('POST /sized', { tenant: 'attacker', body: { t: 'a'.repeat(length) } })
  t.match(await ask(300_000), { status: 200, body: { data: Array.from({ length: 20 }, () => ({ n: 300_000 })) } })
  t.match(await ask(600_000), limited('/routes/1/transform/fields/n'), 'one evaluation is within the budget, twenty are not')
})

test('a condition that cannot be computed is false, and its place is logged once', async (t) => {
  const lines: Record<string, unknown>[] = []
  const stream = new Writable({
    write (chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    }
  })
  const { attacker, victim } = await createWorld(t, { logger: { level: 'warn', stream } })
  const body = (condition: string) => ({
    async: false,
    input: { x: 0, name: 'secret text' },
    steps: [{ id: 'a', type: 'database', operation: 'select', table: 'countries', condition }]
  })
  const runs = async (condition: string, ask = attacker) => {
    const { status, body: response } = await ask('POST /agent/workflow', { body: body(condition) })
    t.equal(status, 200, condition)
    return response['result'] !== null
  }
  t.notOk(await runs('input.missing > 3'))
  t.notOk(await runs('input.name > 3'))
  t.notOk(await runs('input.name > 3', victim))
  const warnings = lines.filter(({ expression }) => expression !== undefined)
  t.match(warnings, [{ level: 40, tenant: 'attacker', expression: '/steps/0/condition', reason: 'null and int cannot be ordered' }, {
    tenant: 'victim'
  }])
  t.equal(warnings.length, 2)
  t.notMatch(JSON.stringify(warnings), 'secret text')
  t.notOk(await runs('{{input.x}}'))
  t.ok(await runs('!input.x'), 'the negated condition holds')
})

test("the logged place of a condition of a tenant's route is its place in the document", async (t) => {
  const lines: Record<string, unknown>[] = []
  const stream = new Writable({
    write (chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    }
  })
  const { attacker, stranger } = await createWorld(t, { logger: { level: 'warn', stream } })
  const condition = 'body.name > 3'
  // Both routes have the same text and share its compiled form.
  const workflow: Routes[number]['workflow'] = {
    steps: [{ id: 'a', type: 'database', operation: 'select', table: 'countries', condition }]
  }
  await save(t, attacker, [
    { method: 'post', path: '/first', workflow },
    { method: 'post', path: '/second', workflow },
    {
      method: 'post',
      path: '/call',
      integrations: [{ type: 'http', action: 'request', params: { url: 'https://example.com' }, condition }],
      response: {}
    }
  ])
  for (const path of ['/first', '/second', '/call', '/first']) {
    t.match(await stranger(`POST ${path}`, { tenant: 'attacker', body: { name: 'a' } }), { status: 200 }, path)
  }
  t.same(lines.filter(({ expression }) => expression !== undefined).map(({ expression }) => expression), [
    '/routes/0/workflow/steps/0/condition',
    '/routes/1/workflow/steps/0/condition',
    '/routes/2/integrations/0/condition'
  ])
})

test('a transform computes fields for each record of every kind of response', async (t) => {
  const service = await remote(t, ({ path }, response) => {
    const responses: Record<string, unknown> = { '/list': [{ id: 1 }, { id: 2 }], '/record': { id: 3, data: [{ id: 4 }] } }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(responses[path]))
  })
  const get = (path: string) => [{ type: 'http', action: 'request', params: { url: `${service.origin}${path}` } }]
  const id = { type: 'integer', primaryKey: true } as const
  const transform = { fields: { n: 'size(item.data)' } }
  const { stranger } = await createWorld(t, {}, {
    egress: { allow: [`127.0.0.1:${service.port}`] },
    tables: { sheets: { columns: { id, data: { type: 'json' } } } },
    routes: [
      { method: 'get', path: '/it', integrations: get('/list'), transform: { fields: { x2: 'item.id * 2', all: 'size(result)' } } },
      { method: 'get', path: '/one', integrations: get('/record'), transform: { fields: { x2: 'item.id * 2' } } },
      { method: 'post', path: '/sheets', queries: [{ table: 'sheets', operation: 'insert' }] },
      {
        method: 'post',
        path: '/sheets/computed',
        queries: [{ table: 'sheets', operation: 'insert' }],
        transform: { fields: { n: 'size(item.data)' } }
      },
      {
        method: 'get',
        path: '/sheets/:id',
        queries: [{ table: 'sheets', operation: 'select', select: 'data', id: '{{params.id}}' }],
        transform
      },
      {
        method: 'get',
        path: '/filtered/:id',
        queries: [{ table: 'sheets', operation: 'select', select: 'data', id: '{{params.id}}' }],
        response: { type: 'object', properties: { id: { type: 'integer' } } }
      },
      { method: 'get', path: '/sheets', queries: [{ table: 'sheets', operation: 'select', select: 'data' }], transform },
      {
        method: 'post',
        path: '/workflow',
        workflow: {
          steps: [{
            id: 'a',
            type: 'database',
            operation: 'select',
            table: 'sheets',
            select: 'data',
            single: true,
            filters: [{ column: 'id', value: 1 }]
          }]
        },
        transform
      },
      {
        method: 'post',
        path: '/workflow/list',
        workflow: { steps: [{ id: 'a', type: 'database', operation: 'select', table: 'sheets', select: 'data' }] },
        transform
      },
      {
        method: 'get',
        path: '/both',
        queries: [{ table: 'sheets', operation: 'select' }, { alias: 'again', table: 'sheets', operation: 'select' }],
        transform: { fields: { n: 'size(result.sheets.data) + size(result.again.data)' } }
      }
    ]
  })
  const data = [{ a: 1 }, { a: 2 }]
  t.match(
    await stranger('GET /it'),
    { status: 200, text: JSON.stringify([{ id: 1, x2: 2, all: 2 }, { id: 2, x2: 4, all: 2 }]) },
    'a list from a service'
  )
  t.same((await stranger('GET /one')).body, { id: 3, data: [{ id: 4 }], x2: 6 }, 'an object from a service is the record')
  t.match(await stranger('POST /sheets', { body: { id: 1, data } }), { status: 201 })
  t.same((await stranger('GET /sheets/1')).body, { data, n: 2 }, 'a record whose only column is `data` is not a page')
  t.same((await stranger('GET /filtered/1')).body, {}, 'nor for a response schema')
  t.same((await stranger('GET /sheets')).body, { data: [{ data, n: 2 }], pagination: { limit: 20, offset: 0, total: 1 } })
  t.match((await stranger('POST /sheets/computed', { body: [{ id: 2, data }, { id: 3, data: [] }] })).body, {
    data: [{ id: 2, n: 2 }, { id: 3, n: 0 }]
  }, 'a bulk insert returns a list')
  t.match((await stranger('POST /sheets/computed', { body: { id: 4, data } })).body, { id: 4, data, n: 2 }, 'an insert of one record returns one record')
  t.match((await stranger('POST /workflow')).body, { result: { data, n: 2 } })
  t.match((await stranger('POST /workflow/list')).body, { result: { data: [{ n: 2 }, { n: 2 }, { n: 0 }, { n: 2 }] } })
  t.match(
    (await stranger('GET /both')).body,
    { n: 8, again: { data: [{}, {}, {}, {}] } },
    'fields of several queries are members of the response'
  )
})

test('saving a transform over a record or a field that cannot exist fails', async (t) => {
  const { attacker } = await createWorld(t)
  const faultOf = async (queries: object[], field: string) => {
    const { status, body } = await attacker('POST /tenant/config', {
      body: { routes: [{ method: 'get', path: '/x', queries, transform: { fields: { x: field } } }] }
    })
    return status === 200 ? null : body['details']
  }
  const notes = { table: 'notes', operation: 'select', select: 'id, called:title' }
  t.match(await faultOf([notes, { ...notes, alias: 'again' }], 'item.called'), [{
    path: '/routes/0/transform/fields/x',
    message: /several queries/
  }])
  t.equal(await faultOf([notes, { ...notes, alias: 'again' }], 'size(result.again.data)'), null)
  t.match(await faultOf([notes], 'item.caled + "!"'), [{
    path: '/routes/0/transform/fields/x',
    message: /no record of this route has a field "caled"/
  }])
  t.equal(await faultOf([notes], 'item.called + "!"'), null)
  t.match(await faultOf([notes], 'result.data.length'), [{ path: '/routes/0/transform/fields/x', message: /no `length`/ }])
})
