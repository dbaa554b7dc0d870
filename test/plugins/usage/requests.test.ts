import { once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { failure, retryIn } from '../../../lib/errors.js'
import { fakeClock } from '../../helpers/clock.js'
import { postgresSection } from '../../helpers/postgres.js'
import { listen } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { ledgerOf, open } from './app.js'

const text = 'ä'.repeat(5000) // 10,000 bytes
const megabytes = Buffer.alloc(30_000_000, 'x')
const config = { access: 'user' } as const

function routes (app: FastifyInstance): void {
  const held: (() => void)[] = []
  app.get('/text', { config }, async () => text)
  app.get('/buffer', { config }, async () => Buffer.from(text))
  app.post('/length', { config }, async ({ body }) => ({ length: JSON.stringify(body).length }))
  app.get('/not-modified', { config }, async (_request, reply) => reply.code(304).header('content-length', '10000').send())
  app.get('/empty', { config }, async (_request, reply) => reply.code(204).send())
  app.get('/stream', { config }, async (_request, reply) => reply.send(Readable.from([text, Buffer.from(text)])))
  app.get(
    '/stream-of-length',
    { config },
    async (_request, reply) => reply.header('content-length', '10000').send(Readable.from([Buffer.from(text)]))
  )
  app.get('/web-stream', { config }, async (_request, reply) => reply.send(new Blob([text]).stream()))
  app.get('/response', { config }, async (_request, reply) => reply.send(new Response(text, { status: 202, headers: { 'x-mine': 'yes' } })))
  app.get('/no-content-response', { config }, async (_request, reply) => reply.send(new Response(null, { status: 204 })))
  app.get('/replaced', {
    config,
    onSend: async (_request, _reply, payload) => payload instanceof Readable ? payload.map(() => 'four') : payload
  }, async (_request, reply) => reply.send(Readable.from([text])))
  app.get('/fails', { config }, async () => {
    throw failure('conflict')
  })
  app.post('/fails-early', {
    config,
    onRequest: async () => {
      throw failure('conflict')
    }
  }, async () => '')
  app.get('/late', { config }, (_request, reply) => {
    reply.hijack()
    reply.raw.write('begun')
    held.push(() => reply.raw.end('too late'))
  })
  app.get('/refused', {
    config,
    onRequest: async (request) => {
      request.rateLimited = true
      throw failure('rateLimited', retryIn(1))
    }
  }, async () => '')
  app.get('/hijacked', { config }, (_request, reply) => {
    reply.hijack()
    reply.raw.end(text)
  })
  app.get('/large', { config }, async () => megabytes)
  app.get('/large-stream', { config }, async (_request, reply) =>
    reply.send(Readable.from(async function * () {
      for (;;) yield megabytes.subarray(0, 100_000)
    }())))
  app.get('/held', { config }, async () => {
    await new Promise<void>((resolve) => held.push(resolve))
    return text
  })
  app.get('/release', async () => {
    for (const release of held.splice(0)) release()
    return ''
  })
}

test('every request of a tenant counts once, with the bytes of its bodies', async (t) => {
  const { app } = await open(t, await postgresSection(t), {
    now: fakeClock().now,
    tenants: { acme: 'much' },
    routes
  })
  const origin = await listen(app)
  const port = Number(new URL(origin).port)
  const authorization = `Bearer ${signToken({ tenant_id: 'acme', sub: 'ada' })}`
  const headers = { authorization }

  let last = { calls: 0, bytes: 0 }
  /** The counts since the last call. */
  async function counted (): Promise<{ calls: number, bytes: number }> {
    await app.usage.flush()
    const ledger = await ledgerOf(app)
    const now = { calls: ledger['acme api_calls 2026-06'] ?? 0, bytes: ledger['acme bandwidth_bytes 2026-06'] ?? 0 }
    const since = { calls: now.calls - last.calls, bytes: now.bytes - last.bytes }
    last = now
    return since
  }
  async function ask (path: string, init: RequestInit & { duplex?: 'half' } = {}): Promise<number> {
    const response = await fetch(origin + path, { ...init, headers: { ...headers, ...init.headers } })
    await response.arrayBuffer()
    return response.status
  }

  const cases: [path: string, status: number, bytes: number, method?: string][] = [
    ['/text', 200, 10_000],
    ['/buffer', 200, 10_000],
    ['/text', 200, 0, 'HEAD'],
    ['/stream', 200, 0, 'HEAD'],
    ['/not-modified', 304, 0],
    ['/empty', 204, 0],
    ['/stream', 200, 20_000],
    ['/stream-of-length', 200, 10_000],
    ['/web-stream', 200, 10_000],
    ['/response', 202, 10_000],
    ['/no-content-response', 204, 0],
    ['/replaced', 200, 4],
    ['/hijacked', 200, 0]
  ]
  for (const [path, status, bytes, method = 'GET'] of cases) {
    t.equal(await ask(path, { method }), status, path)
    t.same(await counted(), { calls: 1, bytes }, `${method} ${path}`)
  }
  const conflict = await fetch(`${origin}/fails`, { headers })
  t.same([conflict.status, await counted()], [409, { calls: 1, bytes: Number(conflict.headers.get('content-length')) }], 'an error')
  t.equal((await conflict.text()).length, Number(conflict.headers.get('content-length')))

  t.equal(await ask('/refused'), 429)
  t.equal((await fetch(`${origin}/text`)).status, 401)
  t.equal(await ask('/nowhere'), 404)
  t.same(await counted(), { calls: 0, bytes: 0 }, "a rate limited, an anonymous, and an unknown path's request")

  const body = JSON.stringify({ text })
  const json = { 'content-type': 'application/json' }
  t.equal(await ask('/length', { method: 'POST', body, headers: json }), 200)
  t.same(await counted(), { calls: 1, bytes: Buffer.byteLength(body) + '{"length":5011}'.length }, 'a body of known length')
  t.equal(await ask('/length', { method: 'POST', body: new Blob([body]).stream(), headers: json, duplex: 'half' }), 200)
  t.same(await counted(), { calls: 1, bytes: Buffer.byteLength(body) + '{"length":5011}'.length }, 'a chunked one')

  /** Sends the text, and closes the connection when the test says so. */
  async function send (sent: string, close: Promise<unknown> | ((received: Buffer) => boolean)): Promise<void> {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(sent)
    if (close instanceof Promise) await close
    else {
      let received = Buffer.alloc(0)
      for await (const chunk of socket) {
        received = Buffer.concat([received, chunk])
        if (close(received)) break
      }
    }
    socket.destroy()
  }
  const head = (line: string, more = '') => `${line} HTTP/1.1\r\nhost: a\r\nauthorization: ${authorization}\r\n${more}\r\n`
  const responses = (received: Buffer) => received.toString('latin1').split('HTTP/1.1 ').length - 1

  await send(
    head('GET /text') + head('HEAD /text') + head('POST /length', 'content-type: application/json\r\ncontent-length: 2\r\n') + '{}' +
      head('GET /empty'),
    (received) => responses(received) === 4
  )
  await until('pipelined requests', async () => (await app.usage.summary('acme')).api_calls === last.calls + 4)
  t.same(await counted(), { calls: 4, bytes: 10_000 + 2 + '{"length":2}'.length })

  const started = new Promise<void>((resolve) =>
    app.server.on('request', ({ url }: { url: string }) => {
      if (url === '/held?3') resolve()
    })
  )
  await send(head('GET /held?1') + head('GET /held?2') + head('GET /held?3'), started)
  await until('aborted requests', async () => (await app.usage.summary('acme')).api_calls === last.calls + 3)
  await ask('/release')
  t.same(await counted(), { calls: 3, bytes: 0 }, 'they count once, and nothing was sent to them')

  await send(
    head('POST /length', 'content-type: application/json\r\ncontent-length: 900000\r\n') + '{"a":"',
    new Promise((resolve) => setImmediate(resolve))
  )
  await until('an aborted upload', async () => (await app.usage.summary('acme')).api_calls === last.calls + 1)
  t.ok((await counted()).bytes < 1000, 'bytes that did not arrive do not count')

  await send(
    head('POST /length', 'content-type: application/json\r\ncontent-length: 90000000\r\n') + '{"a":"',
    (received) => received.includes('413')
  )
  await until('a rejected body', async () => (await app.usage.summary('acme')).api_calls === last.calls + 1)
  t.ok((await counted()).bytes < 2000)

  await send(
    head('POST /fails-early', 'content-type: application/json\r\ncontent-length: 90000\r\n') + '{"a":"',
    (received) => received.includes('409')
  )
  await send(head('GET /late'), (received) => received.includes('begun'))
  await until(
    'a response before the body arrived, and an aborted one',
    async () => (await app.usage.summary('acme')).api_calls === last.calls + 2
  )
  await ask('/release')
  await ask('/empty')
  t.equal((await counted()).calls, 3, 'each counts once, whatever is written late')

  for (const path of ['/large', '/large-stream']) {
    await send(head(`GET ${path}`), (received) => received.length > 200_000)
    await until(`an aborted download of ${path}`, async () => (await app.usage.summary('acme')).api_calls === last.calls + 1)
    const { bytes } = await counted()
    // A body in one piece is handed to the connection as a whole.
    t.ok(bytes > 200_000 - 1000 && bytes <= 30_000_000, `bytes handed to the connection count: ${bytes}`)
  }
})
