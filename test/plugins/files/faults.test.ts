/** Interrupted uploads leave no row, no bytes and no booked storage. */
import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { type Test, test } from 'tap'
import { handleClientError } from '../../../lib/http/client-error.js'
import type { TestAppOptions } from '../../helpers/app.js'
import { testApp } from '../../helpers/app.js'
import { postgresSection } from '../../helpers/postgres.js'
import { listen } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { boundary, file, form, MB, onDisk, open, type Opened, rows, storage, type User, userOf } from './app.js'

/** Checks that no upload is running, and that the ledger has the bytes of the existing files. */
async function settled ({ app, folder }: Opened, tenant: string, bytes: number, files: number): Promise<void> {
  await until(`of ${tenant} there are ${files} files`, async () => {
    const { booked, reserved, shown } = await storage(app, tenant)
    const { ready = 0, ...others } = await rows(app)
    return reserved === 0 && booked === bytes && shown === bytes && ready === files && Object.keys(others).length === 0 &&
      (await onDisk(folder)).length === files
  })
}

function head ({ headers }: User, length: string): string {
  return `POST /files/upload HTTP/1.1\r\nhost: x\r\nauthorization: ${
    headers['authorization']
  }\r\ncontent-type: multipart/form-data; boundary=${boundary}\r\n${length}\r\n\r\n`
}

async function dial (t: Test, origin: string): Promise<Socket> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1').on('error', () => {})
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  return socket
}

test('a connection that is cut at any stage leaves nothing', async (t) => {
  const opened = await open(t)
  const body = form([{ name: 'entityType', value: 'notes' }, file(Buffer.alloc(300_000)), { name: 'entityId', value: '1' }])
  const lengths = { known: `content-length: ${body.length}`, chunked: 'transfer-encoding: chunked' }
  for (const [kind, length] of Object.entries(lengths)) {
    for (const end of [0, 20, 150, 260, 1000, 100_000, 300_200, body.length - 30, body.length - 1]) {
      const socket = await dial(t, opened.origin)
      const sent = body.subarray(0, end)
      const bytes = kind === 'known' ? sent : Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), sent])
      socket.write(head(opened.as('acme'), length))
      await new Promise((resolve) => {
        socket.write(bytes, resolve)
      })
      // Waits until the server has started with the file.
      if (end >= 1000) await until('the upload is running', async () => (await rows(opened.app))['pending'] === 1)
      socket.destroy()
      await settled(opened, 'acme', 0, 0)
    }
  }
  t.equal((await opened.as('acme').upload([file('x')])).status, 201)
})

test('a wrong Content-Length leaves nothing', async (t) => {
  const opened = await open(t, {}, { tenants: [{ id: 'acme', plan: 'large' }, { id: 'seven', plan: 'seven' }] })
  const body = form([file('x'.repeat(1000))])
  const respond = async (tenant: string, length: number, ends = true, sent = body) => {
    const socket = await dial(t, opened.origin)
    let text = ''
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk
    })
    socket.write(head(opened.as(tenant), `content-length: ${length}`))
    if (ends) socket.end(sent)
    else socket.write(sent)
    await Promise.race([once(socket, 'close'), once(socket, 'data')])
    return /^HTTP\/1.1 (\d+)/.exec(text)?.[1] ?? 'none'
  }
  t.equal(await respond('acme', 500, false), '400', 'smaller than the body: the form ends early')
  t.equal(await respond('acme', 500, false, body.subarray(0, 500)), '400', 'a short form that ends early, and arrives before it is read')
  t.equal(await respond('acme', 5000), '400', 'larger than the body')
  t.equal(await respond('seven', 2 * MB, false), '413', 'larger than a file may be')
  await settled(opened, 'acme', 0, 0)
  await settled(opened, 'seven', 0, 0)
})

test('a file of unknown length is stopped at the limits, however long it is', async (t) => {
  const opened = await open(t)
  const upload = async (tenant: string, bytes: number) => {
    const sending = request(`${opened.origin}/files/upload`, {
      method: 'POST',
      headers: { ...opened.as(tenant).headers, 'content-type': `multipart/form-data; boundary=${boundary}` }
    })
    const response = once(sending, 'response')
    sending.setMaxListeners(0).on('error', () => {})
    const body = form([file(Buffer.alloc(bytes))])
    for (let at = 0; at < body.length && !sending.destroyed; at += 65_536) {
      if (!sending.write(body.subarray(at, at + 65_536))) await Promise.race([once(sending, 'drain'), response, once(sending, 'close')])
    }
    sending.end()
    const [received] = await response
    received.resume()
    return received.statusCode
  }
  t.equal(await upload('seven', MB + 1), 413)
  await settled(opened, 'seven', 0, 0)
  for (let count = 0; count < 7; count++) t.equal(await upload('seven', MB), 201)
  t.equal(await upload('seven', 1), 402)
  await settled(opened, 'seven', 7 * MB, 7)
})

/** The plugin in its own app. */
async function app (t: Test, options: TestAppOptions['server'], slowMs: number) {
  const folder = t.testdir()
  const { app } = await testApp(t, {
    plugins: { files: { path: folder, slowMs } },
    tenants: [{ id: 'acme', plan: 'pro' }],
    server: { ...options, clientErrorHandler: handleClientError }
  })
  const origin = await app.listen({ port: 0, host: '127.0.0.1' })
  const socket = await dial(t, origin)
  let text = ''
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk
  })
  return { app, folder, socket, response: () => text, user: userOf(t, origin, bearer({ sub: 'ada', tenant_id: 'acme' })) }
}

test('an upload slower than 1 KB a second is aborted', async (t) => {
  const { app: server, folder, socket, response, user } = await app(t, {}, 200)
  socket.write(head(user, 'content-length: 100000'))
  socket.write(form([file('x'.repeat(5000))]).subarray(0, 3000))
  await once(socket, 'close')
  t.match(response(), /^HTTP\/1.1 408 /)
  t.match(response(), /TENANTRY_UPLOAD_TOO_SLOW/)
  await until('nothing remains', async () => Object.keys(await rows(server)).length === 0 && (await onDisk(folder)).length === 0)
})

test('an upload that arrives while the server stops is a 503 in time, and a resumable one keeps its bytes', async (t) => {
  const folder = t.testdir()
  const engine = await postgresSection(t)
  const plugins = { files: { path: folder } }
  const timeoutMs = 600_000
  const { app: stopping } = await testApp(t, {
    plugins: { stop: { timeoutMs }, ...plugins },
    engine,
    tenants: [{ id: 'acme', plan: 'pro' }]
  })
  const origin = await listen(stopping)
  const user = userOf(t, origin, bearer({ sub: 'ada', tenant_id: 'acme' }))
  const version = { 'tus-resumable': '1.0.0' }
  const metadata = `filename ${Buffer.from('a.txt').toString('base64')}`
  const announced = await user.ask('POST /files/resumable', { headers: { ...version, 'upload-length': '9000000', 'upload-metadata': metadata } })
  const url = String(announced.headers['location'])
  const sockets = [await dial(t, origin), await dial(t, origin)]
  const responses = sockets.map(async (socket) => await textOf(socket))
  sockets[0]?.write(head(user, 'content-length: 100000'))
  sockets[0]?.write(form([file('x'.repeat(5000))]).subarray(0, 3000))
  sockets[1]?.write(
    `PATCH ${url} HTTP/1.1\r\nhost: x\r\nauthorization: ${user.headers['authorization']}\r\ntus-resumable: 1.0.0\r\nupload-offset: 0\r\n` +
      `content-type: application/offset+octet-stream\r\ncontent-length: 9000000\r\n\r\n${'x'.repeat(3_000_000)}`
  )
  let stored = 0
  await until('both have begun, and some bytes of the resumable upload are stored', async () => {
    const paths = await onDisk(folder)
    const sizes = await Promise.all(paths.map(async (path) => (await stat(join(folder, path))).size))
    stored = Math.max(...sizes)
    return (await rows(stopping))['pending'] === 1 && paths.length === 2 && stored > 5000
  })
  const start = globalThis.setTimeout
  const { restore } = t.intercept(globalThis, 'setTimeout', {
    // Running requests have to end at once.
    value: (work: () => void, ms?: number) => start(work, ms === 0.9 * timeoutMs ? 0 : ms)
  })
  await stopping.close()
  restore()
  for (const response of await Promise.all(responses)) t.match(response, /^HTTP\/1.1 503 .*TENANTRY_STOPPING/s)

  const { app: next } = await testApp(t, { plugins, engine })
  t.strictSame(await rows(next), { resumable: 1 }, 'nothing of the form is left')
  const { headers } = await userOf(t, await listen(next), user.headers).ask(`HEAD ${url}`, { headers: version })
  t.ok(Number(headers['upload-offset']) >= stored, `${headers['upload-offset']} of ${stored} bytes are kept`)
})

test('an upload may take longer than other requests', async (t) => {
  const { app: server, socket, response, user } = await app(t, {
    requestTimeout: 3000,
    http: { headersTimeout: 2900, connectionsCheckingInterval: 50 }
  }, 60_000)
  const body = form([file('x'.repeat(5000))])
  const timeout = once(server.server, 'clientError')
  socket.write(head(user, `content-length: ${body.length}`))
  socket.write(body.subarray(0, 3000))
  const [error] = await timeout
  t.match(error, { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  socket.write(body.subarray(3000))
  await once(socket, 'data')
  t.match(response(), /^HTTP\/1.1 201 /)
  socket.write(
    `POST /files/presign HTTP/1.1\r\nhost: x\r\nauthorization: ${
      user.headers['authorization']
    }\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{`
  )
  await once(socket, 'close')
  t.match(response(), /HTTP\/1.1 408 /, "the connection's next request may not")
})
