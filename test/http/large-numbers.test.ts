/** Integers beyond 2^53 and long decimals keep every digit, whatever a route does with them. */
import { createServer } from 'node:http'
import type { Test } from 'tap'
import { test } from 'tap'
import { forEachEngine, postgresDatabase } from '../helpers/postgres.js'
import { startRedis } from '../helpers/redis.js'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { receiver } from '../plugins/webhooks/app.js'
import { type Ask, caller } from './caller.js'

const large = '9007199254740993'
const near = '9007199254740992' // its value as a double: the id of another row
const price = '12345678901234567890.10'

const select = { table: 'items', operation: 'select' } as const
const one = { ...select, id: '{{params.id}}' }
const fields = { id: { type: 'integer' }, price: { type: 'number' }, ids: { type: 'array', items: { type: 'integer' } } } as const
const number = { type: 'integer', required: true, minimum: 1, maximum: 9223372036854775000 } as const

const document: TestDocument = {
  tables: {
    items: {
      tenantScoped: true,
      softDelete: true,
      columns: {
        id: { type: 'bigint', primaryKey: true },
        name: { type: 'text' },
        price: { type: 'numeric' },
        data: { type: 'jsonb' },
        ids: { type: 'bigint[]' }
      }
    }
  },
  routes: [
    {
      method: 'get',
      path: '/items',
      queries: [{
        ...select,
        order: { column: 'id' },
        filters: [{ column: 'id', value: '{{query.id}}', optional: true }, {
          column: 'id',
          operator: 'gt',
          value: '{{query.after}}',
          optional: true
        }]
      }]
    },
    { method: 'get', path: '/items/:id', queries: [one] },
    { method: 'post', path: '/items', queries: [{ table: 'items', operation: 'insert' }] },
    { method: 'put', path: '/items', queries: [{ table: 'items', operation: 'upsert' }] },
    { method: 'patch', path: '/items/:id', queries: [{ table: 'items', operation: 'update', id: '{{params.id}}' }] },
    {
      method: 'post',
      path: '/checked',
      request: { body: { id: number, price: { type: 'number', minimum: 1 } } },
      queries: [{ table: 'items', operation: 'upsert' }]
    },
    {
      method: 'post',
      path: '/limited',
      request: { body: { id: { type: 'integer', maximum: Number(near) } } },
      queries: [{ table: 'items', operation: 'upsert' }]
    },
    {
      method: 'post',
      path: '/named',
      queries: [{
        table: 'items',
        operation: 'upsert',
        data: { id: '{{body.item.id}}', price: '{{body.item.price}}', name: 'no. {{body.item.id}} at {{body.item.price}}' }
      }]
    },
    {
      method: 'get',
      path: '/typed/:id',
      request: { params: { id: { type: 'integer' } }, query: { least: { type: 'number' } } },
      queries: [{ ...one, filters: [{ column: 'price', operator: 'gte', value: '{{query.least}}', optional: true }] }]
    },
    {
      method: 'get',
      path: '/mapped/:id',
      response: {
        key: '{{results.items.id}}',
        cost: '{{results.items.price}}',
        text: 'no. {{results.items.id}}',
        inside: '{{results.items.data}}',
        given: '{{params.id}}'
      },
      queries: [one]
    },
    { method: 'get', path: '/filtered/:id', response: { type: 'object', properties: fields }, queries: [one] },
    {
      method: 'get',
      path: '/filtered',
      response: { type: 'object', properties: fields },
      queries: [{ ...select, order: { column: 'id' } }]
    },
    {
      method: 'get',
      path: '/computed/:id',
      transform: {
        fields: {
          copy: 'item.data',
          own: 'item.id',
          again: 'item.price',
          next: 'item.id + 1',
          same: 'item.id == 9007199254740993 && item.price == item.data.p',
          twice: 'item.price * 2',
          said: 'string(item.price)'
        }
      },
      queries: [one]
    },
    {
      method: 'get',
      path: '/chained/:id',
      queries: [{ ...one, alias: 'first' }, { ...select, alias: 'second', id: '{{results.first.id}}' }]
    },
    {
      method: 'get',
      path: '/cached/:id',
      cache: { enabled: true, ttl: 60 },
      response: { key: '{{results.items.id}}', cost: '{{results.items.price}}' },
      queries: [one]
    },
    {
      method: 'post',
      path: '/steps',
      workflow: {
        steps: [
          {
            id: 'read',
            type: 'database',
            operation: 'select',
            table: 'items',
            filters: [{ column: 'id', operator: 'eq', value: '{{body.id}}' }],
            single: true
          },
          {
            id: 'again',
            type: 'database',
            operation: 'select',
            table: 'items',
            filters: [{ column: 'id', operator: 'eq', value: '{{steps.read.result.id}}' }],
            single: true
          }
        ]
      }
    },
    { method: 'post', path: '/papers', firebaseQueries: [{ collection: 'papers', operation: 'add' }] },
    {
      method: 'get',
      path: '/papers',
      firebaseQueries: [{ collection: 'papers', operation: 'query', filters: [{ column: 'n', value: '{{query.n}}', optional: true }] }]
    }
  ],
  workflows: [{
    id: 'look',
    steps: [
      {
        id: 'read',
        type: 'database',
        operation: 'select',
        table: 'items',
        filters: [{ column: 'id', operator: 'eq', value: '{{input.id}}' }],
        single: true
      },
      {
        id: 'again',
        type: 'database',
        operation: 'select',
        table: 'items',
        filters: [{ column: 'id', operator: 'eq', value: '{{steps.read.result.id}}' }],
        single: true
      }
    ]
  }]
}

const admin = { token: signToken({ role: 'admin', sub: 'ada', tenant_id: 'acme' }), tenant: 'acme' }
const platform = { token: signToken({ role: 'admin', sub: 'root' }), tenant: 'acme' }

async function fill (t: Test, ask: Ask): Promise<void> {
  const body =
    `[{"id":${large},"name":"large","price":${price},"data":{"n":${large},"p":${price}},"ids":[${large}]},{"id":${near},"name":"near","price":1,"data":{},"ids":[]}]`
  const { status, text } = await ask('POST /items', { raw: body })
  t.equal(status, 201, text)
}

test('digits of bigint and numeric columns', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, document, { engine, tenants: ['acme'] })
    const ask = caller(t, app, { tenant: 'acme' })
    await fill(t, ask)
    const row = `{"id":${large},"name":"large","price":${price},"data":{"n": ${large}, "p": ${price}},"ids":[${large}]}`

    await t.test('a row is found by its own id, in the path and in filters', async (t) => {
      for (
        const target of [
          `/items/${large}`,
          `/typed/${large}`,
          `/typed/${large}?least=12345678901234567890.1`,
          `/items?id=${large}`,
          `/items?after=${near}`
        ]
      ) {
        const { status, text } = await ask(`GET ${target}`)
        t.equal(status, 200, target)
        t.ok(text.includes(`"id":${large},`) && !text.includes(`"id":${near}`), `${target} ${text}`)
      }
      t.equal((await ask(`GET /typed/${large}?least=12345678901234567890.11`)).status, 404)
    })

    await t.test('mapping, response schema, transform, results and cache keep all digits', async (t) => {
      t.equal(
        (await ask(`GET /mapped/${large}`)).text,
        `{"key":${large},"cost":${price},"text":"no. ${large}","inside":{"n":${large},"p":${price}},"given":"${large}"}`
      )
      t.equal((await ask(`GET /filtered/${large}`)).text, `{"id":${large},"price":${price},"ids":[${large}]}`)
      t.match((await ask('GET /filtered')).text, new RegExp(`^\\{"data":\\[\\{"id":${near},.*\\{"id":${large},"price":${price},`))
      const { text } = await ask(`GET /computed/${large}`)
      t.ok(
        text.includes(
          `"copy":{"n":${large},"p":${price}},"own":${large},"again":${price},"next":9007199254740994,"same":true,"twice":24691357802469134000,"said":"${price}"`
        ),
        text
      )
      const chained = (await ask(`GET /chained/${large}`)).text
      t.equal(chained.split(`"id":${large},`).length, 3, chained)
      for (let times = 0; times < 2; times++) t.equal((await ask(`GET /cached/${large}`)).text, `{"key":${large},"cost":${price}}`)
    })

    await t.test('POST, PUT and PATCH accept a row that GET returned', async (t) => {
      const { text } = await ask(`GET /items/${large}`)
      const sent = text.replace(',"tenant_id":"acme","deleted":false,"deleted_at":null', '')
      t.equal(sent, row)
      for (
        const [target, body] of [['PUT /items', sent], ['PUT /items', `[${sent}]`], [`PATCH /items/${large}`, sent], [
          'POST /checked',
          `{"id":${large},"price":${price}}`
        ], ['POST /named', `{"item":{"id":${large},"price":${price}}}`]] as const
      ) {
        const response = await ask(target, { raw: body })
        t.ok([200, 201].includes(response.status), `${target} ${response.text}`)
        t.ok(
          response.text.includes(`"id":${large},`) && response.text.includes(`"price":${price},`) && response.text.includes(`"n": ${large}`),
          `${target} ${response.text}`
        )
      }
      t.match((await ask(`GET /items/${large}`)).body['name'], `no. ${large} at ${price}`)
      t.match((await ask(`GET /items/${near}`)).body, { name: 'near', price: 1 }, 'the other row is unchanged')
    })

    await t.test('rules for numbers are exact', async (t) => {
      t.match(await ask('POST /limited', { raw: `{"id":${large}}` }), {
        status: 400,
        body: { details: [{ path: '/body/id', keyword: 'maximum' }] }
      })
      t.ok([200, 201].includes((await ask('POST /limited', { raw: `{"id":${near}}` })).status))
      t.match(await ask('POST /checked', { raw: `{"id":${large}.5}` }), {
        status: 400,
        body: { details: [{ path: '/body/id', keyword: 'type' }] }
      })
      t.match(await ask('POST /checked', { raw: `{"id":-${large}}` }), {
        status: 400,
        body: { details: [{ path: '/body/id', keyword: 'minimum' }] }
      })
      for (const id of [price, '9223372036854775808', `-${'9'.repeat(30)}`]) {
        t.match(await ask('POST /items', { raw: `{"id":${id}}` }), {
          status: 400,
          body: { details: [{ path: '/body/id', keyword: 'type' }] }
        })
      }
      t.match(await ask('POST /items', { raw: `{"id":${large},"name":["x"],"extra":${large}}` }), { status: 400 })
      t.equal((await ask(`GET /typed/${price}`)).status, 400)
      for (const long of ['9'.repeat(100_000), `0.${'1'.repeat(100_000)}`, '1e100000']) {
        t.match(await ask('POST /items', { raw: `{"id":5,"price":${long}}` }), { status: 400, body: { code: 'BAD_REQUEST' } })
      }
    })

    await t.test('documents keep all digits', async (t) => {
      t.equal((await ask('POST /papers', { raw: `{"n":${large},"p":${price}}` })).status, 201)
      t.equal((await ask('POST /papers', { raw: `[{"n":${near}}]` })).status, 201)
      const { text } = await ask('GET /papers')
      for (const digits of [large, near, price]) {
        t.ok(text.includes(digits), text)
      }
    })

    await t.test('workflow steps keep all digits, in a request and as a job', async (t) => {
      const { status, text } = await ask('POST /steps', { raw: `{"id":${large}}` })
      t.equal(status, 200, text)
      t.ok(text.includes(`"id":${large},`) && text.includes(`"price":${price}`), text)
      const asAdmin = caller(t, app, admin)
      const inRequest = await asAdmin('POST /agent/workflow/run', { raw: `{"ref":"look","async":false,"input":{"id":${large}}}` })
      t.ok(inRequest.text.includes(`"id":${large},`), inRequest.text)
      const { body } = await asAdmin('POST /agent/workflow/run', { raw: `{"ref":"look","input":{"id":${large}}}` })
      let ended = ''
      await until('the run ends', async () => {
        ended = (await asAdmin(`GET /agent/workflow/status?workflowId=${String(body['workflowId'])}`)).text
        return ended.includes('"status":"completed","error"') || /"finishedAt":"[^"]+","steps"/.test(ended)
      })
      t.ok(ended.includes(`"id":${large},`) && ended.includes(`"price":${price}`), ended)
    })

    await t.test('administrators and publishers read and write all digits', async (t) => {
      const asAdmin = caller(t, app, admin)
      const listed = (await asAdmin(`GET /admin/entities/items?filter[id]=eq.${large}`)).text
      t.ok(listed.includes(`"id":${large},`) && !listed.includes(`"id":${near}`), listed)
      t.ok((await asAdmin(`GET /admin/entities/items/${large}`)).text.includes(`"id":${large},`))
      t.match(await asAdmin(`DELETE /admin/entities/items/${large}`), { status: 200 })
      t.equal((await ask(`GET /items/${near}`)).status, 200)
      t.equal((await ask(`GET /items/${large}`)).status, 404)
      t.ok((await asAdmin(`POST /admin/entities/items/${large}/restore`)).text.includes(`"id":${large},`))
      const published = await caller(t, app, platform)('POST /publish/entity', {
        raw: `{"table":"items","data":{"id":9007199254740995,"price":${price},"data":{"n":${large}}}}`
      })
      t.equal(published.status, 201, published.text)
      t.ok(
        published.text.includes('"id":9007199254740995,') && published.text.includes(price) && published.text.includes(large),
        published.text
      )
      const { body } = await app.inject({
        method: 'POST',
        url: '/publish/entity',
        headers: { authorization: `Bearer ${platform.token}`, 'x-tenant-id': 'acme', 'content-type': 'application/json' },
        payload: `{"table":"missing","data":{"whole":${large},"part":${price}}}`
      })
      t.match(body, /whole.{1,5}bigint.*part.{1,5}numeric/)
    })
  }))

test('webhooks send all digits', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true }
  const engine = { provider: 'postgres', postgres } as const
  const hears = await receiver(t)
  const app = await testServer(t, { ...document, egress: { allow: ['127.0.0.1'] } }, { engine, tenants: ['acme'] })
  const asAdmin = caller(t, app, admin)
  t.equal(
    (await asAdmin('POST /tenant/config', {
      body: { webhooks: [{ name: 'out', url: `${hears.origin}/`, events: ['entity.*', 'workflow.*'] }] }
    })).status,
    200
  )
  await fill(t, asAdmin)
  await asAdmin('POST /agent/workflow/run', { raw: `{"ref":"look","input":{"id":${large}}}` })
  await until('every event is delivered', () => hears.requests.length >= 3)
  for (const type of ['entity.created', 'workflow.completed']) {
    t.ok(
      hears.requests.some(({ body }) => body.includes(type) && body.includes(`"id":${large},`) && body.includes(`"price":${price}`)),
      type
    )
  }
})

test('calls to other services send and read all digits', async (t) => {
  const service = createServer((request, response) => {
    request.setEncoding('utf8').on('data', (text: string) => received.push(text))
      .on('end', () => response.setHeader('content-type', 'application/json').end(`{"id":${large},"cost":${price}}`))
  })
  const received: string[] = []
  await new Promise<void>((resolve) => {
    service.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => service.close())
  const address = service.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/`
  const call = {
    type: 'http',
    action: 'request',
    params: { method: 'POST', url, body: '{{results.items}}', query: { id: '{{results.items.id}}' } }
  }
  const app = await testServer(t, {
    ...document,
    egress: { allow: ['127.0.0.1'] },
    routes: [
      ...document.routes ?? [],
      {
        method: 'get',
        path: '/called/:id',
        queries: [one],
        integrations: [{ ...call, alias: 'service' }],
        response: { theirs: '{{results.service}}', whole: '{{results.service.id}}' }
      }
    ]
  }, { tenants: ['acme'] })
  const ask = caller(t, app, { tenant: 'acme' })
  await fill(t, ask)
  const { text } = await ask(`GET /called/${large}`)
  t.ok(text.includes(`"id":${large},"cost":${price}`) && text.includes(`"whole":${large}`), text)
  t.ok(received.join('').includes(`"id":${large},"name":"large","price":${price},"data":{"n":${large},"p":${price}}`), received.join(''))
})

test('responses in Redis and LMDB keep all digits', async (t) => {
  const { url } = await startRedis(t)
  for (
    const cache of [{ enabled: true, provider: 'redis', redis: { url } }, {
      enabled: true,
      provider: 'lmdb',
      lmdb: { dbPath: t.testdir() }
    }] as const
  ) {
    const app = await testServer(t, { ...document, cache }, { tenants: ['acme'] })
    const ask = caller(t, app, { tenant: 'acme' })
    await fill(t, ask)
    const text = `{"key":${large},"cost":${price}}`
    t.match(await ask(`GET /cached/${large}`), { headers: { 'x-cache': 'MISS' }, text })
    await until(`${cache.provider} has the response`, async () => {
      const response = await ask(`GET /cached/${large}`)
      t.equal(response.text, text)
      return response.headers['x-cache'] === 'HIT'
    })
  }
})
