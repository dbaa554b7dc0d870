/** The log lines of requests over HTTP, and the propagation of a request's trace to its calls. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { Writable } from 'node:stream'
import { test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { scanLog } from '../../helpers/log-scan.js'
import { remote } from '../../helpers/remote.js'
import { listen, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const traceparent = `00-${traceId}-00f067aa0ba902b7-01`
const tracestate = 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'
const trace = { traceparent, tracestate }

test('lines of requests, and traces', async (t) => {
  const lines: Record<string, unknown>[] = []
  const scan = scanLog(t, 'the log of the server')
  const stream = new Writable({
    write (chunk, _encoding, done) {
      const text = String(chunk)
      scan.write(text)
      lines.push(JSON.parse(text))
      done()
    }
  })
  const hall = gate()
  let waiting = false
  const service = await remote(t, async ({ path }, response) => {
    waiting = path === '/slow'
    if (waiting) await hall.opened
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}')
  })
  const connector = (name: string) => ({
    name,
    baseUrl: service.origin,
    actions: {
      get: { method: 'GET' as const, path: '/things' },
      noted: { method: 'GET' as const, path: '/things', query: { note: '{{params.note}}' } },
      slow: { method: 'GET' as const, path: '/slow' },
      own: { method: 'GET' as const, path: '/own', headers: { TraceParent: '{{params.parent}}' } }
    }
  })
  const call = (id: string) => ({ id, type: 'integration' as const, integration: 'crm', action: 'get' })
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    customIntegrations: [connector('crm')],
    workflows: [{ id: 'named', steps: [call('named')] }, { id: 'callback', steps: [call('callback')], webhookOnComplete: '{{input.url}}' }],
    routes: [
      { method: 'get', path: '/things/:id', integrations: [{ type: 'crm', action: 'get' }] },
      { method: 'get', path: '/slow', integrations: [{ type: 'crm', action: 'slow' }] },
      { method: 'get', path: '/own', integrations: [{ type: 'crm', action: 'own', params: { parent: 'of the document' } }] },
      { method: 'post', path: '/inline', workflow: { steps: [call('inline')] } },
      { method: 'post', path: '/named', workflow: { ref: 'named' } },
      { method: 'post', path: '/callback', workflow: { ref: 'callback', async: true } }
    ]
  }, {
    tenants: ['acme', 'globex'].map((id) => ({ id, plan: 'pro' })),
    logger: { level: 'debug', stream, mixin: () => ({ instance: 'one' }) }
  })
  const admin = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme', sub: 'ada' }) })
  const stranger = caller(t, app)
  const saved = await admin('POST /tenant/config', {
    body: {
      customIntegrations: [connector('shop')],
      routes: [{
        method: 'get',
        path: '/shops/:id',
        integrations: [{ type: 'shop', action: 'noted', params: { note: '{{secret:NOT_THERE}}' } }]
      }]
    }
  })
  t.equal(saved.status, 200, saved.text)
  const of = (reqId: string) => lines.filter((line) => line['reqId'] === reqId)

  await t.test('every line of a request has its id, route, tenant and trace; one line is at info', async (t) => {
    t.equal((await admin('GET /shops/7?token=hidden', { headers: { 'x-request-id': 'own-1', ...trace } })).status, 200)
    const own = of('own-1')
    t.ok(own.length >= 2, 'the missing secret has its own line')
    for (const line of own) t.match(line, { route: '/shops/:id', tenant: 'acme', traceId, instance: 'one' })
    t.match(own.filter(({ level }) => level === 30), [{ msg: 'request', method: 'GET', path: '/shops/7', status: 200 }])
    t.equal(own.filter(({ level }) => level === 30).length, 1)
    t.notMatch(JSON.stringify(own), 'hidden')

    t.equal((await stranger('GET /things/1', { headers: { 'x-request-id': 'plain-1' } })).status, 200)
    t.match(of('plain-1'), [{ route: '/things/:id', msg: 'request' }])
    for (const line of of('plain-1')) for (const name of ['tenant', 'traceId']) t.notOk(name in line, name)

    t.equal((await admin('GET /nothing/of/it', { headers: { 'x-request-id': 'none-1' } })).status, 404)
    t.ok(of('none-1').length > 0)
    for (const line of of('none-1')) t.notOk('route' in line, 'it has none')
    t.equal((await stranger('GET /%', { headers: { 'x-request-id': 'bad-1', traceparent: 'x' } })).status, 400)
    t.ok(of('bad-1').length > 0)
    t.notOk(lines.some((line) => line['reqId'] === undefined && ('route' in line)), 'lines without a request')
  })

  await t.test('a caller that disconnects before the response has one line too', async (t) => {
    const socket = connect(Number(new URL(await listen(app)).port), '127.0.0.1')
    socket.write(
      `GET /slow?token=hidden HTTP/1.1\r\nhost: a\r\nx-request-id: left-1\r\nauthorization: Bearer ${
        signToken({ role: 'admin', tenant_id: 'acme', sub: 'ada' })
      }\r\n\r\n`
    )
    await until('the other service is called', () => waiting)
    socket.destroy()
    await until('the line is logged', () => of('left-1').some(({ level }) => level === 30))
    hall.open()
    await until(
      'the handler has ended',
      async () => (await admin('GET /things/3', { headers: { 'x-request-id': 'after-1' } })).status === 200
    )
    t.match(of('left-1').filter(({ level }) => level === 30), [{
      msg: 'request',
      method: 'GET',
      route: '/slow',
      path: '/slow',
      tenant: 'acme',
      status: 499,
      aborted: true
    }])
    t.equal(of('left-1').filter(({ level }) => level === 30).length, 1)
  })

  await t.test('a caller that disconnects within the body has one line, without a stack', async (t) => {
    const { port } = app.server.address() as AddressInfo
    for (const [index, head] of ['content-length: 100', 'transfer-encoding: chunked'].entries()) {
      const id = `left-body-${index}`
      const socket = connect(port, '127.0.0.1')
      const arrived = once(app.server, 'request')
      socket.write(
        `POST /inline HTTP/1.1\r\nhost: a\r\nx-request-id: ${id}\r\ncontent-type: application/json\r\nauthorization: Bearer ${
          signToken({ role: 'admin', tenant_id: 'acme', sub: 'ada' })
        }\r\n${head}\r\n\r\n${index === 0 ? '{"a":' : '5\r\n{"a":\r\n'}`
      )
      const [request]: IncomingMessage[] = await arrived
      await until('its body is read', () => Number(request?.listenerCount('data')) > 0)
      socket.destroy()
      await until('it is logged', () => of(id).some(({ msg }) => msg === 'request'))
      t.match(of(id).filter(({ level }) => Number(level) >= 30), [{ msg: 'request', status: 499, aborted: true }], id)
      t.notMatch(of(id).map((line) => JSON.stringify(line)).join(), /stack/)
    }
  })

  await t.test('concurrent requests have their own lines', async (t) => {
    const tenants = ['acme', 'globex']
    await Promise.all(Array.from({ length: 40 }, async (_, index) => {
      const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: tenants[index % 2] ?? '', sub: 'ada' }) })
      await ask('GET /things/2', { headers: { 'x-request-id': `many-${index}` } })
    }))
    for (let index = 0; index < 40; index++) t.strictSame([...new Set(of(`many-${index}`).map((line) => line['tenant']))], [tenants[index % 2]])
  })

  await t.test('lines that other code logs for a request contain no secret', async (t) => {
    const refused = await stranger('POST /auth/login', {
      raw: '{"email": "a@b.example", "password": "hunter2-hunter2"',
      headers: { 'x-request-id': 'login-1' }
    })
    t.equal(refused.status, 400)
    app.log.error({ err: new Error('postgres://me:hunter2@db/app'), request: { headers: { cookie: 'a=hunter2' } } }, 'Bearer hunter2')
    app.log.child({ token: 'hunter2' }).info('made of it')
    t.ok(lines.some(({ msg }) => msg === 'Bearer [Redacted]'))
    t.match(lines.find(({ msg }) => msg === 'made of it'), { token: '[Redacted]' })
    t.notMatch(JSON.stringify(lines), 'hunter2')
  })

  await t.test('the trace is sent with calls of the platform, of tenants and of workflows', async (t) => {
    for (
      const [target, status] of [['GET /things/1', 200], ['GET /shops/1', 200], ['POST /inline', 200], ['POST /named', 200], [
        'POST /integrations/shop/get',
        200
      ]] as const
    ) {
      service.requests.length = 0
      t.equal((await admin(target, { headers: trace })).status, status, target)
      t.match(service.requests, [{ headers: trace }], target)
      service.requests.length = 0
      await admin(target, { headers: { ...trace, traceparent: traceparent.toUpperCase() } })
      t.equal(service.requests.length, 1)
      for (const name of ['traceparent', 'tracestate']) {
        t.notOk(name in (service.requests[0]?.headers ?? {}), `${target}: an invalid trace is not sent`)
      }
      service.requests.length = 0
      await admin(target)
      t.notOk('traceparent' in (service.requests[0]?.headers ?? {}), "it is that request's trace")
    }
    t.equal((await admin('POST /agent/workflow/run', { body: { ref: 'named', async: false }, headers: trace })).status, 200)
    t.match(service.requests.at(-1), { headers: trace })
    service.requests.length = 0
    await admin('GET /own', { headers: trace })
    t.equal(service.requests[0]?.headers['traceparent'], 'of the document')
    t.notOk('tracestate' in (service.requests[0]?.headers ?? {}), "nor another trace's state")
  })

  await t.test('the trace is kept by an asynchronous run, whose lines have task, tenant and trace', async (t) => {
    service.requests.length = 0
    const { body, status } = await admin('POST /callback', { body: { url: 'no address' }, headers: trace })
    t.equal(status, 202)
    const workflowId = String(body['workflowId'])
    const ofRun = () => lines.filter((line) => line['workflowId'] === workflowId)
    await until('the callback that is not sent is logged', () => ofRun().length > 0)
    t.match(service.requests, [{ headers: trace }])
    for (const line of ofRun()) t.match(line, { task: 'workflow.run', tenant: 'acme', traceId, msg: /is not a valid address/ })
  })

  await t.test('a path is truncated if it is longer than any real one', async (t) => {
    await stranger(`GET /${'x'.repeat(5000)}`, { headers: { 'x-request-id': 'long-1' } })
    t.strictSame(of('long-1').filter(({ msg }) => msg === 'request').map(({ path }) => String(path).length), [2048])
  })

  await t.test("a service's log line for a tenant names the tenant", async (t) => {
    app.tenants.onDelete(() => {
      throw new Error('of the test')
    })
    await t.rejects(app.tenants.delete('globex'), { message: 'of the test' })
    t.match(lines.filter(({ msg }) => String(msg).startsWith('a listener for deleted tenants failed')), [{ tenant: 'globex' }])
  })
})
