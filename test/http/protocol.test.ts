/** Malformed HTTP: paths, methods, headers and bytes. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { type Test, test } from 'tap'
import { postgresSection } from '../helpers/postgres.js'
import { listen, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, checked, parsed, refused, type Reply } from './caller.js'
import { everyKind } from './document.js'

/** Sends bytes unchanged and reads until the server closes the connection. */
async function send (t: Test, port: number, bytes: string | Buffer): Promise<Reply[]> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  let received = ''
  socket.setEncoding('utf8').on('data', (part: string) => {
    received += part
  })
  socket.write(bytes)
  await once(socket, 'close')
  return received.split(/(?=HTTP\/1\.1 \d{3} )/).filter((text) => text !== '').map((text) => {
    const [head = '', ...rest] = text.split('\r\n\r\n')
    const [start = '', ...lines] = head.split('\r\n')
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)])
    )
    const body = rest.join('\r\n\r\n')
    return checked(t, String(bytes).slice(0, 60), { status: Number(start.split(' ')[1]), headers, text: body, body: parsed(body) })
  })
}

test('HTTP', async (t) => {
  const app = await testServer(t, everyKind, { engine: await postgresSection(t), tenants: ['a'] })
  const port = Number(new URL(await listen(app)).port)

  await t.test('an unknown path is 404, a malformed one 400', async (t) => {
    const ask = caller(t, app, { tenant: 'a' })
    for (
      const target of [
        'GET /nothing',
        'GET /Notes',
        'GET //notes',
        'GET /notes//',
        'GET /notes/1/2',
        'GET /notes/..%2f..%2fetc%2fpasswd/x',
        'GET /.env',
        'GET /lib/server.ts',
        'GET /%6eotes%2F',
        'GET /notes;x=1',
        'GET /__proto__',
        'GET /constructor',
        'GET /*',
        'GET /:id',
        'GET /notes%00',
        'POST /',
        'GET /tenantry',
        `GET /${'a/'.repeat(2000)}`
      ]
    ) {
      refused(t, await ask(target), 404, 'NOT_FOUND', target.slice(0, 60))
    }
    for (const target of ['GET /%', 'GET /%zz', 'GET /notes/%E0%A4%A', 'GET /notes/%ff', 'GET /%C0%AE%C0%AE/', 'DELETE /notes/%']) {
      refused(t, await ask(target), 400, 'BAD_REQUEST', target)
    }
    for (
      const id of ['..%2f..%2fetc', '%20', '1', 'null', '%F0%9F%8E%89', `${'0'.repeat(36)}`, '00000000-0000-0000-0000-00000000000%00']
    ) { refused(t, await ask(`GET /notes/${id}`), 400, 'VALIDATION_FAILED', id) }
    refused(t, await ask('GET /notes/00000000-0000-4000-8000-000000000000'), 404, 'NOT_FOUND')
    // `inject` would remove dots from a path, like browsers do; the server does not.
    for (
      const path of ['/../notes', '/./notes', '/x/../notes', '/notes/../people', '/%2e%2e/notes', '//evil.example/notes', '*', '/notes#x']
    ) {
      const responses = await send(t, port, `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Tenant-ID: a\r\nConnection: close\r\n\r\n`)
      t.strictSame(responses.map(({ status }) => status), [path === '/notes#x' ? 200 : 404], path)
    }
    t.strictSame((await ask('GET /echo/a%2Fb%3Fc%23d%25e')).body['word'], 'a/b?c#d%e', 'an encoded slash belongs to the parameter')
  })

  await t.test('a long parameter is accepted, one that is too long is rejected', async (t) => {
    const ask = caller(t, app, { tenant: 'a' })
    const id = 'x'.repeat(512)
    t.match(await ask(`PUT /docs/${id}`, { body: { name: 'long' } }), { status: 200, body: { id } })
    t.match(await ask(`GET /docs/${id}`), { status: 200, body: { name: 'long' } })
    refused(t, await ask(`GET /docs/${id}x`), 400, 'VALIDATION_FAILED')
    t.match((await ask(`GET /echo/${'%F0%9F%8E%89'.repeat(150)}`)).body, { word: '🎉'.repeat(150) })
    for (
      const target of [`GET /docs/${'x'.repeat(10_000)}`, `GET /notes/${'x'.repeat(10_000)}`, `GET /echo/${'%41'.repeat(4000)}`]
    ) { refused(t, await ask(target), 404, 'NOT_FOUND', target.slice(0, 20)) }
    t.match((await ask(`GET /notes?q=${'x'.repeat(12_000)}`)).body.data, { length: 0 })
  })

  await t.test('a wrong method is 405 with the allowed ones', async (t) => {
    const ask = caller(t, app, { tenant: 'a' })
    const notAllowed = async (target: string, allow: string) => {
      const response = await ask(target)
      refused(t, response, 405, 'METHOD_NOT_ALLOWED', target)
      t.equal(response.headers['allow'], allow, target)
    }
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'MKCOL', 'PURGE', 'SEARCH', 'LOCK']) {
      await notAllowed(`${method} /notes`, 'GET, HEAD, POST')
    }
    await notAllowed('GET /checked', 'POST')
    t.match(await ask('HEAD /checked'), { status: 405, headers: { allow: 'POST' } })
    await notAllowed('PATCH /health?x=1', 'GET, HEAD')
    for (const method of ['PUT', 'OPTIONS', 'TRACE', 'PROPFIND']) refused(t, await ask(`${method} /nothing`), 404, 'NOT_FOUND', method)
    t.match([(await ask('GET /nothing')).body, (await ask('GET /notes/00000000-0000-4000-8000-000000000000')).body], [{
      message: 'Resource not found',
      details: [{ keyword: 'route' }]
    }, { message: 'Resource not found', details: undefined }])
    refused(
      t,
      await ask('POST /notes', { headers: { 'x-http-method-override': 'DELETE' } }),
      400,
      'VALIDATION_FAILED',
      'no header overrides the method'
    )
    const head = 'HTTP/1.1\r\nHost: x\r\nX-Tenant-ID: a\r\n'
    const [ofHead, ofGet] = await send(t, port, `HEAD /notes ${head}\r\nGET /notes ${head}Connection: close\r\n\r\n`)
    t.match(ofHead, { status: 200, headers: { 'content-length': ofGet?.headers['content-length'] }, text: '' })
    t.match(ofGet, { status: 200, body: { data: { length: 0 } } }, 'the connection has no body of HEAD')
    t.equal((await ask('HEAD /nothing')).status, 404)
    t.equal((await ask('HEAD /mine')).status, 401, 'HEAD is treated like GET')
    t.equal((await ask('HEAD /notes/x')).status, 400)
  })

  await t.test('no value of a request becomes a response header', async (t) => {
    const ask = caller(t, app, { tenant: 'a' })
    const line = 'x%0d%0aSet-Cookie:%20a=b%0d%0a%0d%0a<script>'
    for (
      const target of [
        `GET /echo/${line}?q=${line}`,
        `GET /notes?title=${line}`,
        `GET /nothing/${line}`,
        `GET /notes/${line}`,
        `GET /cached/key?k=${line}`
      ]
    ) {
      const { headers } = await ask(target, { headers: { 'x-request-id': 'a b', origin: 'https://evil.example', 'accept-language': 'x' } })
      t.strictSame([headers['set-cookie'], headers['access-control-allow-origin']], [undefined, undefined], target)
      t.match(headers['content-type'], /^application\/json/)
    }
    const own = await ask('GET /nothing', { headers: { 'x-request-id': 'my-id.1' } })
    t.equal(own.body['requestId'], 'my-id.1')
    for (const id of ['', 'a b', '"', '<script>', 'x'.repeat(129), '{{env.PATH}}', 'ä']) {
      t.not((await ask('GET /nothing', { headers: { 'x-request-id': id } })).body['requestId'], id)
    }
    for (const accept of ['text/html', 'application/xml', '*/*;q=0', 'x']) {
      t.match((await ask('GET /nothing', { headers: { accept } })).headers['content-type'], /^application\/json/)
    }
  })

  await t.test('bytes that are not an HTTP request are rejected, and the connection is closed', async (t) => {
    const host = 'Host: x\r\n'
    const json = 'Content-Type: application/json\r\nX-Tenant-ID: a\r\n'
    const malformed: (string | Buffer)[] = [
      'GARBAGE\r\n\r\n',
      '\0\0\0\0',
      Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc]),
      `get /notes HTTP/1.1\r\n${host}\r\n`,
      `GET /notes HTTP/9.9\r\n${host}\r\n`,
      `GET /no tes HTTP/1.1\r\n${host}\r\n`,
      `GET /notes HTTP/1.1\r\n${host}X Y: z\r\n\r\n`,
      `GET /notes HTTP/1.1\r\n${host}X-Tenant-ID: a\0b\r\n\r\n`,
      `POST /notes HTTP/1.1\r\n${host}${json}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /notes HTTP/1.1\r\n${host}\r\n`,
      `POST /notes HTTP/1.1\r\n${host}${json}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      `POST /notes HTTP/1.1\r\n${host}${json}Content-Length: -1\r\n\r\n{}`,
      `POST /notes HTTP/1.1\r\n${host}${json}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`,
      `POST /notes HTTP/1.1\r\n${host}${json}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`
    ]
    for (const bytes of malformed) {
      const responses = await send(t, port, bytes)
      t.strictSame(responses.map(({ status }) => status), [400], JSON.stringify(String(bytes).slice(0, 100)))
    }
    for (
      const bytes of [
        `GET /notes HTTP/1.1\r\n${host}X: ${'a'.repeat(20_000)}\r\n\r\n`,
        `GET /${'a'.repeat(20_000)} HTTP/1.1\r\n${host}\r\n`,
        `GET /notes HTTP/1.1\r\n${host}Authorization: Bearer ${'a'.repeat(20_000)}\r\n\r\n`
      ]
    ) {
      t.strictSame((await send(t, port, bytes)).map(({ status }) => status), [431])
    }
    const pipelined = await send(t, port, `GET /echo/1 HTTP/1.1\r\n${host}\r\nGET /echo/2 HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)
    t.strictSame(pipelined.map(({ body }) => body['word']), ['1', '2'])
    t.strictSame(await send(t, port, `CONNECT evil:443 HTTP/1.1\r\n${host}\r\n`), [], 'CONNECT opens no tunnel')
    const upgrade = await send(t, port, `GET /echo/1 HTTP/1.1\r\n${host}Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n`)
    t.strictSame(upgrade.map(({ status }) => status), [200], 'an upgrade opens no websocket')
    const absolute = await send(t, port, `GET http://evil.example/echo/1 HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)
    t.strictSame(absolute.map(({ body }) => body['word']), ['1'])
  })

  await t.test('bytes after valid requests are rejected after the responses of these', async (t) => {
    const host = 'Host: x\r\n'
    const json = 'Content-Type: application/json\r\nX-Tenant-ID: a\r\n'
    const post = (title: string, more = '') => {
      const body = JSON.stringify({ title })
      return `POST /notes HTTP/1.1\r\n${host}${json}${more}Content-Length: ${body.length}\r\n\r\n${body}`
    }
    const created = await send(t, port, `${post('first')}${post('second')}GARBAGE\r\n\r\n`)
    t.strictSame(created.map(({ status, body }) => [status, body['title']]), [[201, 'first'], [201, 'second'], [400, undefined]])
    const closed = await send(t, port, `${post('third', 'Connection: close\r\n')}${post('fourth')}`)
    t.strictSame(closed.map(({ status, body }) => [status, body['title']]), [[201, 'third']])
    const ask = caller(t, app, { tenant: 'a' })
    t.strictSame((await ask('GET /notes?title=fourth')).body.data, [], 'nothing is read after Connection: close')
  })

  await t.test('unknown expectations are ignored', async (t) => {
    const head = 'POST /notes HTTP/1.1\r\nHost: x\r\nX-Tenant-ID: a\r\nConnection: close\r\nContent-Type: application/json\r\n'
    const body = '{"title":"expected"}'
    for (const value of ['tea', '200-ok', '1', '"']) {
      const responses = await send(t, port, `${head}Expect: ${value}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      t.strictSame(responses.map(({ status }) => status), [201], value)
    }
    const refusal = await send(t, port, `${head.replace('/notes', '/nothing')}Expect: tea\r\nContent-Length: 0\r\n\r\n`)
    t.strictSame(refusal.map(({ status }) => status), [404])
  })

  await t.test('a request needs one Host, and the first of two tokens does not win', async (t) => {
    const end = 'Connection: close\r\n\r\n'
    for (const hosts of ['', 'Host: x\r\nHost: x\r\n', 'Host: x\r\nHost: y\r\n', 'Host: x, y\r\n']) {
      const responses = await send(t, port, `GET /echo/1 HTTP/1.1\r\n${hosts}${end}`)
      t.match(responses, [{ status: 400, headers: { connection: 'close' }, body: { code: 'TENANTRY_BAD_REQUEST' } }], hosts)
    }
    t.match(await send(t, port, 'GET /echo/1 HTTP/1.0\r\n\r\n'), [{ status: 200 }], 'HTTP/1.0 has no Host')
    const authorization = `Authorization: Bearer ${signToken({ tenant_id: 'a' })}\r\n`
    const get = (headers: string) => send(t, port, `GET /notes HTTP/1.1\r\nHost: x\r\n${headers}${end}`)
    t.match([...await get(authorization), ...await get(authorization + authorization)], [{ status: 200 }, { status: 401 }])
  })

  await t.test('a request with more than 200 headers is refused, so that it hides none behind them', async (t) => {
    const get = (count: number) =>
      `GET /echo/1 HTTP/1.1\r\nHost: x\r\n${'a:\r\n'.repeat(count - 3)}Connection: close\r\nX-Request-ID: the-last\r\n\r\n`
    const accepted = await send(t, port, get(200))
    t.match(accepted, [{ status: 200, headers: { 'x-request-id': 'the-last' } }])
    for (const count of [201, 2100, 3500]) {
      const responses = await send(t, port, get(count))
      t.match(responses, [{ status: 431, headers: { connection: 'close', 'x-request-id': 'the-last' } }], `${count} headers`)
    }
  })

  await t.test('a body over the limit is rejected before it arrives', async (t) => {
    const head = 'POST /notes HTTP/1.1\r\nHost: x\r\nX-Tenant-ID: a\r\nContent-Type: application/json\r\n'
    const declared = await send(t, port, `${head}Content-Length: 1048577\r\n\r\n{"title":"`)
    t.strictSame(declared.map(({ status, body }) => [status, body['code']]), [[413, 'TENANTRY_BODY_TOO_LARGE']])
    const chunk = 'x'.repeat(65_536)
    const chunked = await send(t, port, `${head}Transfer-Encoding: chunked\r\n\r\n${`10000\r\n${chunk}\r\n`.repeat(17)}`)
    t.strictSame(chunked.map(({ status, body }) => [status, body['code']]), [[413, 'TENANTRY_BODY_TOO_LARGE']])
    const short = connect(port, '127.0.0.1').on('error', () => {})
    short.write(`${head}Content-Length: 100\r\n\r\n{"title":"cut off"}`)
    short.end()
    short.resume()
    await once(short, 'close')
    const ask = caller(t, app, { tenant: 'a' })
    t.strictSame((await ask('GET /notes?title=cut%20off')).body.data, [], 'a truncated body is not processed')
    t.match(await ask('POST /notes', { body: { title: 'x', body: 'y'.repeat(1_000_000) } }), { status: 201 })
  })
})

test('a response that has begun is cut off, and contains no error, if the rest of its request is malformed', async (t) => {
  const app = await testServer(t, {}, {
    prepare: (app) => {
      app.post('/begun', {
        onRequest (_request, reply, done) {
          reply.hijack()
          reply.raw.writeHead(200, { 'content-length': 1000 }).write('begun')
          done()
        }
      }, () => {})
    }
  })
  const socket = connect(Number(new URL(await listen(app)).port), '127.0.0.1')
  let received = ''
  socket.on('error', () => {}).setEncoding('utf8').on('data', (part: string) => {
    received += part
    if (received.endsWith('begun')) socket.write('zz\r\n')
  })
  socket.write('POST /begun HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n')
  await once(socket, 'close')
  t.match(received, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(received, /\r\n\r\nbegun$/)
})

test('the document sets the body limit', async (t) => {
  const app = await testServer(t, {
    server: { bodyLimit: 100 },
    routes: [{ method: 'post', path: '/echo', response: { body: '{{body}}' } }]
  })
  const ask = caller(t, app)
  t.match(await ask('POST /echo', { raw: `"${'x'.repeat(98)}"` }), { status: 200 })
  refused(t, await ask('POST /echo', { raw: `"${'x'.repeat(99)}"` }), 413, 'BODY_TOO_LARGE')
})
