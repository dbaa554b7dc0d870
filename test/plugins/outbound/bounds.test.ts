/** Calls are bounded in size, time and number. A host that fails for one tenant stays available to others. */
import { promises as dns } from 'node:dns'
import { createServer as createTcpServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { TenantryError } from '../../../lib/errors.js'
import type { OutboundOptions, OutboundRequest, OutboundResponse } from '../../../plugins/outbound/index.js'
import { testApp } from '../../helpers/app.js'
import { remote } from '../../helpers/remote.js'
import { until } from '../../helpers/until.js'

const maxBytes = 5_242_880

async function appOf (t: Test, options: OutboundOptions = {}): Promise<FastifyInstance> {
  return (await testApp(t, { plugins: { outbound: { egress: { allow: ['127.0.0.1'] }, ...options } } })).app
}

function call (app: FastifyInstance, url: string, more: Partial<OutboundRequest> = {}): Promise<OutboundResponse> {
  return app.outbound.request({ tenant: 'acme', trusted: false, method: 'GET', url, headers: {}, ...more })
}

/** The outcome of the call: its status, or the code of its error. */
async function outcome (app: FastifyInstance, url: string, more: Partial<OutboundRequest> = {}): Promise<string | number> {
  try {
    return (await call(app, url, more)).status
  } catch (error) {
    if (error instanceof TenantryError) return error.code
    throw error
  }
}

const failed = 'TENANTRY_PROVIDER_FAILED'
const late = 'TENANTRY_PROVIDER_TIMEOUT'
const busy = 'TENANTRY_PROVIDER_BUSY'

test('connections in constant use are replaced after a minute, so that a changed address of their name is used', async (t) => {
  const server = await remote(t, (_request, response) => {
    response.setHeader('keep-alive', 'timeout=600').end('{}')
  })
  const app = await appOf(t)
  const start = Date.now()
  let passed = 0
  t.intercept(Date, 'now', { value: () => start + passed })
  for (const trusted of [true, false]) {
    for (let calls = 0; calls < 3; calls++) t.equal((await call(app, server.origin, { trusted })).status, 200)
    const before = server.connections
    passed += 61_000
    t.equal((await call(app, server.origin, { trusted })).status, 200)
    t.equal(server.connections, before + 1)
  }
})

test('calls to a fixed host share the lookup of its name', async (t) => {
  const server = await remote(t, (_request, response) => {
    response.end('{}')
  })
  const app = await appOf(t)
  const asked: string[] = []
  let answer = () => {}
  t.intercept(dns, 'lookup', {
    value: (hostname: string) => {
      asked.push(hostname)
      return new Promise((resolve) => {
        answer = () => resolve([{ address: '127.0.0.1', family: 4 }])
      })
    }
  })
  const calls = [1, 2, 3].map(() => outcome(app, `http://service.test:${server.port}/`, { trusted: true }))
  await until('the name is looked up', () => asked.length > 0)
  await new Promise(setImmediate)
  answer()
  t.same(await Promise.all(calls), [200, 200, 200])
  t.same(asked, ['service.test'])
})

test('a response of any status is returned unchanged', async (t) => {
  const server = await remote(t, ({ path }, response) => {
    response.writeHead(Number(path.slice(1, 4)), { 'X-Thing': 'a', 'set-cookie': ['b=1', 'c=2'] }).end('{"ok":true}')
  })
  const app = await appOf(t)
  for (const status of [200, 201, 302, 400, 401, 404, 429, 500, 503]) {
    t.equal((await call(app, `${server.origin}/${status}`)).status, status)
  }
  const reply = await call(app, `${server.origin}/200?a=b#c`, {
    method: 'post',
    body: 'text',
    headers: {
      'Content-Type': 'text/plain',
      Host: 'elsewhere.example',
      'Accept-Encoding': 'gzip',
      Connection: 'upgrade',
      'Content-Length': '9999'
    }
  })
  t.match(reply, { status: 200, headers: { 'x-thing': 'a', 'set-cookie': 'b=1, c=2' } })
  t.equal(reply.body.toString(), '{"ok":true}')
  const { method, path, body, headers } = server.requests.at(-1) ?? {}
  t.match({ method, path, body }, { method: 'POST', path: '/200?a=b', body: 'text' })
  t.match(headers, {
    host: server.origin.slice(7),
    'accept-encoding': 'identity',
    'content-type': 'text/plain',
    'content-length': '4',
    'user-agent': /^tenantry\//
  })
  t.ok(server.connections < 4, `${server.requests.length} calls took ${server.connections} connections`)
  const wrong: Record<string, string>[] = [{ 'x-a': 'b\r\nx-c: d' }, { 'x-a': 'b\0' }, { 'x a': 'b' }, { '': 'b' }, { 'x-a': 'ä€' }]
  for (const headers of wrong) t.equal(await outcome(app, server.origin, { headers }), 'TENANTRY_BAD_REQUEST', JSON.stringify(headers))
  for (const method of ['CONNECT', 'TRACE', 'GET /', '']) {
    t.equal(await outcome(app, server.origin, { method }), 'TENANTRY_BAD_REQUEST', method)
  }
})

test('a response has at most 5 MB, in any encoding', async (t) => {
  const server = await remote(t, async ({ path }, response) => {
    const [, kind = '', size = '0'] = path.split('/')
    const bytes = Number(size)
    if (kind === 'declared') {
      response.writeHead(200, { 'content-length': bytes }).end(Buffer.alloc(bytes, 'a'))
      return
    }
    if (kind === 'packed') {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(Buffer.alloc(100))
      return
    }
    response.writeHead(200)
    if (kind === 'endless') {
      const piece = Buffer.alloc(65_536, 'a')
      const more = (): void => {
        if (!response.destroyed) response.write(piece, more)
      }
      return more()
    }
    for (let left = bytes; left > 0; left -= 65_536) {
      if (!response.write(Buffer.alloc(Math.min(left, 65_536), 'a'))) { await new Promise((resolve) => response.once('drain', resolve)) }
    }
    response.end()
  })
  const app = await appOf(t)
  for (const kind of ['declared', 'chunked']) {
    const { body } = await call(app, `${server.origin}/${kind}/${maxBytes}`)
    t.equal(body.length, maxBytes, kind)
    t.ok(body.equals(Buffer.alloc(maxBytes, 'a')))
    t.equal(await outcome(app, `${server.origin}/${kind}/${maxBytes + 1}`), failed, `${kind}, one byte more`)
  }
  t.equal(await outcome(app, `${server.origin}/endless`), failed)
  t.equal(await outcome(app, `${server.origin}/packed`), failed, 'a compressed response is not unpacked')
  t.equal(await outcome(app, `${server.origin}/declared/0`), 200)
})

test('a call ends in time, for any behaviour of the service', async (t) => {
  const released: string[] = []
  const server = await remote(t, ({ path }, response) => {
    response.on('close', () => released.push(path))
    if (path === '/early') response.writeEarlyHints({ link: '</x>; rel=preload' })
    if (path !== '/dripping') return
    response.writeHead(200, { 'content-length': 1000 })
    const timer = setInterval(() => response.write('a'), 20)
    response.on('close', () => clearInterval(timer))
  })
  const mute = createTcpServer(() => {})
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    mute.close()
  })
  const address = mute.address()
  const mutePort = typeof address === 'object' ? address?.port : 0
  const app = await appOf(t)
  let calls = 0
  for (const path of ['/silent', '/early', '/dripping']) {
    // The time may end before the service has the request. Each call is of a tenant for which the host has not failed yet.
    do t.equal(await outcome(app, server.origin + path, { timeoutMs: 150, tenant: `acme-${++calls}` }), late, path)
    while (!server.requests.some((request) => request.path === path))
    await until('the request is released', () => released.includes(path))
    t.ok(released.includes(path), 'its connection is closed')
  }
  t.equal(await outcome(app, `https://127.0.0.1:${mutePort}/`, { timeoutMs: 150, tenant: 'globex' }), late, 'a handshake that never ends')
  t.equal(await outcome(app, `http://127.0.0.1:${mutePort}/`, { timeoutMs: 150, tenant: 'globex' }), late)
  t.equal(await outcome(app, server.origin, { timeoutMs: 0 }), late)

  const ending = new AbortController()
  const ended = call(app, `${server.origin}/silent`, { signal: ending.signal, tenant: 'initech' })
  const reason = new Error('the run was canceled')
  ending.abort(reason)
  await t.rejects(ended, reason)
  await t.rejects(call(app, server.origin, { signal: ending.signal }), reason)
  t.equal(await outcome(app, 'http://127.0.0.1:1/'), failed, 'a port without a listener')
})

test('endless headers and interim responses of a service end its call, and nothing else', async (t) => {
  const floods: Readonly<Record<string, readonly [head: string, piece: string]>> = {
    '/headers': ['HTTP/1.1 200 OK\r\n', `x-filler: ${'a'.repeat(1000)}\r\n`.repeat(60)],
    '/names': ['HTTP/1.1 200 OK\r\n', Array.from({ length: 10_000 }, (_none, index) => `x-${index}: a\r\n`).join('')],
    '/line': ['HTTP/1.1 200 OK\r\nx-filler: ', 'a'.repeat(65_536)],
    '/interim': ['', 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(1000)],
    '/reason': ['HTTP/1.1 200 ', 'a'.repeat(65_536)],
    '/chunks': ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;', 'a'.repeat(65_536)],
    '/trailers': ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n', `x-filler: ${'a'.repeat(1000)}\r\n`.repeat(60)]
  }
  const service = createTcpServer((socket) => {
    socket.on('error', () => {}).once('data', (request) => {
      const [head, piece] = floods[String(request).split(' ')[1] ?? ''] ?? ['', '']
      socket.write(head)
      const more = (): void => {
        if (!socket.destroyed) socket.write(piece, () => setImmediate(more))
      }
      more()
    })
  })
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    service.close()
  })
  const server = await remote(t, (_request, response) => {
    response.end('ok')
  })
  const { port } = Object(service.address())
  const app = await appOf(t)
  for (const path of Object.keys(floods)) {
    t.match(await outcome(app, `http://127.0.0.1:${port}${path}`, { timeoutMs: 1000, tenant: path }), /PROVIDER_(FAILED|TIMEOUT)/, path)
    t.equal(await outcome(app, server.origin, { tenant: path }), 200)
  }
})

test("a slow service uses only its tenant's slots", async (t) => {
  const waiting: (() => void)[] = []
  const server = await remote(t, ({ path }, response) => {
    if (path === '/slow') waiting.push(() => response.end('slow'))
    else response.end('fast')
  })
  const app = await appOf(t)
  const slow = Array.from({ length: 20 }, () => call(app, `${server.origin}/slow`))
  await until('all requests wait', () => waiting.length === 20)
  t.equal(await outcome(app, `${server.origin}/fast`), busy, 'one more call of the same tenant')
  t.equal(await outcome(app, `${server.origin}/fast`, { tenant: 'globex' }), 200, 'another tenant, the same service')
  t.equal(await outcome(app, `${server.origin}/fast`, { tenant: '' }), 200, 'the platform')
  for (const end of waiting) end()
  t.same((await Promise.all(slow)).map(({ body }) => body.toString()), Array.from({ length: 20 }, () => 'slow'))
  t.equal(await outcome(app, `${server.origin}/fast`), 200, 'the slots are free again')
})

test('a host that keeps failing for a tenant is blocked, then tried by one call, and stays open to others', async (t) => {
  let status = 500
  const held: (() => void)[] = []
  const server = await remote(t, ({ path }, response) => {
    if (path === '/held') held.push(() => response.writeHead(status).end())
    else response.writeHead(status).end()
  })
  const other = await remote(t, (_request, response) => {
    response.end()
  })
  let now = 1_000_000
  const app = await appOf(t, { now: () => now })
  for (let index = 0; index < 4; index++) t.equal(await outcome(app, server.origin), 500)
  status = 404
  t.equal(await outcome(app, server.origin), 404, 'a response that is not a failure of the service')
  status = 503
  for (let index = 0; index < 5; index++) t.equal(await outcome(app, server.origin), 503, 'resets the count')
  const sent = server.requests.length
  await t.rejects(call(app, server.origin), { code: busy, statusCode: 503, headers: { 'retry-after': '10' } }, 'open')
  t.equal(server.requests.length, sent, 'nothing is sent')
  t.equal(await outcome(app, other.origin), 200, 'another host of the tenant')
  t.equal(await outcome(app, server.origin, { tenant: 'globex' }), 503, 'the same host for another tenant')

  now += 9_999
  t.equal(await outcome(app, server.origin), busy)
  now += 1
  status = 200
  const trial = call(app, `${server.origin}/held`)
  await until('the server has the first request', () => held.length === 1)
  t.equal(await outcome(app, server.origin), busy, 'one call tries, the others wait for its outcome')
  status = 500
  held[0]?.()
  t.equal((await trial).status, 500)
  t.equal(await outcome(app, server.origin), busy, 'open again')
  now += 10_000
  const ending = new AbortController()
  const left = call(app, `${server.origin}/held`, { signal: ending.signal })
  await until('the server has the second request', () => held.length === 2)
  ending.abort(new Error('left'))
  await t.rejects(left, { message: 'left' })
  status = 200
  await until('a request succeeds', async () => await outcome(app, server.origin) === 200)
  t.equal(await outcome(app, server.origin), 200, 'closed: an aborted trial has no outcome')
  t.equal(await outcome(app, server.origin), 200)

  for (let index = 0; index < 5; index++) t.equal(await outcome(app, 'http://127.0.0.1:1/'), failed)
  t.equal(await outcome(app, 'http://127.0.0.1:1/'), busy, 'without a listener')
  for (let index = 0; index < 8; index++) {
    t.equal(await outcome(app, 'http://10.0.0.1/'), 'TENANTRY_ADDRESS_REFUSED', 'a refused address is not a failure of a host')
  }
})

test('a response that is too large or compressed is no failure of its host', async (t) => {
  const server = await remote(t, ({ path }, response) => {
    if (path === '/large') response.writeHead(200, { 'content-length': maxBytes + 1 }).flushHeaders()
    else if (path === '/gzip') response.writeHead(200, { 'content-encoding': 'gzip' }).end()
    else if (path === '/down') response.writeHead(503, { 'content-encoding': 'gzip' }).end()
    else response.end()
  })
  const app = await appOf(t)
  for (let count = 0; count < 6; count++) {
    t.equal(await outcome(app, `${server.origin}/large`), failed)
    t.equal(await outcome(app, `${server.origin}/gzip`), failed)
  }
  t.equal(await outcome(app, server.origin), 200)
  for (let count = 0; count < 5; count++) t.equal(await outcome(app, `${server.origin}/down`), failed)
  t.equal(await outcome(app, server.origin), busy, 'a compressed 503 is one')
})

test('a closed plugin sends nothing more, and aborts running calls', async (t) => {
  const server = await remote(t, () => {})
  const app = await appOf(t)
  const call1 = call(app, server.origin)
  call1.catch(() => {})
  await until('the server has the request', () => server.requests.length === 1)
  await app.close()
  await t.rejects(call1, { code: 'TENANTRY_PROVIDER_TIMEOUT' })
  await t.rejects(call(app, server.origin), { code: 'TENANTRY_STOPPING' })
})

test('a host that failed is called again after a pause, also if the clock is set back', async (t) => {
  const server = await remote(t, (_request, response) => {
    response.writeHead(500).end()
  })
  const app = await appOf(t)
  for (let count = 0; count < 5; count++) t.equal((await call(app, server.origin)).status, 500)
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  Date.now = () => now() - 3_600_000
  await t.rejects(call(app, server.origin), { code: busy, headers: { 'retry-after': /^\d0?$/ } })
})
