import Fastify, { type FastifyInstance } from 'fastify'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import conventions from '../../plugins/conventions.js'
import stop, { serverOptions, type StopOptions } from '../../plugins/stop.js'

interface Answer {
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
  /** Lets the slow request answer. */
  readonly finish: () => void
  readonly get: (path: string, agent?: Agent) => Promise<Answer>
}

async function start (t: Test, options: StopOptions = {}): Promise<Running> {
  const events: string[] = []
  let enter = () => {}
  let finish = () => {}
  const entered = new Promise<void>((resolve) => { enter = resolve })
  const finished = new Promise<void>((resolve) => { finish = resolve })
  // Shorter than a drain may last: none of Fastify's own time-outs may cut it.
  const app = Fastify({ ...serverOptions, pluginTimeout: 200 })
  app.register(conventions, { root: true })
  app.register(stop, options)
  app.addHook('onClose', async () => { events.push('resources closed') })
  app.get('/slow', async () => {
    enter()
    await finished
    events.push('slow answered')
    return { done: true }
  })
  app.get('/', async () => ({ served: true }))
  const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  t.teardown(() => {
    finish()
    return app.close()
  })
  return { app, port, events, entered, finish, get: (path, agent) => get(port, path, agent) }
}

function get (port: number, path: string, agent = new Agent()): Promise<Answer> {
  return new Promise((resolve, reject) => {
    request({ port, path, agent, host: '127.0.0.1' }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (text: string) => { body += text })
      response.on('end', () => resolve({ status: response.statusCode, connection: response.headers.connection, body }))
    }).on('error', reject).end()
  })
}

t.test('while it stops, requests in flight finish, new ones get 503, and resources close last', async (t) => {
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
    t.match(JSON.parse(refused.body), { error: 'Service Unavailable', code: 'TENANTRY_STOPPING', message: 'The server is stopping; try again elsewhere', requestId: String })
  }
  t.equal((await get('/missing')).status, 503, 'unknown paths too')
  t.same(events, [])
  finish()
  t.match(await slow, { status: 200, body: '{"done":true}' })
  await closed
  t.same(events, ['slow answered', 'resources closed'])
  await t.rejects(get('/'), { code: 'ECONNREFUSED' })
})

t.test('a request that does not finish in time is cut off', async (t) => {
  const { app, events, entered, get } = await start(t, { timeoutMs: 400 })
  const cut = t.rejects(get('/slow'), { code: 'ECONNRESET' })
  await entered
  await app.close()
  await cut
  t.same(events, ['resources closed'])
})

t.test('a request that its client gave up is not waited for', async (t) => {
  const { app, port, entered } = await start(t, { timeoutMs: 60_000 })
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /slow HTTP/1.1\r\nHost: x\r\n\r\n')
  await entered
  socket.destroy()
  await once(socket, 'close')
  await app.close()
})

t.test('a connection that sends nothing does not hold the stop up', async (t) => {
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
  t.same(events, ['resources closed'])
  const unheard = Fastify()
  unheard.register(stop, { timeoutMs: 60_000 })
  await unheard.ready()
  await unheard.close()
})

t.test('requests that are injected do not hold the stop up', async (t) => {
  const { app } = await start(t, { timeoutMs: 60_000 })
  t.equal((await app.inject('/')).statusCode, 200)
  await app.close()
})
