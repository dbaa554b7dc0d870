import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { test } from 'tap'
import { failure, retryIn } from '../../../lib/errors.js'
import { fakeClock } from '../../helpers/clock.js'
import { gate } from '../../helpers/gate.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { listen } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { open } from './app.js'

const config = { access: 'user' } as const
const length = 8 // bytes of each body
const body = { an: 'answer' }

test('a caller who disconnects after its body was read is counted', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const begun: string[] = []
  const ended: string[] = []
  const [handlers, hooks] = [gate(), gate()]
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, {
    now: fakeClock().now,
    tenants: { acme: 'much' },
    routes (group) {
      // Before the request's tenant is known.
      group.addHook('onRequest', async ({ url }) => {
        if (!url.startsWith('/unidentified')) return
        begun.push(url)
        await hooks.opened
      })
      group.addHook('onError', async ({ url }) => {
        ended.push(url)
      })
      group.post('/waiting', { config }, async ({ url }) => {
        begun.push(url)
        await handlers.opened
        ended.push(url)
        return body
      })
      group.post('/at-once', { config }, async ({ url }) => {
        begun.push(url)
        return body
      })
      group.delete('/unidentified', { config }, async ({ url }) => {
        ended.push(url)
        return body
      })
      group.delete('/unidentified/limited', {
        config,
        onRequest: async (request) => {
          request.rateLimited = true
          throw failure('rateLimited', retryIn(1))
        }
      }, async () => body)
    }
  })
  const port = Number(new URL(await listen(app)).port)
  let connections = 0
  app.server.on('connection', (socket) => {
    connections++
    socket.on('close', () => connections--)
  })
  const token = signToken({ tenant_id: 'acme', sub: 'ada' })
  const head = (line: string, sent = token) => `${line} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${sent}\r\n`
  const post = (path: string) => `${head(`POST ${path}`)}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n{"a":12}`
  const remove = (path: string, sent?: string) => `${head(`DELETE ${path}`, sent)}\r\n`

  /** Sends the requests on one connection, and disconnects when the server has started all of them. */
  async function leave (...requests: string[]): Promise<void> {
    const before = begun.length
    const socket = connect(port, '127.0.0.1')
    socket.write(requests.join(''))
    await until('they have begun', () => begun.length === before + requests.length)
    socket.destroy()
    await until('the server has noticed the disconnect', () => connections === 0)
  }
  async function counted (): Promise<{ calls: number, bytes: number }> {
    const { api_calls: calls, bandwidth_bytes: bytes } = await app.usage.summary('acme')
    return { calls, bytes }
  }

  await leave(post('/waiting'))
  t.same(await counted(), { calls: 1, bytes: length }, 'while its handler still runs')

  // Node does not notify their responses: the first holds the connection.
  await leave(post('/waiting'), post('/waiting'), post('/at-once'))
  t.same(await counted(), { calls: 4, bytes: 4 * length }, 'those that wait behind it, answered or not; no response was sent')

  await leave(remove('/unidentified'), remove('/unidentified'))
  await leave(remove('/unidentified', `${token}x`))
  await leave(remove('/unidentified/limited'))
  t.same(await counted(), { calls: 4, bytes: 4 * length }, 'before their tenant is known they count for none')
  hooks.open()
  await until('the handlers have run, and others were rejected', () => ended.length === 4)
  t.same(await counted(), { calls: 6, bytes: 4 * length }, 'afterwards they count, except rejected ones')

  handlers.open()
  await until('all have ended', () => ended.length === 7)
  t.same(await counted(), { calls: 6, bytes: 4 * length }, 'each counts once, whatever its handler does later')

  const injected = await app.inject({ method: 'POST', url: '/at-once', headers: { authorization: `Bearer ${token}` }, payload: { a: 12 } })
  t.same(await counted(), { calls: 7, bytes: 5 * length + injected.body.length }, 'without a port')
})

test('a body that is cut off counts no earlier traffic of its connection', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const part = 'x'.repeat(1000)
  let begun = 0
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, {
    now: fakeClock().now,
    tenants: { acme: 'much', globex: 'much' },
    routes (group) {
      // The tenant of the request is known.
      group.addHook('preParsing', async () => {
        begun++
      })
      group.post('/echo', { config }, async ({ body }) => body)
      group.get('/unfinished', { config }, async (_request, reply) => {
        const stream = new Readable({ read () {} })
        stream.push(part)
        return reply.header('content-length', 500_000).send(stream)
      })
    }
  })
  const port = Number(new URL(await listen(app)).port)
  const head = (line: string, tenant: string, more = '') =>
    `${line} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${signToken({ tenant_id: tenant, sub: 'ada' })}\r\n${more}\r\n`
  const post = (tenant: string, size: number, sent: string) =>
    head('POST /echo', tenant, `content-type: application/json\r\ncontent-length: ${size}\r\n`) + sent
  const large = JSON.stringify({ text: 'y'.repeat(200_000) })
  let [calls, bytes] = [0, 0]

  /** Sends the request of globex on a connection that acme used before, as a proxy does, and leaves. Returns the bytes it counts. */
  async function leave (request: string, isSeen: (received: string) => boolean): Promise<number> {
    const socket = connect(port, '127.0.0.1')
    let received = ''
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
    })
    socket.write(post('acme', large.length, large))
    await until('the response to acme', () => received.endsWith(large))
    received = ''
    const earlier = begun
    socket.write(request)
    await until('a part is transferred', () => begun > earlier && isSeen(received))
    socket.destroy()
    await until('the request is counted', async () => (await app.usage.summary('globex')).api_calls > calls)
    const before = bytes
    const summary = await app.usage.summary('globex')
    calls = summary.api_calls
    bytes = summary.bandwidth_bytes
    return bytes - before
  }

  const ofUpload = await leave(post('globex', 500_000, `{"text":"${part}`), () => true)
  t.ok(ofUpload >= part.length && ofUpload < 3000, `its part of the upload: ${ofUpload}`)
  const ofDownload = await leave(head('GET /unfinished', 'globex'), (received) => received.endsWith(part))
  t.ok(ofDownload >= part.length && ofDownload < 3000, `its part of the download: ${ofDownload}`)
  t.equal((await app.usage.summary('acme')).bandwidth_bytes, 4 * large.length, 'acme counts the rest')
})
