/** Calls to other services: retries, errors, and permissions to run them by hand. */
import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { secretText } from '../../helpers/log-scan.js'
import { refuseAudit } from '../../helpers/refused-audit.js'
import { remote } from '../../helpers/remote.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { callOf, connectorsOf, scopeOf } from './app.js'

const acmeKey = secretText('the-key-of-acme-0123456789', 'the key of acme')
const platformKey = secretText('the-key-of-the-platform-0123', 'the key of the platform')

test('integrations', async (t) => {
  /** The service's next responses; then 200. */
  const script: { readonly status?: number, readonly headers?: Record<string, string>, readonly body?: string, readonly lost?: true }[] = []
  const service = await remote(t, (request, response) => {
    const { status = 200, headers = {}, body = JSON.stringify({ ok: true, path: request.path }), lost } = script.shift() ?? {}
    if (lost === true) response.socket?.destroy()
    else response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
  })
  const actions = {
    get: { method: 'GET' as const, path: '/things/{{params.id}}' },
    make: { method: 'POST' as const, path: '/things', body: '{{params}}' }
  }
  const custom = (name: string, token: string) => ({ name, baseUrl: service.origin, auth: { type: 'bearer' as const, token }, actions })
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    credentials: { email: { apiKey: '{{env.EMAIL_KEY}}', baseUrl: service.origin } },
    customIntegrations: [custom('erp', '{{env.ERP_KEY}}')]
  }, { env: { EMAIL_KEY: platformKey, ERP_KEY: platformKey }, tenants: ['acme', 'globex'].map((id) => ({ id, plan: 'pro' })) })
  const as = (claims: Parameters<typeof signToken>[0]) => caller(t, app, { token: signToken(claims) })
  const admin = as({ role: 'admin', tenant_id: 'acme', sub: 'ada' })
  const other = as({ role: 'admin', tenant_id: 'globex', sub: 'bob' })
  const platform = as({ role: 'admin', sub: 'root' })
  t.equal((await admin('POST /tenant/secrets', { body: { key: 'CRM_KEY', value: acmeKey } })).status, 201)
  t.equal((await admin('POST /tenant/secrets', { body: { key: 'NOTE_KEY', value: acmeKey } })).status, 201)
  const keyed = {
    ...custom('keyed', '{{secret:NOTE_KEY}}'),
    actions: { note: { method: 'POST', path: '/notes', body: { key: '{{secret:NOTE_KEY}}' } } }
  }
  t.equal((await admin('POST /tenant/config', { body: { customIntegrations: [custom('crm', '{{secret:CRM_KEY}}'), keyed] } })).status, 200)

  await t.test("a tenant's caller runs the connectors of the tenant's document", async (t) => {
    service.requests.length = 0
    const response = await admin('POST /integrations/crm/get', { body: { id: 'a/b?c' } })
    t.match(response, { status: 200, body: { ok: true, path: '/things/a%2Fb%3Fc' } })
    t.match(service.requests, [{ method: 'GET', headers: { authorization: `Bearer ${acmeKey}` } }])
    const injected = { note: '{{secret:CRM_KEY}}', sum: '{{1 + 1}}' }
    t.equal((await admin('POST /integrations/crm/make', { body: injected })).status, 200)
    t.same(JSON.parse(service.requests.at(-1)?.body ?? ''), injected, "a caller's value is not a template")
    script.push({ status: 204, body: '' })
    t.match(await admin('POST /integrations/crm/make', {}), { status: 200, text: 'null' })
  })

  await t.test('a run needs its permission and an existing connector', async (t) => {
    service.requests.length = 0
    t.equal((await caller(t, app)('POST /integrations/crm/get', { body: {} })).status, 401)
    t.equal(
      (await as({ role: 'user', tenant_id: 'acme' })('POST /integrations/crm/get', { body: [] })).status,
      403,
      'before the body is validated'
    )
    t.equal(
      (await as({ role: 'user', tenant_id: 'acme', permissions: ['integrations:run'] })('POST /integrations/crm/get', {
        body: { id: '1' }
      })).status,
      200
    )
    t.match(await admin('POST /integrations/cmr/get', { body: {} }), { status: 404, body: { message: /expected one of .*crm/ } })
    t.match(await admin('POST /integrations/crm/fetch', { body: {} }), {
      status: 404,
      body: { message: /expected one of get, make/, known: ['get', 'make'] }
    })
    t.match(await other('POST /integrations/crm/get', { body: { id: '1' } }), { status: 404 }, "another tenant's connector")
    t.match(await platform('POST /integrations/crm/get', { body: { id: '1' } }), { status: 404 })
    t.match(await admin('POST /integrations/payment/createCustomer', { body: {} }), {
      status: 400,
      body: { code: 'TENANTRY_CREDENTIALS_REQUIRED' }
    })
    t.match(await admin('POST /integrations/crm/get', { body: [] }), { status: 400 })
    t.match(await admin('POST /integrations/http/request', { body: { url: 'http://169.254.169.254/latest/meta-data/', method: 'GET' } }), {
      status: 400,
      body: { code: 'TENANTRY_ADDRESS_REFUSED', integration: 'http', action: 'request' }
    })
    t.equal(service.requests.length, 1)
  })

  await t.test('only the platform uses its credentials', async (t) => {
    service.requests.length = 0
    t.match(await platform('POST /integrations/erp/get', { body: { id: '1' } }), { status: 200 })
    t.equal(service.requests.at(-1)?.headers.authorization, `Bearer ${platformKey}`)
    t.equal((await admin('POST /integrations/erp/get', { body: { id: '1' } })).status, 403)
    const mail = { to: 'a@example.com', from: 'b@example.com', subject: 's', text: 't' }
    t.match(await admin('POST /integrations/email/sendEmail', { body: mail }), {
      status: 403,
      body: { message: /^The credentials of the integration email are not all the tenant's: store a tenant secret for each, or/ }
    }, 'a missing secret is not called a credential of the platform')
    t.equal(service.requests.length, 1)
    await admin('POST /tenant/secrets', { body: { key: 'EMAIL_KEY', value: acmeKey } })
    t.equal((await admin('POST /integrations/email/sendEmail', { body: mail })).status, 200, "with the tenant's own key")
    t.equal(service.requests.at(-1)?.headers.authorization, `Bearer ${acmeKey}`)
    t.equal((await other('POST /integrations/email/sendEmail', { body: mail })).status, 403)
  })

  await t.test('each run is audited, without its params', async (t) => {
    script.push({ status: 400, body: '{"error":"the provider says: secret stuff"}' })
    const failed = await admin('POST /integrations/crm/get', { body: { id: 'a-private-id' } })
    t.match(failed, { status: 502, body: { code: 'TENANTRY_PROVIDER_FAILED', integration: 'crm', action: 'get', status: 400 } })
    t.notMatch(failed.text, /secret stuff/)
    const { body: { data = [] } } = await admin('GET /audit?action=integration.run&limit=100')
    t.match(data[0], { action: 'integration.run', outcome: 'failure', userId: 'ada', tenantId: 'acme' })
    t.notMatch(JSON.stringify(data), /a-private-id/)
    t.ok(data.length > 3)
    const entries = await app.db.selectFrom('tenantry.audit_log').select(['target', 'outcome', 'details']).where('tenant_id', '=', 'acme')
      .where('action', '=', 'integration.run').execute()
    t.same(new Set(entries.map(({ target }) => target)), new Set(['crm.get', 'crm.make', 'email.sendEmail', 'http.request']))
    t.ok(entries.every(({ details }) => details === null))
    const { body: { data: others = [] } } = await other('GET /audit?action=integration.run')
    t.same(others, [], 'rejected ones are not')
  })

  await t.test('a call records one use of a secret, however often it refers to it', async (t) => {
    t.equal((await admin('POST /integrations/keyed/note', { body: {} })).status, 200)
    t.match(service.requests.at(-1), { headers: { authorization: `Bearer ${acmeKey}` }, body: JSON.stringify({ key: acmeKey }) })
    t.equal((await app.secrets.list('acme')).find(({ key }) => key === 'NOTE_KEY')?.accessCount, 1)
  })

  await t.test('only safe calls are retried', async (t) => {
    const calls = async (target: string, headers = {}): Promise<{ status: number, sent: number, keys: unknown[] }> => {
      service.requests.length = 0
      const { status } = await admin(`POST /integrations/crm/${target}`, { body: { id: '1' }, headers })
      const sent = [...service.requests]
      script.length = 0
      return { status, sent: sent.length, keys: sent.map((request) => request.headers['idempotency-key']) }
    }
    script.push({ status: 503 }, { status: 429, headers: { 'retry-after': '0' } })
    t.match(await calls('get'), { status: 200, sent: 3 })
    script.push({ lost: true })
    t.match(await calls('get'), { status: 200, sent: 2 }, 'a lost connection')
    script.push({ status: 500 }, { status: 500 }, { status: 500 })
    t.match(await calls('get'), { status: 502, sent: 3 })
    t.match(await calls('get'), { status: 200, sent: 1 })
    script.push({ status: 500 })
    t.match(await calls('make'), { status: 502, sent: 1, keys: [undefined] }, 'a POST may have been executed')
    script.push({ lost: true })
    t.match(await calls('make'), { status: 502, sent: 1 })
    script.push({ status: 502 }, { lost: true })
    t.match(
      await calls('make', { 'idempotency-key': 'order-1' }),
      { status: 200, sent: 3, keys: ['order-1', 'order-1', 'order-1'] },
      'with a key it is executed once'
    )
    for (const status of [400, 401, 403, 404, 409, 422, 302]) {
      script.push({ status })
      t.match(await calls('get'), { status: 502, sent: 1 }, String(status))
    }
    script.push({ status: 429, headers: { 'retry-after': '3600' } })
    t.match(await calls('get'), { status: 502, sent: 1 }, "a requested wait longer than the caller's deadline")
    script.push({ status: 429, headers: { 'retry-after': new Date(Date.now() + 3_600_000).toUTCString() } })
    t.match(await calls('get'), { status: 502, sent: 1 }, 'by a date')
    script.push({ body: '{"broken":' })
    t.match(await calls('get'), { status: 502, sent: 1 }, 'a response that is not JSON')
    script.push({ headers: { 'content-encoding': 'gzip' } })
    t.match(await calls('get'), { status: 502, sent: 1 }, 'a compressed response')
    script.push({ body: '['.repeat(100_000) + ']'.repeat(100_000) })
    t.match(await calls('get'), { status: 502, sent: 1 }, 'a response that nests too deeply')
  })

  await t.test('a call ends at its timeout, or when its caller aborts it', async (t) => {
    const silent = await remote(t, () => {})
    const call = callOf(connectorsOf([{ name: 'slow', baseUrl: silent.origin, actions }]), 'slow', 'get')
    const run = async (options: Partial<Parameters<FastifyInstance['integrations']['run']>[2]>) =>
      await app.integrations.run(call, await scopeOf(app, 'globex', { id: '1' }), { tenant: tenantRef('globex'), log: app.log, ...options })
    const ending = new AbortController()
    const ended = run({ signal: ending.signal })
    ended.catch(() => {})
    await until('the service has the request', () => silent.requests.length === 1)
    ending.abort(new Error('the run was canceled'))
    await t.rejects(ended, { message: 'the run was canceled' })
    await t.rejects(run({ timeoutMs: 100 }), { code: 'TENANTRY_PROVIDER_TIMEOUT', extras: { integration: 'slow', action: 'get' } })
    const busy = await remote(t, (_request, response) => {
      response.writeHead(503).end()
    })
    const again = callOf(connectorsOf([{ name: 'busy', baseUrl: busy.origin, actions }]), 'busy', 'get')
    await t.rejects(
      app.integrations.run(again, await scopeOf(app, 'globex', { id: '1' }), { tenant: tenantRef('globex'), log: app.log, retries: false }),
      { code: 'TENANTRY_PROVIDER_FAILED', extras: { status: 503 } }
    )
    t.equal(busy.requests.length, 1, 'a workflow step has its own retries')
  })
})

test('a call that was made is answered although its audit entry cannot be written', async (t) => {
  const service = await remote(t, (request, response) => {
    const { status } = JSON.parse(request.body)
    response.writeHead(status, { 'content-type': 'application/json' }).end('{"ok":true}')
  })
  const lines: string[] = []
  const stream = {
    write (line: string) {
      lines.push(line)
    }
  }
  const app = await testServer(t, {
    egress: { allow: ['127.0.0.1'] },
    customIntegrations: [{ name: 'erp', baseUrl: service.origin, actions: { make: { method: 'POST', path: '/things', body: '{{params}}' } } }]
  }, { logger: { level: 'error', stream } })
  await refuseAudit(app.db, 'integration.run')
  const platform = caller(t, app, { token: signToken({ role: 'admin', sub: 'root' }) })
  t.match(await platform('POST /integrations/erp/make', { body: { status: 200 } }), { status: 200, body: { ok: true } })
  t.match(await platform('POST /integrations/erp/make', { body: { status: 400 } }), {
    status: 502,
    body: { code: 'TENANTRY_PROVIDER_FAILED', status: 400 }
  })
  t.equal(service.requests.length, 2)
  const logged = lines.map((line) => JSON.parse(line)).filter(({ action }) => action === 'integration.run')
  t.match(logged, [{ target: 'erp.make', outcome: 'success', userId: 'root' }, { target: 'erp.make', outcome: 'failure', userId: 'root' }])
})
