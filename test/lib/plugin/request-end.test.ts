import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { endStatusOf, whenEnded } from '../../../lib/plugin/request-end.js'
import { gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'

/** Fastify with only listeners, and the requests that each of them received: `GET /url 200`. */
function open (t: Test, prepare: (app: FastifyInstance) => void = () => {}, count = 1) {
  const lines: string[] = []
  const app = Fastify({
    logger: {
      level: 'error',
      stream: {
        write (line: string) {
          lines.push(line)
        }
      }
    }
  })
  t.teardown(() => app.close())
  prepare(app)
  const heard = Array.from({ length: count }, (): string[] => [])
  const times: number[] = []
  for (const own of heard) {
    whenEnded(app, (request, reply, ms) => {
      own.push(`${request.method} ${request.url} ${endStatusOf(request, reply)}`)
      times.push(ms)
    })
  }
  return { app, heard, times, lines }
}

t.test('every listener receives each request of its app once, and no others', async (t) => {
  const [{ app, heard, times }, { app: other, heard: others }] = [open(t, undefined, 3), open(t)]
  for (const each of [app, other]) each.get('/', async () => 'answer')
  app.get('/refused', {
    onRequest: async () => {
      throw Object.assign(new Error('no'), { statusCode: 403 })
    }
  }, async () => 'never')
  app.get('/hijacked', (_request, reply) => {
    reply.hijack()
    reply.raw.end('answer')
  })
  app.register(async (group) => {
    const inGroup: string[] = []
    whenEnded(group, ({ url }) => {
      inGroup.push(url)
    })
    group.get('/heard', async () => inGroup)
  }, { prefix: '/group' })
  const origin = await listen(app)
  for (const url of ['/', '/refused', '/hijacked', '/nowhere', '/group/heard']) await app.inject(url)
  for (const url of ['/', '/group/heard']) await (await fetch(origin + url)).text()
  const expected = [
    'GET / 200',
    'GET /refused 403',
    'GET /hijacked 200',
    'GET /nowhere 404',
    'GET /group/heard 200',
    'GET / 200',
    'GET /group/heard 200'
  ]
  await until('all have ended', () => heard.every((own) => own.length >= expected.length))
  for (const own of heard) t.strictSame(own, expected)
  t.strictSame((await app.inject('/group/heard')).json(), ['/group/heard', '/group/heard'])
  t.ok(times.length > 0)
  t.ok(times.every((ms) => ms > 0 && ms < 60_000))
  await other.inject('/')
  t.strictSame(others, [['GET / 200']])
})

t.test('a failing listener neither silences others nor crashes the process', async (t) => {
  const { app, heard, lines } = open(t, (app) =>
    whenEnded(app, () => {
      throw new Error('on purpose')
    }))
  t.equal((await app.inject('/')).statusCode, 404)
  t.strictSame(heard, [['GET / 404']])
  t.match(lines, [/on purpose/])
})

t.test('a disconnect is reported once, however many requests are queued on the connection', async (t) => {
  const [hall, porch] = [gate(), gate()]
  let arrived = 0
  // Before the listener for its end is added.
  const { app, heard: [heard = []] } = open(t, (app) => {
    app.addHook('onRequest', async ({ url }) => {
      if (url !== '/porch') return
      arrived++
      await porch.opened
    })
  })
  const answered: string[] = []
  app.get('/hall', async ({ raw }) => {
    arrived++
    await hall.opened
    answered.push(String(raw.url))
    return 'answer'
  })
  app.get('/porch', async () => 'answer')
  app.get('/', async () => {
    arrived++
    return 'answer'
  })
  const port = Number(new URL(await listen(app)).port)
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`
  async function begin (...paths: string[]) {
    const expected = arrived + paths.length
    const socket = connect(port, '127.0.0.1')
    socket.write(paths.map(get).join(''))
    await until('they have arrived', () => arrived === expected)
    return socket
  }

  const warnings: Error[] = []
  process.on('warning', (warning) => warnings.push(warning))
  const many = await begin('/hall', ...Array.from({ length: 20 }, () => '/'), '/hall')
  many.destroy()
  await until('all of one connection', () => heard.length === 22)
  t.strictSame(heard.toSorted(), [...Array.from({ length: 20 }, () => 'GET / 200'), 'GET /hall 499', 'GET /hall 499'])
  t.strictSame(warnings, [])

  const left = await begin('/porch', '/porch')
  left.destroy()
  await until(
    'the server has noticed',
    async () => await new Promise((resolve) => app.server.getConnections((_error, count) => resolve(count === 0)))
  )
  porch.open()
  await until('those that disconnected before a listener was added', () => heard.length === 24)

  const stays = await begin('/hall', '/', '/hall')
  hall.open()
  let received = ''
  while (received.split('answer').length < 4) received += String((await once(stays, 'data'))[0])
  await until('those that waited and got a response', () => heard.length === 27)
  stays.destroy()
  await until('the handlers have ended', () => answered.length === 4)
  t.strictSame(heard.slice(24), ['GET /hall 200', 'GET / 200', 'GET /hall 200'])
})
