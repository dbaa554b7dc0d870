/** Bodies that arrive slowly, of many callers at a time. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { listen, type TestDocument, testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { uncaughtErrors } from '../../helpers/uncaught.js'
import { until } from '../../helpers/until.js'

const megabyte = 1_048_576
const most = 64 // bodies of a megabyte that an account may have under way

const routes: TestDocument['routes'] = [{ method: 'post', path: '/own', requireAuth: true, response: { ok: true } }, {
  method: 'post',
  path: '/open',
  response: { ok: true }
}]

/** A connection whose body stalls after its first byte. */
interface Stalled {
  readonly socket: Socket
  /** The text that the server has sent. */
  readonly received: () => string
}

async function stall (t: Test, origin: string, path: string, headers: Record<string, string>, method = 'POST'): Promise<Stalled> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1').on('error', () => {})
  t.teardown(() => {
    socket.destroy()
  })
  let received = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    received += part
  })
  await once(socket, 'connect')
  const lines = Object.entries({ host: 'x', 'content-type': 'application/json', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  return { socket, received: () => received }
}

const declared = { 'content-length': String(megabyte) }
const chunked = { 'transfer-encoding': 'chunked' }

test('bodies that stall fill only the share of their account, and others are served', async (t) => {
  const app = await testServer(t, { routes }, { tenants: ['acme', 'globex'] })
  const origin = await listen(app)
  const [acme, globex] = ['acme', 'globex'].map((tenant) => bearer({ sub: 'ada', tenant_id: tenant }))
  const send = async (path: string, headers: Record<string, string> = {}, size = megabyte) => {
    const response = await fetch(origin + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: `{"a":"${'x'.repeat(size - 8)}"}`
    })
    return [response.status, Object(await response.json()).code]
  }
  const busy = [429, 'TENANTRY_RESPONSES_BUSY']
  // Each with an account of its own: the last body of another case may still count.
  for (const [name, path, own, other, body] of [['declared', '/own', acme, globex, declared], ['chunked', '/own', globex, acme, chunked], ['without a tenant', '/open', {}, globex, declared]] as const) {
    const headers = { ...own, ...body }
    let stalled = await Promise.all(Array.from({ length: most }, () => stall(t, origin, path, headers)))
    await until(`${name}: the share is used`, async () => {
      if ((await send(path, own))[0] === 429) return true
      // The body of this question may have taken the place of one that stalls.
      stalled = await Promise.all(stalled.map((one) => one.received() === '' ? one : stall(t, origin, path, headers)))
      return false
    })
    t.strictSame(await send(path, own), busy)
    t.strictSame(await send(path, own, 10_000), [200, undefined], 'small bodies are accepted')
    t.strictSame(await send('/own', other), [200, undefined], 'another tenant')
    const refusal = await stall(t, origin, path, headers)
    await once(refusal.socket, 'close')
    t.match(refusal.received(), /^HTTP\/1\.1 429 [^]*connection: close/i, 'the body of the refused request is not awaited')
    t.same(stalled.filter(({ received }) => received() !== ''), [], 'the others still wait')
    for (const { socket } of stalled) socket.destroy()
    await until('aborted bodies do not count', async () => (await send(path, own))[0] === 200)
  }
  for (let count = 0; count <= most; count++) t.strictSame(await send('/own', acme), [200, undefined], 'bodies of ended requests do not count')
})

test('bodies of connections that ended before their requests reached the count do not count', async (t) => {
  let arrived = 0
  const reset = gate()
  const app = await testServer(t, { routes }, {
    tenants: ['acme'],
    prepare: (app) => {
      // Such as the rate limit, which waits for Redis.
      app.addHook('onRequest', async ({ headers }, { raw }) => {
        if (headers['x-reset'] === undefined) return
        arrived++
        await reset.opened
        t.ok(raw.destroyed)
      })
    }
  })
  const origin = await listen(app)
  let ended = 0
  app.server.on('request', (_request, response) => response.once('close', () => ended++))
  const acme = bearer({ sub: 'ada', tenant_id: 'acme' })
  const stalled = await Promise.all(
    Array.from({ length: most }, (_, index) =>
      stall(t, origin, '/own', { ...acme, ...index % 2 === 0 ? declared : chunked, 'x-reset': '1' }))
  )
  await until('the requests have begun', () => arrived === most)
  for (const { socket } of stalled) socket.resetAndDestroy()
  await until('the server has seen their end', () => ended === most)
  reset.open()
  const headers = { ...acme, 'content-type': 'application/json' }
  const { status } = await fetch(`${origin}/own`, { method: 'POST', headers, body: `{"a":"${'x'.repeat(megabyte - 8)}"}` })
  t.equal(status, 200)
})

test('bodies of requests that wait for their handlers count until the end', async (t) => {
  const held = gate()
  let waiting = 0
  const app = await testServer(t, { routes }, {
    tenants: ['globex'],
    prepare: (app) =>
      app.register(async (app) => {
        app.post('/held', async () => {
          waiting++
          await held.opened
          return {}
        })
      })
  })
  const origin = await listen(app)
  const send = async (path: string, caller = {}) => {
    const headers = { 'content-type': 'application/json', ...caller }
    return (await fetch(origin + path, { method: 'POST', headers, body: `{"a":"${'x'.repeat(megabyte - 8)}"}` })).status
  }
  const requests: Promise<number>[] = []
  // One after the other, since at most 50 are read at a time.
  for (let count = 1; count <= most; count++) {
    requests.push(send('/held'))
    await until('the request waits', () => waiting === count)
  }
  t.equal(await send('/open'), 429)
  t.equal(await send('/own', bearer({ sub: 'ada', tenant_id: 'globex' })), 200, 'a tenant')
  held.open()
  t.strictSame(new Set(await Promise.all(requests)), new Set([200]))
  await until('they are no longer counted', async () => await send('/open') === 200)
})

test('a body of many small chunks is read, and one of too many is refused before it has arrived', async (t) => {
  const echo: TestDocument['routes'] = [{ method: 'post', path: '/echo', response: { body: '{{body}}' } }]
  const app = await testServer(t, { routes: echo })
  const origin = await listen(app)
  /** Takes the sizes in turn. */
  const chunksOf = (text: string, ...sizes: number[]) => {
    const chunks: string[] = []
    for (let start = 0; start < text.length;) {
      const chunk = text.slice(start, start + (sizes[chunks.length % sizes.length] ?? 1))
      chunks.push(`${chunk.length.toString(16)}\r\n${chunk}\r\n`)
      start += chunk.length
    }
    return chunks.join('')
  }
  const body = (length: number) => JSON.stringify(Array.from({ length }, (_, index) => `item ${index}`).join(' '))
  const responseTo = async (chunks: string): Promise<string> => {
    const { socket, received } = await stall(t, origin, '/echo', { ...chunked, connection: 'close' })
    socket.write(chunks)
    await once(socket, 'close')
    return received()
  }
  const bodies = [[body(400), 1], [body(60_000), 100], [body(3000), 9000], [body(60_000), 65_536], [body(9000), 100, 9000, 8000]] as const
  for (const [text, ...sizes] of bodies) {
    const response = await responseTo(`${chunksOf(text, ...sizes)}0\r\n\r\n`)
    t.match(response, /^HTTP\/1\.1 200 /, `${text.length} bytes in chunks of ${sizes.join(', ')}`)
    t.ok(response.endsWith(`{"body":${text}}`), 'in order')
  }
  const refusal = await responseTo(chunksOf(body(3000), 1))
  t.match(refusal, /^HTTP\/1\.1 400 [^]*connection: close[^]*too many small chunks/i, 'the end of the body is not awaited')
  t.match(await responseTo(`${chunksOf(body(60_000), 32)}0\r\n\r\n`), /^HTTP\/1\.1 400 /, 'small on average')
})

test('a connection that ends before its unread body does not end the process', async (t) => {
  const errors = uncaughtErrors(t)
  const refused = gate()
  const closed = gate()
  const app = await testServer(t, { routes }, {
    prepare: (app) => {
      app.addHook('onSend', async ({ raw }, { statusCode }) => {
        t.equal(statusCode, 415)
        refused.open()
        raw.once('close', closed.open)
        await closed.opened
      })
    }
  })
  // No parser reads a body of this type.
  const { socket } = await stall(t, await listen(app), '/open', { ...declared, 'content-type': 'text/plain' })
  socket.write('x')
  await refused.opened
  socket.resetAndDestroy()
  await closed.opened
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(errors, [])
})

test('the body of a request without a route is not read', async (t) => {
  const plugins = { 'tenant-config': false } as const
  for (const document of [{ routes, plugins }, { routes, cors: { origins: ['https://page.example'] } }]) {
    const origin = await listen(await testServer(t, document))
    const requests = ['OPTIONS /open', 'OPTIONS /unknown', 'OPTIONS *', 'POST /unknown', 'PUT /open', 'QUERY /open']
    for (const request of requests) {
      const [method = '', path = ''] = request.split(' ')
      for (const type of ['application/json', 'text/plain']) {
        const { socket, received } = await stall(t, origin, path, { ...chunked, 'content-type': type }, method)
        socket.write('1\r\n{\r\n')
        await once(socket, 'data')
        t.match(received(), /^HTTP\/1\.1 40[45] [^]*"code":"TENANTRY_(?:NOT_FOUND|METHOD_NOT_ALLOWED)"/, `${request} ${type}`)
      }
    }
  }
})

test('a refused body does not hold up the next request of its connection', async (t) => {
  const origin = await listen(await testServer(t, { routes }, { tenants: ['acme'] }))
  const { socket, received } = await stall(t, origin, '/open', { ...declared, 'content-type': 'text/plain' })
  socket.write('x'.repeat(megabyte))
  await until('the body is refused', () => received().startsWith('HTTP/1.1 415 '))
  t.match(received(), /^connection: keep-alive\r$/im)
  socket.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
  await until('the next request has a response', () => received().includes('HTTP/1.1 200 '))
})
