import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { whenStopping } from '../../../lib/plugin/lifecycle.js'
import conventions from '../../../plugins/conventions/index.js'
import database from '../../../plugins/database/index.js'
import queue from '../../../plugins/queue/index.js'
import stop, { serverOptions, type StopOptions } from '../../../plugins/stop/index.js'
import { postgresDatabase } from '../../helpers/postgres.js'

const pluginTimeout = 2000 // ms; Fastify's own timeouts must not interrupt a drain that takes longer

interface Reply {
  readonly status: number | undefined
  readonly connection: string | undefined
  readonly body: string
}

interface Running {
  readonly app: FastifyInstance
  readonly port: number
  readonly events: string[]
  /** Resolves when the slow request is in its handler. */
  readonly entered: Promise<void>
  /** Lets the slow request respond. */
  readonly finish: () => void
  readonly get: (path: string, agent?: Agent) => Promise<Reply>
}

async function start (t: Test, options: StopOptions = {}): Promise<Running> {
  const events: string[] = []
  let enter = () => {}
  let finish = () => {}
  const entered = new Promise<void>((resolve) => {
    enter = resolve
  })
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const app = Fastify({ ...serverOptions, pluginTimeout })
  app.register(conventions, { root: true })
  app.register(stop, options)
  app.addHook('onClose', async () => {
    events.push('resources closed')
  })
  app.get('/slow', async () => {
    enter()
    await finished
    events.push('slow answered')
    return { done: true }
  })
  app.get('/', async () => ({ served: true }))
  app.get('/probe', { config: { probe: true } }, async () => ({ wanted: true }))
  app.register(async (app) => {
    whenStopping(app, async () => {
      events.push('stopping')
    })
  })
  const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  t.teardown(() => {
    finish()
    return app.close()
  })
  return { app, port, events, entered, finish, get: (path, agent) => get(port, path, agent) }
}

function get (port: number, path: string, agent = new Agent()): Promise<Reply> {
  return new Promise((resolve, reject) => {
    request({ port, path, agent, host: '127.0.0.1' }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (text: string) => {
        body += text
      })
      response.on('end', () => resolve({ status: response.statusCode, connection: response.headers.connection, body }))
    }).on('error', reject).end()
  })
}

t.test('during a stop, requests in flight finish, new ones get 503, and resources close last', async (t) => {
  const { app, events, entered, finish, get } = await start(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  await get('/', agent)
  const slow = get('/slow')
  await entered
  const closed = app.close()
  const onNewConnection = await get('/')
  const onKeptConnection = await get('/', agent)
  for (const refused of [onNewConnection, onKeptConnection]) {
    t.equal(refused.status, 503)
    t.equal(refused.connection, 'close')
    t.match(JSON.parse(refused.body), {
      error: 'Service Unavailable',
      code: 'TENANTRY_STOPPING',
      message: 'The server is stopping; try again on another server',
      requestId: String
    })
  }
  t.equal((await get('/missing')).status, 503, 'unknown paths too')
  t.same(events, ['stopping'])
  finish()
  t.match(await slow, { status: 200, body: '{"done":true}' })
  await closed
  t.same(events, ['stopping', 'slow answered', 'resources closed'])
  await t.rejects(get('/'), { code: 'ECONNREFUSED' })
})

t.test('a request that does not finish in time is aborted', async (t) => {
  const { app, events, entered, get } = await start(t, { timeoutMs: pluginTimeout + 500 })
  const cut = t.rejects(get('/slow'), { code: 'ECONNRESET' })
  await entered
  await app.close()
  await cut
  t.same(events, ['stopping', 'resources closed'])
})

t.test('work that ends when running requests have little time left gives them a response', async (t) => {
  const timeoutMs = 600_000
  const { app, entered, finish, get } = await start(t, { timeoutMs })
  app.stopping.ending.addEventListener('abort', finish)
  const slow = get('/slow')
  await entered
  const begin = globalThis.setTimeout
  t.intercept(globalThis, 'setTimeout', {
    // Nine tenths of the time are over at once.
    value: (work: () => void, ms?: number) => begin(work, ms === 0.9 * timeoutMs ? 0 : ms)
  })
  await app.close()
  t.match(await slow, { status: 200, body: '{"done":true}' })
})

t.test('a stop does not wait for a request whose client disconnected', async (t) => {
  const { app, port, entered } = await start(t, { timeoutMs: 60_000 })
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /slow HTTP/1.1\r\nHost: x\r\n\r\n')
  await entered
  socket.destroy()
  await once(socket, 'close')
  await app.close()
})

t.test('an idle connection does not delay the stop', async (t) => {
  const { app, port } = await start(t, { timeoutMs: 60_000 })
  const silent = connect(port, '127.0.0.1')
  await once(silent, 'connect')
  const ended = once(silent, 'close')
  silent.on('error', () => {})
  await app.close()
  await ended
})

t.test('stopping twice is one stop, and an app that never listened stops at once', async (t) => {
  const { app, events } = await start(t)
  await Promise.all([app.close(), app.close()])
  t.same(events, ['stopping', 'resources closed'])
  const unheard = Fastify()
  unheard.register(stop, { timeoutMs: 60_000 })
  await unheard.ready()
  await unheard.close()
})

t.test('injected requests do not delay the stop', async (t) => {
  const { app } = await start(t, { timeoutMs: 60_000 })
  t.equal((await app.inject('/')).statusCode, 200)
  await app.close()
})

t.test('during its delay a stopping server serves requests, rejects probes, and closes each connection after its response', async (t) => {
  const { app, port, events, entered, finish, get } = await start(t, { delayMs: 300_000 })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  t.match(await get('/', agent), { status: 200, connection: 'keep-alive' })
  t.equal((await get('/probe')).status, 200)
  const begun = get('/slow', new Agent({ keepAlive: true }))
  await entered
  const kept = connect(port, '127.0.0.1')
  t.teardown(() => kept.destroy())
  kept.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(kept, 'data')

  const closed = app.close()
  t.match(await get('/probe'), { status: 503, connection: 'close', body: /TENANTRY_STOPPING/ })
  t.match(await get('/', agent), { status: 200, connection: 'close' }, 'on a kept connection')
  t.match(await get('/'), { status: 200, connection: 'close' }, 'on a new connection')
  t.match(await get('/missing'), { status: 404, connection: 'close' })
  finish()
  t.match(await begun, { status: 200, connection: 'close' }, 'and requests that had begun before')
  t.same(events, ['stopping', 'slow answered'])
  // The server notices these only after it has begun to close.
  const opened = connect(port, '127.0.0.1')
  await once(opened, 'connect')
  const responses = [kept, opened].map(async (socket) => String((await once(socket, 'data'))[0]))
  for (const socket of [kept, opened]) socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  app.stopping.skipDelay()
  for (const response of await Promise.all(responses)) t.match(response, /^HTTP\/1\.1 503 .*\r\nconnection: close\r\n/is, 'rejected, not cut off')
  await closed
  t.same(events, ['stopping', 'slow answered', 'resources closed'])
  await t.rejects(get('/'), { code: 'ECONNREFUSED' })
})

t.test('the delay ends by itself; without a port, or when it is skipped, there is none', async (t) => {
  const { app, events, get } = await start(t, { delayMs: 1 })
  await get('/')
  await app.close()
  t.same(events, ['stopping', 'resources closed'])
  const hurried = await start(t, { delayMs: 300_000 })
  hurried.app.stopping.skipDelay()
  await hurried.app.close()
  const unheard = Fastify()
  unheard.register(stop, { delayMs: 300_000 })
  await unheard.ready()
  await unheard.close()
})

t.test('an app without this plugin reports its stop too, once', async (t) => {
  const app = Fastify()
  const order: string[] = []
  whenStopping(app, async () => {
    order.push('stopping')
  })
  app.addHook('onClose', async () => {
    order.push('closed')
  })
  await app.ready()
  await app.close()
  t.same(order, ['stopping', 'closed'])
})

t.test('work that fails during the stop is an error of the close, not of the process', async (t) => {
  for (const options of [{}, null]) {
    const app = Fastify()
    if (options !== null) app.register(stop, options)
    app.register(async (app) => whenStopping(app, async () => {
      throw new Error('not stored')
    }))
    // Time during which the rejection has no listener of its own.
    app.addHook('preClose', async () => { await turn() })
    await app.listen({ port: 0, host: '127.0.0.1' })
    await t.rejects(async () => { await app.close() }, { message: 'not stored' })
  }
})

t.test('an invalid delay is rejected', async (t) => {
  for (const delayMs of [-1, 0.5, NaN, 300_001]) {
    const app = Fastify()
    app.register(stop, { delayMs })
    await t.rejects(async () => {
      await app.ready()
    }, { message: `delayMs is ${delayMs}: expected a whole number from 0 to 300000` })
  }
})

t.test('resources of a running job close after it, even if registered later; the port is already free', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const events: string[] = []
  let enter = () => {}
  let finish = () => {}
  const entered = new Promise<void>((resolve) => {
    enter = resolve
  })
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const app = Fastify({ ...serverOptions, pluginTimeout: 0 })
  app.register(stop)
  app.register(database, { provider: 'postgres', postgres: { connectionString } })
  app.register(queue, { routes: false, workers: 1 })
  app.register(async (app) => {
    app.queue.define('long', {}, async () => {
      enter()
      await finished
      events.push('job ended')
    })
    app.addHook('onClose', async () => {
      events.push('resources closed')
    })
  })
  t.teardown(() => finish())
  await app.listen({ port: 0, host: '127.0.0.1' })
  await app.queue.send('long', { tenant: '', data: {} })
  await entered
  const ended = once(app.server, 'close')
  const closed = app.close()
  await ended
  // Everything that closes by itself has closed by then.
  for (let turns = 0; turns < 20; turns++) await turn()
  t.same(events, [])
  finish()
  await closed
  t.same(events, ['job ended', 'resources closed'])
})

t.test('work that waits for an unresponsive database is aborted at the deadline', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const app = Fastify({ pluginTimeout: 0 })
  app.register(stop, { timeoutMs: 100 })
  app.register(database, { provider: 'postgres', postgres: { connectionString, pool: { statementTimeoutMs: 600_000 } } })
  let written: unknown
  app.register(async (app) => {
    // Like figures in memory that are being written.
    app.addHook('onClose', async () => {
      written = await sql`select pg_sleep(600)`.execute(app.db).catch((error: unknown) => error)
    })
  })
  await app.ready()
  await app.close()
  t.match(written, { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
})

t.test('many uploads that wait for the stop caused a warning of a leak', async (t) => {
  const warnings: Error[] = []
  const note = (warning: Error) => {
    warnings.push(warning)
  }
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(stop)
  for (const signal of [app.stopping.signal, app.stopping.ending, app.stopping.overdue]) {
    for (let count = 0; count < 20; count++) signal.addEventListener('abort', () => {})
  }
  await turn()
  t.strictSame(warnings, [])
})
