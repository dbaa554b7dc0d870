/**
 * The plugins of docs/guides/embedding.md that work in the background or call other services, each in a bare Fastify app with the
 * dependencies that the guide names.
 */
import { once } from 'node:events'
import { request } from 'node:http'
import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify'
import t, { type Test } from 'tap'
import auth from '../../plugins/auth/index.js'
import conventions from '../../plugins/conventions/index.js'
import cors from '../../plugins/cors/index.js'
import database from '../../plugins/database/index.js'
import integrations from '../../plugins/integrations/index.js'
import openapi from '../../plugins/openapi/index.js'
import outbound from '../../plugins/outbound/index.js'
import queue from '../../plugins/queue/index.js'
import realtime from '../../plugins/realtime/index.js'
import tenancy from '../../plugins/tenancy/index.js'
import webhooks from '../../plugins/webhooks/index.js'
import workflows from '../../plugins/workflows/index.js'
import { postgresDatabase, postgresSection } from '../helpers/postgres.js'
import { remote } from '../helpers/remote.js'
import { testMasterKey } from '../helpers/server.js'
import { signToken, testSecret } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { caller } from '../http/caller.js'

const admin = signToken({ sub: 'root', role: 'admin' })

/** An app that is closed when the test ends. */
function bare (t: Test): FastifyInstance {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  return app
}

async function withDatabase (t: Test): Promise<FastifyInstance> {
  const app = bare(t)
  await app.register(database, await postgresSection(t))
  return app
}

t.test('outbound has no dependencies', async (t) => {
  const there = await remote(t, (_request, response) => {
    response.end('here')
  })
  const app = bare(t)
  await app.register(outbound)
  const call = { tenant: 'acme', method: 'GET', url: there.origin, headers: {} }
  t.equal((await app.outbound.request({ ...call, trusted: true })).body.toString(), 'here')
  await t.rejects(app.outbound.request({ ...call, trusted: false }), { code: 'TENANTRY_ADDRESS_REFUSED' })
})

t.test('queue needs a database', async (t) => {
  const app = await withDatabase(t)
  await app.register(queue, { routes: false })
  const done: unknown[] = []
  app.queue.define('greet', {}, async ({ data }) => {
    done.push(data)
  })
  await app.ready()
  await app.queue.send('greet', { tenant: '', data: { name: 'Ada' } })
  await until('the job is done', async () => done.length > 0)
  t.strictSame(done, [{ name: 'Ada' }])
})

t.test('a queue in a context below the app runs its jobs', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const app = bare(t)
  const done: unknown[] = []
  await app.register(async (below) => {
    await below.register(database, { provider: 'postgres', postgres: { connectionString } })
    await below.register(queue, { routes: false })
    below.queue.define('greet', {}, async ({ data }) => {
      done.push(data)
    })
    below.addHook('onListen', () => below.queue.send('greet', { tenant: '', data: { name: 'Ada' } }).then(() => {}))
  })
  await app.listen({ port: 0 })
  await until('the job is done', async () => done.length > 0)
})

t.test('upgrades that none of two contexts with realtime takes get a response', async (t) => {
  const app = bare(t)
  const engine = await postgresSection(t)
  for (const prefix of ['/a', '/b']) {
    await app.register(async (below) => {
      await below.register(database, engine)
      await below.register(auth, { jwt: { secret: testSecret } })
      await below.register(tenancy)
      await below.register(realtime)
    }, { prefix })
  }
  const origin = await app.listen({ port: 0 })
  for (const [path, status] of [['/unknown', 404], ['/a/realtime', 101], ['/b/realtime', 101]] as const) {
    const headers = {
      connection: 'upgrade',
      upgrade: 'websocket',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'sec-websocket-version': '13'
    }
    const sent = request(`${origin}${path}`, { headers }).end()
    const [response]: unknown[] = await Promise.race([once(sent, 'response'), once(sent, 'upgrade')])
    t.match(response, { statusCode: status }, path)
    sent.destroy()
  }
})

t.test('a server that asks which requests upgrade serves those with a body itself that no context with realtime takes', async (t) => {
  const app = bare(t)
  let isAllowed = true
  // Later versions of Node have the member themselves.
  Reflect.set(app.server, 'shouldUpgradeCallback', () => isAllowed)
  const engine = await postgresSection(t)
  for (const prefix of ['/a', '/b']) {
    await app.register(async (below) => {
      await below.register(database, engine)
      await below.register(auth, { jwt: { secret: testSecret } })
      await below.register(tenancy)
      await below.register(realtime)
    }, { prefix })
  }
  await app.ready()
  const upgrades = (url: string, upgrade: string, ofBody: object = { 'content-length': '2' }): unknown => {
    const decide: unknown = Reflect.get(app.server, 'shouldUpgradeCallback')
    return typeof decide === 'function' ? Reflect.apply(decide, app.server, [{ url, headers: { upgrade, ...ofBody } }]) : decide
  }
  t.equal(upgrades('/a/realtime', 'websocket'), true)
  t.equal(upgrades('/b/realtime', 'WebSocket'), true)
  t.equal(upgrades('/a/realtime', 'h2c'), false)
  t.equal(upgrades('/a/realtime', 'h2c', { 'transfer-encoding': 'chunked' }), false)
  t.equal(upgrades('/unknown', 'websocket'), false)
  t.equal(upgrades('/unknown', 'h2c', {}), true, 'one without a body is read again')
  isAllowed = false
  t.equal(upgrades('/a/realtime', 'websocket'), false, 'the choice of the embedding program counts')
  isAllowed = true
  app.server.on('upgrade', () => {})
  t.equal(upgrades('/unknown', 'websocket'), true, 'another listener decides itself')
})

t.test('integrations need a database, tenancy and outbound', async (t) => {
  const there = await remote(t, (_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"to":"Ada"}')
  })
  const app = await withDatabase(t)
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(outbound)
  await app.register(integrations, {
    customIntegrations: [{
      name: 'greeter',
      baseUrl: there.origin,
      actions: { greet: { method: 'POST', path: '/greetings', body: { to: '{{params.name}}' } } }
    }]
  })
  const reply = await caller(t, app, { token: admin })('POST /integrations/greeter/greet', { body: { name: 'Ada' } })
  t.match(reply, { status: 200, body: { to: 'Ada' } })
  t.match(there.requests, [{ method: 'POST', path: '/greetings', body: '{"to":"Ada"}' }])
})

t.test('workflows need a database, tenancy and queue', async (t) => {
  const app = await withDatabase(t)
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(queue)
  await app.register(workflows, {
    workflows: [{ id: 'greet', steps: [{ id: 'text', type: 'llm', prompt: 'Greet {{input.name}}', model: 'none' }] }],
    steps: { llm: { run: async ({ prompt }) => ({ text: prompt }) } }
  })
  const ask = caller(t, app, { token: admin })
  const { status, body } = await ask('POST /agent/workflow/run', { body: { ref: 'greet', input: { name: 'Ada' } } })
  t.match([status, body], [202, { status: 'queued' }])
  const read = async () => (await ask(`GET ${String(body['statusUrl'])}`)).body
  await until('the run ends', async () => (await read())['status'] === 'completed')
  t.match(await read(), { workflow: 'greet', result: { text: 'Greet Ada' }, steps: [{ id: 'text', status: 'completed' }] })
})

t.test('webhooks need a database and outbound', async (t) => {
  const receiver = await remote(t, (_request, response) => {
    response.end()
  })
  const app = await withDatabase(t)
  await app.register(outbound)
  await app.register(webhooks, {
    routes: false,
    masterKey: testMasterKey,
    webhooks: [{ name: 'crm', url: receiver.origin, events: ['entity.*'] }]
  })
  await app.ready()
  await app.db.transaction().execute((transaction) =>
    app.webhooks.emit(transaction, {
      tenant: '',
      type: 'entity.created',
      subject: 'notes:1',
      data: { table: 'notes', id: 1 },
      at: new Date()
    })
  )
  app.webhooks.wake()
  await until('the event arrives', async () => receiver.requests.length > 0)
  t.match(receiver.requests[0], { method: 'POST', headers: { 'webhook-signature': /^v1,/ } })
  t.match(JSON.parse(receiver.requests[0]?.body ?? ''), { type: 'entity.created', data: { table: 'notes', id: 1 } })
})

t.test('each plugin names its missing dependencies', async (t) => {
  const needs: [string, FastifyPluginAsync, string][] = [
    ['queue', queue, 'database'],
    ['integrations', integrations, 'database'],
    ['workflows', workflows, 'database'],
    ['webhooks', webhooks, 'database']
  ]
  for (const [name, plugin, needed] of needs) {
    await t.rejects(
      async () => {
        await bare(t).register(plugin)
      },
      { message: new RegExp(`^register the plugin "tenantry/plugins/${needed}" before `) },
      name
    )
  }
})

t.test('a document listed routes of a sibling context, and paths of a second context had no methods', async (t) => {
  const app = bare(t)
  for (const name of ['a', 'b']) {
    await app.register(async (context) => {
      await context.register(cors, { origins: [`https://${name}.example.com`] })
      await context.register(conventions, { root: true })
      context.delete('/earlier', async () => name)
      await context.register(openapi, { ui: false })
      context.get('/later', async () => name)
    }, { prefix: `/${name}` })
  }
  for (const name of ['a', 'b']) {
    const { paths } = (await app.inject(`/${name}/doc`)).json()
    t.strictSame(Object.keys(paths).filter((path) => !path.endsWith('/doc')), [`/${name}/earlier`, `/${name}/later`])
    const { statusCode, headers } = await app.inject(`/${name}/earlier`)
    t.match({ statusCode, allow: headers.allow }, { statusCode: 405, allow: 'DELETE, OPTIONS' })
    const preflight = await app.inject({
      url: `/${name}/earlier`,
      method: 'OPTIONS',
      headers: { origin: `https://${name}.example.com`, 'access-control-request-method': 'DELETE' }
    })
    t.equal(preflight.headers['access-control-allow-methods'], 'DELETE, OPTIONS')
  }
})

t.test('realtime whose tables the database does not watch rejected every watch', async (t) => {
  const app = bare(t)
  const tables = { notes: { columns: { id: { type: 'uuid', primaryKey: true }, tenant_id: { type: 'text' } } } } as const
  await app.register(database, { tables, watched: { tasks: {} } })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await t.rejects(async () => await app.register(realtime, { tables: { notes: {} } }), {
    message: /^realtime needs the recorded changes of "notes": register the plugin "tenantry\/plugins\/database" with the option `watched`/
  })
})
