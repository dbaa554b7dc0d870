import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { handleClientError } from '../../../lib/http/client-error.js'
import type { ResponsesOptions } from '../../../plugins/responses/index.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { requestText, slowReader } from './slow-readers.js'

const megabyte = 1_048_576
const large = 10 * megabyte
const faces = '\u{1f600}'.repeat(400_000)
const long = 600_000 // ms: no connection of the test is closed by a timeout

/** An app whose caller belongs to the tenant in the header, and its accepted connections. */
async function open (t: Test, options: ResponsesOptions) {
  const ended: string[] = []
  const made = { count: 0 }
  const text = JSON.stringify('x'.repeat(large))
  const body = () => {
    made.count++
    return Buffer.from(text).toString()
  }
  const { app } = await testApp(t, {
    plugins: { conventions: { root: true }, responses: options },
    // As the server: a late request does not end the response before it.
    server: { forceCloseConnections: true, clientErrorHandler: handleClientError },
    before: callerInHeader,
    routes (app) {
      app.addHook('onSend', (request, reply, _payload, done) => {
        ended.push(`${request.url} ${reply.statusCode}`)
        done()
      })
      app.route({ method: ['GET', 'POST'], url: '/large', handler: async (_request, reply) => reply.type('application/json').send(body()) })
      app.get('/faces', async () => ({ text: faces }))
      app.get('/small', async () => ({ small: true }))
      app.get('/medium', async () => ({ text: 'x'.repeat(10_000) }))
      app.get('/page', async () => ({ text: 'x'.repeat(100_000) }))
      app.get('/held', async () => await new Promise(() => {}))
    }
  })
  const connections: Socket[] = []
  app.server.on('connection', (socket: Socket) => {
    connections.push(socket)
  })
  return { app, ended, made, connections, origin: await listen(app) }
}

function callerInHeader (app: FastifyInstance): void {
  app.decorateRequest('auth', null)
  app.addHook('onRequest', (request, _reply, done) => {
    const id = request.headers['x-test-tenant']
    if (typeof id === 'string') request.auth = { tenant_id: id, sub: 'u', permissions: [] }
    done()
  })
}

const of = (tenant: string) => ({ 'x-test-tenant': tenant })

t.test("60 callers that never read use no more than their tenant's bound, and others are served", async (t) => {
  const { app, ended, origin } = await open(t, { maxUnsentBytes: 64 * megabyte, writeTimeoutMs: long })
  const readers = await Promise.all(Array.from({ length: 60 }, () => slowReader(t, origin, requestText('GET', '/large', of('a')))))
  await until('all 60 were handled', () => ended.filter((line) => line.startsWith('/large')).length >= 60)
  t.ok(app.responses.unsentBytes > 0)
  t.ok(app.responses.unsentBytes <= 64 * megabyte, `${app.responses.unsentBytes} bytes`)
  const small = await fetch(`${origin}/small`, { headers: of('a') })
  t.equal(small.status, 200, 'small responses of the tenant are still sent')
  const other = await fetch(`${origin}/large`, { headers: of('b') })
  t.equal((await other.text()).length, large + 2, 'another tenant gets its large response')
  const refused = await fetch(`${origin}/large`, { headers: of('a') })
  t.match([refused.status, refused.headers.get('retry-after'), await refused.json()], [429, '1', {
    code: 'TENANTRY_RESPONSES_UNREAD',
    retryAfter: 1
  }])
  const results = await Promise.all(readers.map(async ({ read, socket }, index) => {
    const end = read()
    socket.on('data', () => {
      if (socket.bytesRead > large) socket.end()
    })
    return { index, ...await end }
  }))
  t.strictSame([...new Set(results.map(({ status }) => status))].sort(), [200, 429])
  t.ok(results.filter(({ status }) => status === 200).every(({ bytes }) => bytes > large), 'admitted callers get their whole response')
  await until('nothing is held', () => app.responses.unsentBytes === 0)
})

t.test('a request whose large response would not fit is refused before it runs', async (t) => {
  const { app, ended, made, origin } = await open(t, { maxUnsentBytes: 16 * megabyte, writeTimeoutMs: long })
  const { socket } = await slowReader(t, origin, requestText('GET', '/large', of('a')))
  await until('it was handled', () => ended.length === 1)
  for (let count = 0; count < 60; count++) {
    const response = await fetch(`${origin}/large`, { headers: of('a') })
    t.match([response.status, await response.json()], [429, { code: 'TENANTRY_RESPONSES_UNREAD' }])
  }
  t.equal(made.count, 1)
  socket.destroy()
  await until('nothing is held', () => app.responses.unsentBytes === 0)
  const { status } = await fetch(`${origin}/large`, { headers: of('a') })
  t.strictSame([status, made.count], [200, 2])
})

t.test('callers without a tenant are counted by address, even if they name a tenant', async (t) => {
  const { app, ended, origin } = await open(t, { maxUnsentBytes: 16 * megabyte, writeTimeoutMs: long })
  for (let index = 0; index < 3; index++) await slowReader(t, origin, requestText('GET', '/large', { 'x-tenant-id': `t${index}` }))
  await until('all were handled', () => ended.length >= 3)
  t.strictSame(app.responses.unsentBytes, large + 2)
  t.equal((await fetch(`${origin}/large`, { headers: of('t0') })).status, 200, 'the tenant itself is not affected')
})

t.test('a connection that reads nothing is closed', async (t) => {
  const { app, connections, origin } = await open(t, { writeTimeoutMs: 100 })
  const { read } = await slowReader(t, origin, requestText('GET', '/large', of('a')))
  await until('the connection is closed, and nothing is held', () => connections[0]?.closed === true && app.responses.unsentBytes === 0)
  const { status, bytes } = await read()
  t.equal(status, 200)
  t.ok(bytes < large, `${bytes} bytes were sent before`)
})

t.test('a connection that sends bytes but reads nothing is closed', async (t) => {
  const { connections, origin } = await open(t, { writeTimeoutMs: 2000 })
  const { socket } = await slowReader(t, origin, requestText('GET', '/large', of('a')))
  socket.write('GET /small HTTP/1.1\r\nx-slow: ')
  await until('the connection is closed', () => {
    socket.write('a')
    return connections[0]?.closed === true
  })
  t.equal(connections.length, 1)
})

t.test('the timeout ends with the response: a pipelined request may take longer', async (t) => {
  const { app, connections, origin } = await open(t, { writeTimeoutMs: 5000 })
  const { socket, read } = await slowReader(t, origin, requestText('GET', '/large', of('a')) + requestText('GET', '/held', of('a')))
  await until('the response is counted', () => app.responses.unsentBytes > 0)
  const end = read()
  await until('it was read', () => app.responses.unsentBytes === 0)
  await slowReader(t, origin, requestText('GET', '/large', of('a')))
  await until('a later response has reached the timeout', () => connections[1]?.closed === true)
  t.equal(connections[0]?.destroyed, false)
  socket.destroy()
  await end
})

t.test("requests pipelined on one connection share the connection's bound", async (t) => {
  const { app, ended, origin } = await open(t, { maxUnsentBytes: 44 * megabyte, writeTimeoutMs: long })
  const { socket } = await slowReader(
    t,
    origin,
    requestText('GET', '/large', of('a')).repeat(50) + requestText('GET', '/medium', of('a')).repeat(50)
  )
  await until('all were handled', () => ended.length >= 100)
  t.ok(app.responses.unsentBytes <= 11 * megabyte, `${app.responses.unsentBytes} bytes`)
  socket.destroy()
  await until('a lost connection frees the bytes of all its requests', () => app.responses.unsentBytes === 0)
})

t.test('a page is counted from the moment that the operating system takes no more, and its connection is closed if nothing is read', async (t) => {
  const { app, ended, connections, origin } = await open(t, { writeTimeoutMs: 5000 })
  const { socket } = await slowReader(t, origin, requestText('GET', '/page', of('a')))
  for (let sent = 1; sent < 1000 && app.responses.unsentBytes === 0; sent++) {
    await until('the page was sent', () => ended.length === sent)
    if (app.responses.unsentBytes === 0) socket.write(requestText('GET', '/page', of('a')))
  }
  t.equal(app.responses.unsentBytes, 100_011)
  await until('the connection is closed, and nothing is held', () => connections[0]?.closed === true && app.responses.unsentBytes === 0)
})

t.test('a write beyond the bound loses its connection, and gets no error status', async (t) => {
  const { ended, origin } = await open(t, { maxUnsentBytes: 16 * megabyte, writeTimeoutMs: long })
  await slowReader(t, origin, requestText('GET', '/large', of('a')))
  await until('it was handled', () => ended.length === 1)
  const { read } = await slowReader(t, origin, requestText('POST', '/large', { ...of('a'), 'content-length': '0' }))
  t.equal((await read()).bytes, 0)
})

t.test('options out of bounds are rejected', async (t) => {
  const start = (options: ResponsesOptions) => testApp(t, { plugins: { responses: options } })
  await t.rejects(start({ maxUnsentBytes: 1 }), /maxUnsentBytes is 1: expected a whole number from 1048576/)
  await t.rejects(start({ writeTimeoutMs: 1 }), /writeTimeoutMs is 1: expected a whole number from 100/)
})

t.test('a tenant has two concurrent large responses, and other tenants are not delayed', async (t) => {
  const making = new Map<string, number>()
  let most = 0
  const hall = gate()
  const { app } = await testApp(t, {
    plugins: { conventions: { root: true }, responses: {} },
    before: callerInHeader,
    routes: (app) =>
      app.get<{ Params: { wait: string } }>('/large/:wait', async (request, reply) => {
        const tenant = String(request.headers['x-test-tenant'])
        making.set(tenant, (making.get(tenant) ?? 0) + 1)
        most = Math.max(most, making.get(tenant) ?? 0)
        if (request.params.wait === 'yes') await hall.opened
        making.set(tenant, (making.get(tenant) ?? 0) - 1)
        return await reply.type('application/json').send(JSON.stringify('x'.repeat(megabyte)))
      })
  })
  const origin = await listen(app)
  const ask = async (tenant: string, wait: string) => {
    const response = await fetch(`${origin}/large/${wait}`, { headers: of(tenant) })
    return [response.status, (await response.text()).length]
  }
  for (const tenant of ['a', 'b']) t.strictSame(await ask(tenant, 'no'), [200, megabyte + 2])
  most = 0
  const waiting = Array.from({ length: 110 }, () => ask('a', 'yes'))
  let refused = 0
  for (const response of waiting) {
    response.then(([status]) => {
      if (status === 429) refused++
    }, () => {})
  }
  await until('some are rejected at once', () => refused >= 8)
  t.equal(refused, 8, 'beyond 100 waiting ones')
  t.equal(making.get('a'), 2)
  t.strictSame(await ask('b', 'no'), [200, megabyte + 2], 'another tenant is served meanwhile')
  hall.open()
  const results = await Promise.all(waiting)
  t.equal(most, 2)
  // On a busy machine some of them exceed the waiting time.
  t.ok(results.filter(([status]) => status === 200).length > 2, 'the waiting ones are served')
  t.ok(results.every(([status, bytes]) => status === 429 || (status === 200 && bytes === megabyte + 2)), 'completely, or rejected')
})

t.test('a large response of a caller that left keeps its place until it is made', async (t) => {
  const hall = gate()
  let arrived = 0
  let left = 0
  let making = 0
  let most = 0
  const { app } = await testApp(t, {
    plugins: { conventions: { root: true }, responses: {} },
    before: callerInHeader,
    routes (app) {
      app.addHook('onRequest', async (_request, reply) => {
        arrived++
        reply.raw.once('close', () => {
          if (!reply.raw.writableFinished) left++
        })
      })
      app.get<{ Params: { wait: string } }>('/large/:wait', async (request, reply) => {
        most = Math.max(most, ++making)
        if (request.params.wait === 'yes') await hall.opened
        making--
        return await reply.type('application/json').send(JSON.stringify('x'.repeat(megabyte)))
      })
    }
  })
  const origin = await listen(app)
  const ask = async (wait: string, signal?: AbortSignal) => {
    const response = await fetch(`${origin}/large/${wait}`, { headers: of('a'), ...signal !== undefined && { signal } })
    return [response.status, (await response.text()).length]
  }
  t.strictSame(await ask('no'), [200, megabyte + 2])
  const leaving = new AbortController()
  const abandoned = Promise.allSettled([ask('yes', leaving.signal), ask('yes', leaving.signal)])
  await until('both places are taken', () => making === 2)
  leaving.abort()
  await abandoned
  await until('the server has noticed', () => left === 2)
  const before = arrived
  const further = [ask('no'), ask('no')]
  await until('further requests have arrived', () => arrived === before + 2)
  hall.open()
  for (const response of await Promise.all(further)) t.strictSame(response, [200, megabyte + 2])
  t.equal(most, 2)
})

t.test('a large text is sent completely with its length, whatever its characters', async (t) => {
  const { origin } = await open(t, {})
  const response = await fetch(`${origin}/faces`, { headers: of('a') })
  const text = await response.text()
  t.equal(response.headers.get('content-length'), String(Buffer.byteLength(text)))
  t.ok(text === JSON.stringify({ text: faces }))
})
