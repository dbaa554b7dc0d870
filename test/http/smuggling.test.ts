/** Requests whose length has two readings: directly and behind nginx, no request hides in the body of another. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { type Test, test } from 'tap'
import { freePort } from '../helpers/free-port.js'
import { startNginx } from '../helpers/nginx.js'
import { listen, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller } from './caller.js'
import { everyKind } from './document.js'

const host = 'Host: x\r\n'
const json = 'Content-Type: application/json\r\n'
const tenant = 'X-Tenant-ID: a\r\n'
const end = 'Connection: close\r\n'

function post (title: string, headers = tenant): string {
  const body = JSON.stringify({ title })
  return `POST /notes HTTP/1.1\r\n${host}${json}${headers}Content-Length: ${body.length}\r\n\r\n${body}`
}

const hidden = post('smuggled')
const last = `0\r\n\r\n${hidden}`
const chunked = `2\r\n{}\r\n${last}`

/** Each holds `hidden` where one reading sees a body, and another one the next request. */
function attacks (): string[] {
  const head = `POST /notes HTTP/1.1\r\n${host}${json}${tenant}`
  const length = `Content-Length: ${last.length}\r\n`
  const codings = [
    'Transfer-Encoding : chunked',
    'Transfer-Encoding: xchunked',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
    'Transfer-Encoding: identity, chunked',
    'Transfer-Encoding:\tchunked',
    'Transfer-Encoding:\x0bchunked',
    'Transfer-Encoding: "chunked"',
    'Transfer-Encoding: chunked;x=1',
    'Transfer-Encoding: CHUNKED',
    'transfer-encoding: chunked\r\n ',
    'X: y\r\n Transfer-Encoding: chunked',
    'X: y\rTransfer-Encoding: chunked',
    'X: y\nTransfer-Encoding: chunked',
    'Transfer_Encoding: chunked',
    'Transfer-Encoding: chunk\r\n ed'
  ].map((coding) => `${head}${length}${coding}\r\n\r\n${last}`)
  const lengths = ['+2', '0x2', '2, 2', '2 2', '02_', '2.0', '-2', '99999999999999999999999', '2\r\nContent-Length: 4', '2\r\nContent-Length : 4']
    .map((written) => `${head}Content-Length: ${written}\r\n\r\n{}${hidden}`)
  const sizes = ['2;\nx', '2;x="\r\n"', '0x2', '+2', '2_', ' 2', '2\t', 'FFFFFFFFFFFFFFFFFF2', '2\n', '2\r\r\n'].map((size) =>
    `${head}Transfer-Encoding: chunked\r\n\r\n${size}\r\n{}\r\n${last}`
  )
  return [
    ...codings,
    ...lengths,
    ...sizes,
    `${head}Transfer-Encoding: chunked\r\n\r\n2\r\n{}X\r\n${last}`,
    `${head}Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n${hidden}`,
    `POST /notes HTTP/1.0\r\n${host}${json}${tenant}Transfer-Encoding: chunked\r\n\r\n${chunked}`,
    `GET /echo/1 HTTP/1.1\r\n${host}Content-Length: ${hidden.length}\r\n\r\n${hidden}`,
    `GET /echo/1 HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
    `GET /echo/1 HTTP/1.1\r\n${host}Connection: Content-Length\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
    `GET /echo/1 HTTP/1.1\r\n${host}X: a\0\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`
  ]
}

/** Enough to complete any body that an attack leaves open, and to end the connection. */
const ending = `GET /echo/last HTTP/1.1\r\n${host}${end}\r\n`.repeat(20)

/** Sends the bytes, and reads until the connection ends. */
async function send (port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('error', () => {}).setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  socket.write(bytes, 'latin1')
  await once(socket, 'close')
  return text
}

test('a body is never read as a request', async (t) => {
  const app = await testServer(t, everyKind, { tenants: ['a', 'b'] })
  const direct = Number(new URL(await listen(app)).port)
  const ask = caller(t, app, { token: signToken({ tenant_id: 'a', role: 'admin', sub: 'ada' }) })
  const proxied = await freePort()
  await startNginx(t, `
    upstream tenantry { server 127.0.0.1:${direct}; keepalive 1; }
    server {
      listen 127.0.0.1:${proxied};
      location / { proxy_pass http://tenantry; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Tenant-ID b; }
    }`, proxied)
  const smuggled = async (t: Test, attack: string, through: string) => {
    const { body } = await ask('GET /notes?title=smuggled')
    t.strictSame(body.data, [], `${through}: ${JSON.stringify(attack.slice(0, 300))}`)
  }

  await t.test('on a connection to the server', async (t) => {
    for (const attack of attacks()) {
      await send(direct, attack + ending)
      await smuggled(t, attack, 'direct')
    }
  })

  // nginx names the tenant b in each request that it forwards. One of the tenant a was hidden from it.
  await t.test('behind nginx, whose connections callers share', async (t) => {
    for (const attack of attacks()) {
      await send(proxied, attack + ending)
      await smuggled(t, attack, 'nginx')
      const own = await send(proxied, `GET /echo/own HTTP/1.1\r\n${host}${end}\r\n`)
      t.match(own, /"own"/, 'the next caller gets its own response')
    }
  })

  await t.test('trailers are no headers', async (t) => {
    const body = '17\r\n{"title":"in trailers"}\r\n'
    const trailers = `Authorization: Bearer ${signToken({ role: 'admin', sub: 'root', tenant_id: 'a' })}\r\nX-Tenant-ID: a\r\nX-API-Key: x\r\n`
    const answer = await send(
      direct,
      `POST /notes HTTP/1.1\r\n${host}${json}${end}Trailer: Authorization, X-Tenant-ID\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n${trailers}\r\n`
    )
    t.match(answer, /^HTTP\/1\.1 400 [^]*TENANTRY_TENANT_REQUIRED/)
    t.strictSame((await ask('GET /notes?title=in%20trailers')).body.data, [])
  })

  await t.test('a target with another authority names no tenant and no other path', async (t) => {
    for (const target of ['http://b/echo/1', 'http://a@b/echo/1', 'http://x/echo/1', 'http://b:1/echo/1?tenant=b']) {
      const answer = await send(direct, `GET ${target} HTTP/1.1\r\n${host}${end}\r\n`)
      t.match(answer, /^HTTP\/1\.1 200 [^]*"1"/, target)
    }
  })
})
