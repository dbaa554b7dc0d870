import { createHmac } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { checkConfig, ConfigError } from '../../../lib/configuration/index.js'
import { noActor } from '../../../lib/database/audit.js'
import { platformRef, serverRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createWebhookDeduplication, sweepHandledWebhooks } from '../../../plugins/config-routes/webhook-deduplication.js'
import { atOnce } from '../../helpers/at-once.js'
import { gate } from '../../helpers/gate.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { listen, testDocument, testServer, testServers } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { byGithub, bySlack, byStandard, byStripe, byTwilio, type Signed } from '../../helpers/webhooks.js'

const secret = 'a signing secret of the tests'
const seen = { table: 'seen', operation: 'insert', data: { kind: '{{payload.kind}}', source: 'platform' } } as const

const document: TestDocument = {
  // This server is the called service.
  egress: { allow: ['127.0.0.1'] },
  tables: {
    seen: {
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        kind: { type: 'text', notNull: true },
        source: { type: 'text' }
      },
      tenantScoped: false
    },
    heard: {
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        kind: { type: 'text', notNull: true },
        source: { type: 'text' }
      },
      tenantScoped: true
    }
  },
  routes: [
    { method: 'post', path: '/in/github', webhook: { provider: 'github', secret: '{{env.HOOK}}' }, queries: [seen] },
    {
      method: 'post',
      path: '/in/github/:name',
      webhook: { provider: 'github', secret: '{{env.HOOK}}' },
      queries: [{ ...seen, data: { kind: '{{payload.kind}}', source: '{{params.name}}' } }]
    },
    { method: 'post', path: '/in/standard', webhook: { provider: 'payprov', secret: '{{env.HOOK}}' }, queries: [seen] },
    { method: 'post', path: '/in/stripe', webhook: { provider: 'altprov', secret: '{{env.HOOK}}' }, queries: [seen] },
    { method: 'post', path: '/in/slack', webhook: { provider: 'slack', secret: '{{env.HOOK}}' }, queries: [seen] },
    {
      method: 'post',
      path: '/in/twilio',
      webhook: { provider: 'twilio', secret: '{{env.HOOK}}' },
      response: { from: '{{payload.From}}', same: '{{body.From}}' }
    },
    {
      method: 'post',
      path: '/in/custom',
      webhook: { provider: 'custom', secret: '{{env.HOOK}}', header: 'X-Sig', algorithm: 'sha512', encoding: 'base64' },
      response: { got: '{{payload}}' }
    },
    {
      method: 'post',
      path: '/in/checked',
      webhook: { provider: 'github', secret: '{{env.HOOK}}' },
      request: { body: { kind: { type: 'string', required: true } } },
      queries: [seen]
    },
    { method: 'post', path: '/in/empty', webhook: { provider: 'github', secret: "{{env.NONE || ''}}" }, response: {} },
    {
      method: 'post',
      path: '/in/tenant',
      webhook: { provider: 'github', secret: '{{secret:HOOK}}' },
      queries: [{ table: 'heard', operation: 'insert', data: { kind: '{{payload.kind}}' } }]
    },
    {
      method: 'post',
      path: '/in/shared',
      webhook: { provider: 'github', secret: '{{env.HOOK}}' },
      queries: [{ table: 'heard', operation: 'insert', data: { kind: '{{payload.kind}}' } }]
    },
    { method: 'post', path: '/in/copies', webhook: { provider: 'github', secret: '{{secret:HOOK}}{{secret:HOOK}}' }, response: {} },
    { method: 'post', path: '/in/private', public: false, webhook: { provider: 'github', secret: '{{secret:HOOK}}' }, response: {} },
    { method: 'post', path: '/plain', response: { tenant: '{{tenant.id || "none"}}', sent: '{{body}}' } }
  ],
  webhooks: [
    {
      name: 'now',
      path: '/hooks/now/:source',
      provider: 'github',
      secret: '{{env.HOOK}}',
      workflow: {
        steps: [{
          id: 'note',
          type: 'database',
          table: 'seen',
          operation: 'insert',
          data: { kind: '{{payload.kind}}', source: '{{params.source}}' }
        }]
      }
    },
    {
      name: 'later',
      path: '/hooks/later',
      provider: 'github',
      secret: '{{env.HOOK}}',
      workflow: {
        async: true,
        steps: [{ id: 'note', type: 'database', table: 'seen', operation: 'insert', data: { kind: '{{payload.kind}}' } }]
      }
    }
  ]
}

const env = { HOOK: secret, APP_URL: 'https://public.example.com/' }

type Reply = { readonly status: number, readonly body: Record<string, unknown> }

async function send (
  app: FastifyInstance,
  url: string,
  { headers, payload }: Signed,
  more: Readonly<Record<string, string>> = {}
): Promise<Reply> {
  const response = await app.inject({ method: 'POST', url, headers: { ...headers, ...more }, payload })
  return { status: response.statusCode, body: response.json() }
}

async function count (app: FastifyInstance, table: 'seen' | 'heard', kind: string): Promise<number> {
  const text = await app.engine.text({ text: `select count(*)::text from ${table} where kind = $1`, name: `count_${table}` }, [kind], {
    tenant: serverRef
  })
  return Number(text)
}

function store (app: FastifyInstance, tenant: string, value: string): Promise<unknown> {
  return app.secrets.put(tenant, { key: 'HOOK', value }, noActor)
}

const refused = { status: 401, body: { code: 'TENANTRY_SIGNATURE_INVALID' } }
const received = { status: 200, body: { received: true } }
const created = { status: 201 }

// One of them waits for a delivery that is being processed.
t.test('deliveries', (t) =>
  atOnce(t, {
    'deliveries of every scheme': everyScheme,
    'an address with many wrong signatures is blocked, but valid ones are always accepted': refuses,
    'two servers of one database process a delivery once': twoServers
  }))

async function everyScheme (t: Test): Promise<void> {
  await forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, document, {
      engine,
      env,
      tenants: [{ id: 'a', plan: 'pro' }, { id: 'b', plan: 'pro' }, { id: 'victim', plan: 'pro' }]
    })
    await t.test('deliveries are processed once', (t) => once(t, app))
    await t.test('deliveries are verified', (t) => verified(t, app))
    await t.test('deliveries are parsed', (t) => read(t, app))
    await t.test('a delivery belongs to one tenant', (t) => isolated(t, app))
    await t.test('a delivery runs the declared steps', (t) => declared(t, app))
    await t.test("a delivery signed with the platform's secret is not processed again for another tenant", (t) => bound(t, app))
    await t.test('two tenants with the same secret in their documents each process a delivery', (t) => literal(t, app))
    await t.test("a delivery with a wrong signature does not count as the named tenant's usage", (t) => billed(t, app))
  })
}

async function once (t: Test, app: FastifyInstance): Promise<void> {
  const first = byGithub(secret, '{"kind":"once"}', 'd-1')
  t.match(await send(app, '/in/github', first), created)
  t.strictSame(await send(app, '/in/github', first), received, 'again')
  t.strictSame(await send(app, '/in/github', byGithub(secret, '{"kind":"other"}', 'd-1')), received, 'another body under its id')
  t.equal(await count(app, 'seen', 'once'), 1)
  t.equal(await count(app, 'seen', 'other'), 0)
  t.match(await send(app, '/in/github/x', first), created, 'the id of a delivery to another address')
  t.match(await send(app, '/in/github/y', first), created)
  t.strictSame(await send(app, '/in/github/%78', first), received, 'another spelling of the same address')
  const long = `/in/github/${Array.from({ length: 400 }, (_, at) => encodeURIComponent(String.fromCodePoint(0x4e00 + at * 37))).join('')}`
  t.match(await send(app, long, first), created, 'an address that is too long for an index')
  t.strictSame(await send(app, long, first), received)
  t.match(await send(app, `${long}y`, first), created)

  const event = '{"id":"evt_1","kind":"stripe"}'
  t.match(await send(app, '/in/stripe', byStripe(secret, event)), created)
  t.strictSame(
    await send(app, '/in/stripe', byStripe(secret, event, Date.now() - 60_000)),
    received,
    'a redelivery with a new time and signature'
  )
  t.match(
    await send(app, '/in/stripe', byStripe(secret, event, Date.now() - 3_600_000)),
    refused,
    'a delivery replayed after an hour'
  )
  t.equal(await count(app, 'seen', 'stripe'), 1)

  // A failed delivery is not recorded as processed: its redelivery may succeed.
  const failing = byGithub(secret, '{"kind":null}', 'd-2')
  t.match(await send(app, '/in/github', failing), { status: 400 })
  t.match(await send(app, '/in/github', byGithub(secret, '{"kind":"later"}', 'd-2')), created)
  t.match(await send(app, '/in/checked', byGithub(secret, '{"kind":1}', 'd-3')), {
    status: 400,
    body: { code: 'TENANTRY_VALIDATION_FAILED' }
  })
  t.match(await send(app, '/in/checked', byGithub(secret, '{"kind":"checked"}', 'd-3')), created)

  const same = byGithub(secret, '{"kind":"same"}', 'd-4')
  const responses = await Promise.all(Array.from({ length: 5 }, () => send(app, '/in/github', same)))
  t.strictSame(responses.map(({ status }) => status).sort(), [200, 200, 200, 200, 201], 'five at the same time')
  t.equal(await count(app, 'seen', 'same'), 1)
}

async function verified (t: Test, app: FastifyInstance): Promise<void> {
  const body = '{"kind":"forged"}'
  t.match(await send(app, '/in/github', byGithub('another secret', body)), refused)
  t.match(await send(app, '/in/github', { headers: { 'content-type': 'application/json' }, payload: body }), refused, 'without a signature')
  t.match(await send(app, '/in/github', { ...byGithub(secret, body), payload: `${body} ` }), refused, 'another body')
  t.match(await send(app, '/in/github', byGithub('', body)), refused, 'signed with an empty secret')
  t.match(await send(app, '/in/empty', byGithub('', body)), refused, 'with an empty secret')
  t.match(await send(app, '/in/tenant', byGithub('{{secret:HOOK}}', body)), refused, "the document's text is not a secret")
  t.match(await send(app, '/in/tenant', byGithub('{{secret:HOOK}}', body), { 'x-tenant-id': 'a' }), refused)
  t.match(await send(app, '/in/standard', byStandard(secret, body, 'm-1', Date.now() - 3_600_000)), refused, 'an hour old')
  t.match(await send(app, '/in/standard', byStandard(secret, body, 'm-1', Date.now() + 3_600_000)), refused, 'an hour in the future')

  const standard = byStandard(secret, '{"kind":"two"}', 'm-2')
  const two = {
    ...standard,
    headers: { ...standard.headers, 'webhook-signature': `v1,${'A'.repeat(43)}= ${standard.headers['webhook-signature']}` }
  }
  t.match(await send(app, '/in/standard', two), created, 'two signatures in one header')
  const reordered = byStripe(secret, '{"id":"evt_2","kind":"reordered"}')
  const parts = reordered.headers['stripe-signature']?.split(',').reverse().join(',') ?? ''
  t.match(
    await send(app, '/in/stripe', {
      ...reordered,
      headers: { ...Object.fromEntries(Object.entries(reordered.headers).reverse()), 'stripe-signature': parts }
    }),
    created,
    'headers and their parts in another order'
  )

  const twice = byGithub(secret, body)
  const response = await app.inject({
    method: 'POST',
    url: '/in/github',
    headers: { ...twice.headers, 'x-hub-signature-256': ['sha256=00', twice.headers['x-hub-signature-256'] ?? ''] },
    payload: body
  })
  t.match(response.json(), refused.body, 'a repeated header')
  t.equal(await count(app, 'seen', 'forged'), 0)
}

/** The app's address, as in links of mails, is often not the address of the API. */
async function verifyOwnAddress (t: Test, app: FastifyInstance): Promise<void> {
  const own = byTwilio(secret, 'http://api.example.com/in/twilio?a=1', { From: '+1 777' })
  t.strictSame(
    (await send(app, '/in/twilio?a=1', own, { host: 'api.example.com' })).body,
    { from: '+1 777', same: '+1 777' },
    "the request's own address is signed"
  )

  const signed = byTwilio(secret, 'https://public.example.com/in/twilio?a=1', { From: '+1 888' })
  t.strictSame((await send(app, '/in/twilio?a=1', signed)).body, { from: '+1 888', same: '+1 888' })
  for (const host of ['other.example.com', 'a:b', 'public.example.com:443']) {
    t.strictSame((await send(app, '/in/twilio?a=1', signed, { host })).body, { received: true }, `a repetition with the host ${host}`)
  }
}

async function read (t: Test, app: FastifyInstance): Promise<void> {
  const from = { From: '+1 555', Body: 'a&b=ü' }
  const url = 'https://public.example.com/in/twilio?a=1'
  t.strictSame(
    await send(app, '/in/twilio?a=1', byTwilio(secret, url, from)),
    { status: 200, body: { from: '+1 555', same: '+1 555' } },
    'the public address is signed'
  )
  t.match(await send(app, '/in/twilio?a=2', byTwilio(secret, url, from)), refused)
  t.match(await send(app, '/in/twilio?a=1', byTwilio(secret, 'http://other.example.com/in/twilio?a=1', from)), refused)
  await verifyOwnAddress(t, app)

  const custom = (payload: string, type = 'application/json') => ({
    headers: { 'content-type': type, 'x-sig': createHmac('sha512', secret).update(payload).digest('base64') },
    payload
  })
  t.strictSame((await send(app, '/in/custom', custom('{"a":[1]}'))).body, { got: { a: [1] } })
  t.strictSame((await send(app, '/in/custom', custom('{"a":2}', 'application/cloudevents+json; charset="UTF-8"'))).body, { got: { a: 2 } })
  t.strictSame((await send(app, '/in/custom', custom('a=1&b=2&a=3', 'application/x-www-form-urlencoded'))).body, {
    got: { a: ['1', '3'], b: '2' }
  })
  t.match(await send(app, '/in/custom', custom('a=%FF', 'text/plain')), { status: 415 })
  t.match(await send(app, '/in/custom', custom('{"a":3}', 'application/json; charset=utf-16')), { status: 415 }, 'another charset')
  t.match(await send(app, '/in/custom', custom('{"a":4}'), { 'content-encoding': 'gzip' }), { status: 415 })
  const invalid = custom('{"a":')
  t.match(await send(app, '/in/custom', invalid), { status: 400, body: { code: 'TENANTRY_BAD_REQUEST' } }, 'signed, but not JSON')
  t.match(
    await send(app, '/in/custom', { ...invalid, headers: { ...invalid.headers, 'x-sig': 'x' } }),
    refused,
    'neither JSON nor signed: it is not read'
  )
  t.match(await send(app, '/in/custom', custom('{"__proto__":{}}')), { status: 400 })
  const bytes = Buffer.from([0x22, 0xff, 0x22])
  const binary = await app.inject({
    method: 'POST',
    url: '/in/custom',
    headers: { 'content-type': 'application/json', 'x-sig': createHmac('sha512', secret).update(bytes).digest('base64') },
    payload: bytes
  })
  t.equal(binary.statusCode, 400, 'invalid UTF-8 is verified by its bytes, and not parsed')
  const limit = 1_048_576
  const padded = (length: number) => `{"a":"${'x'.repeat(length - 8)}"}`
  t.match(await send(app, '/in/custom', custom(padded(limit))), { status: 200 })
  t.match(await send(app, '/in/custom', custom(padded(limit + 1))), { status: 413 }, 'one byte too many')

  t.strictSame(await send(app, '/in/slack', bySlack(secret, '{"type":"url_verification","challenge":"abc"}')), {
    status: 200,
    body: { challenge: 'abc' }
  })
  t.match(await send(app, '/in/slack', bySlack('other', '{"type":"url_verification","challenge":"abc"}')), refused)
  t.match(await send(app, '/in/slack', bySlack(secret, '{"event_id":"Ev1","kind":"slack"}')), created)
  t.strictSame(
    await send(app, '/in/slack', bySlack(secret, '{"event_id":"Ev1","kind":"slack"}', 'application/json', Date.now() - 60_000)),
    received
  )
  t.match(
    await send(
      app,
      '/in/slack',
      bySlack(secret, `payload=${encodeURIComponent('{"kind":"action"}')}`, 'application/x-www-form-urlencoded')
    ),
    created,
    'JSON within a form'
  )
  t.equal(await count(app, 'seen', 'action'), 1)
  t.match(
    await send(app, '/plain', { headers: { 'content-type': 'application/x-www-form-urlencoded' }, payload: 'a=1' }),
    { status: 415 },
    'other routes accept only JSON'
  )
}

async function isolated (t: Test, app: FastifyInstance): Promise<void> {
  for (const [length, response] of [[40_000, refused], [30_000, { status: 200 }]] as const) {
    const long = 'x'.repeat(length)
    await store(app, 'a', long)
    t.match(await send(app, '/in/copies?tenant=a', byGithub(long + long, `{"kind":"${length}"}`)), response, `copies of ${length} characters`)
  }
  await store(app, 'a', 'the secret of a')
  await store(app, 'b', 'the secret of b')
  const route = {
    method: 'post',
    path: '/own',
    webhook: { provider: 'github', secret: '{{secret:HOOK}}' },
    queries: [{ table: 'heard', operation: 'insert', data: { kind: '{{payload.kind}}', source: '{{tenant.id}}' } }]
  }
  const quiet = { method: 'post', path: '/quiet', response: { tenant: '{{tenant.id}}' } }
  for (const tenant of ['a', 'b']) {
    const saved = await app.inject({
      method: 'POST',
      url: '/tenant/config',
      headers: bearer({ role: 'admin', tenant_id: tenant }),
      payload: { routes: [route, quiet] }
    })
    t.equal(saved.statusCode, 200, saved.body)
  }
  for (const path of ['/own', '/in/tenant']) {
    const delivery = byGithub('the secret of a', `{"kind":"a${path}"}`, 'one')
    t.match(await send(app, path, delivery), path === '/own' ? { status: 404 } : refused, `${path}: without a tenant`)
    t.match(await send(app, `${path}?tenant=b`, delivery), refused, "with another tenant's secret")
    t.match(await send(app, `${path}?tenant=b`, delivery, { 'x-tenant-id': 'b' }), refused)
    t.match(await send(app, `${path}?tenant=a`, delivery), created)
    t.strictSame(await send(app, path, delivery, { 'x-tenant-id': 'a' }), received, 'the tenant in the header, and the same delivery')
    t.match(
      await send(app, `${path}?tenant=b`, byGithub('the secret of b', `{"kind":"b${path}"}`, 'one')),
      created,
      'the same id for another tenant'
    )
    t.match(
      await send(app, `${path}?tenant=a`, byGithub('the secret of b', '{"kind":"mixed"}'), { 'x-tenant-id': 'b' }),
      created,
      'the header takes precedence over the query'
    )
    t.match(await send(app, `${path}?tenant=nobody`, delivery), { status: 404, body: { code: 'TENANTRY_TENANT_UNKNOWN' } })
    for (const query of ['tenant=a&tenant=b', 'tenant=', 'tenant=a%00']) {
      t.match(await send(app, `${path}?${query}`, delivery), {
        status: 400,
        body: { code: 'TENANTRY_TENANT_INVALID', message: /The parameter tenant/ }
      })
    }
    t.equal(await count(app, 'heard', `a${path}`), 1)
    t.equal(await count(app, 'heard', `b${path}`), 1)
  }
  const plain = { headers: { 'content-type': 'application/json' }, payload: '{}' }
  t.match(await send(app, '/quiet?tenant=a', plain), { status: 404 }, 'the query of other routes does not select a tenant')
  t.match(await send(app, '/quiet', plain, { 'x-tenant-id': 'a' }), { status: 200, body: { tenant: 'a' } })
  t.match(await send(app, '/plain?tenant=a', plain), { status: 200, body: { tenant: 'none' } })
  t.match(await send(app, '/in/private?tenant=a', byGithub('the secret of a', '{}')), refused)
  t.match(
    await send(app, '/own?tenant=a', byGithub('the secret of a', '{"kind":"form"}'), bearer({ tenant_id: 'b' })),
    refused,
    'a token implies its tenant'
  )

  await app.secrets.rotate('a', { key: 'HOOK', newValue: 'the next of a', gracePeriodDays: 1 }, noActor)
  t.match(await send(app, '/own?tenant=a', byGithub('the secret of a', '{"kind":"before"}')), created, 'the previous secret after a rotation')
  t.match(await send(app, '/own?tenant=a', byGithub('the next of a', '{"kind":"after"}')), created)
  await app.secrets.rotate('a', { key: 'HOOK', newValue: 'the last of a', gracePeriodDays: 0 }, noActor)
  t.match(await send(app, '/own?tenant=a', byGithub('the next of a', '{"kind":"over"}')), refused, 'without a grace period')
  t.match(await send(app, '/own?tenant=a', byGithub('the last of a', '{"kind":"last"}')), created)
  await app.secrets.rotate('a', { key: 'HOOK', newValue: 'BBB of a', gracePeriodDays: 7 }, noActor)
  await app.secrets.rotate('a', { key: 'HOOK', newValue: 'CCC of a', gracePeriodDays: 1 }, noActor)
  for (const value of ['the last of a', 'BBB of a', 'CCC of a']) {
    t.match(await send(app, '/own?tenant=a', byGithub(value, `{"kind":"rotated twice","by":"${value}"}`)), created, value)
  }
  await app.secrets.delete('a', 'HOOK', noActor)
  t.match(await send(app, '/own?tenant=a', byGithub('the last of a', '{"kind":"gone"}')), refused, 'without the secret')
  t.match(await send(app, '/own?tenant=a', byGithub('{{secret:HOOK}}', '{"kind":"gone"}')), refused)
  await app.tenants.update('b', { status: 'suspended' })
  t.match(await send(app, '/own?tenant=b', byGithub('the secret of b', '{}')), { status: 403 })
}

async function bound (t: Test, app: FastifyInstance): Promise<void> {
  const delivery = (id: string) => byGithub(secret, '{"kind":"bound"}', id)
  await store(app, 'a', 'the secret of a')
  t.match(await send(app, '/in/shared?tenant=a', delivery('first')), created)
  t.strictSame(await send(app, '/in/shared?tenant=victim', delivery('first')), received)
  t.strictSame(await send(app, '/in/shared?tenant=victim', delivery('another')), received, "the delivery's id is not signed")
  t.strictSame(await send(app, '/in/shared', delivery('first')), received, 'nor is it processed without a tenant')
  t.equal(await count(app, 'heard', 'bound'), 1)
  t.match(
    await send(app, '/in/shared?tenant=victim', byGithub(secret, '{"kind":"for the other"}', 'second')),
    created,
    'a separate delivery'
  )
}

async function literal (t: Test, app: FastifyInstance): Promise<void> {
  const response = { got: '{{payload.kind}}' }
  for (const tenant of ['a', 'victim']) {
    const saved = await app.inject({
      method: 'POST',
      url: '/tenant/config',
      headers: bearer({ role: 'admin', tenant_id: tenant }),
      payload: { routes: [{ method: 'post', path: '/alike', webhook: { provider: 'github', secret: 'of a template' }, response }] }
    })
    t.equal(saved.statusCode, 200, saved.body)
  }
  const delivery = byGithub('of a template', '{"kind":"alike"}', 'first')
  for (const tenant of ['a', 'victim']) {
    t.match(await send(app, `/alike?tenant=${tenant}`, delivery), { status: 200, body: { got: 'alike' } }, tenant)
    t.strictSame(await send(app, `/alike?tenant=${tenant}`, delivery), received, 'once for each tenant')
  }
}

async function billed (t: Test, app: FastifyInstance): Promise<void> {
  const saved = await app.inject({
    method: 'POST',
    url: '/tenant/config',
    headers: bearer({ role: 'admin', tenant_id: 'victim' }),
    payload: { routes: [{ method: 'post', path: '/mine', webhook: { provider: 'github', secret }, response: {} }] }
  })
  t.equal(saved.statusCode, 200, saved.body)
  const calls = async () => (await app.usage.summary('victim')).api_calls
  const before = await calls()
  for (let index = 0; index < 5; index++) {
    for (const path of ['/in/shared', '/mine']) {
      t.match(await send(app, `${path}?tenant=victim`, byGithub('wrong', '{"kind":"x"}')), refused)
    }
  }
  t.equal(await calls(), before)
  for (const path of ['/in/shared', '/mine']) {
    t.ok((await send(app, `${path}?tenant=victim`, byGithub(secret, `{"kind":"right ${path}"}`))).status < 300)
  }
  t.equal(await calls(), before + 2)
}

async function declared (t: Test, app: FastifyInstance): Promise<void> {
  const now = byGithub(secret, '{"kind":"now"}')
  t.strictSame(await send(app, '/hooks/now/x', now), received)
  t.strictSame(await send(app, '/hooks/now/x', now), received)
  t.equal(await count(app, 'seen', 'now'), 1)
  t.match(await send(app, '/hooks/now/x', byGithub('wrong', '{"kind":"now"}')), refused)
  t.match(await send(app, '/hooks/now/x', byGithub(secret, '{"kind":null}', 'n-1')), { status: 400 })
  t.strictSame(await send(app, '/hooks/now/x', byGithub(secret, '{"kind":"then"}', 'n-1')), received)
  t.equal(await count(app, 'seen', 'then'), 1, 'a failed delivery is processed when it is sent again')
  const { paths } = (await app.inject('/doc')).json()
  t.strictSame(
    Object.keys(paths['/hooks/later'].post.responses).filter((status) => status < '300'),
    ['200'],
    'also if the work runs later'
  )
  t.match(paths['/hooks/later'].post.responses['200'].content['application/json'].schema, { properties: { received: { const: true } } })
  t.strictSame(Object.keys(paths['/in/github'].post.responses).filter((status) => status < '300' || status === '409').sort(), [
    '200',
    '201',
    '409'
  ], 'a repeated delivery')
  const later = byGithub(secret, '{"kind":"async"}')
  t.strictSame(await send(app, '/hooks/later', later), received)
  t.strictSame(await send(app, '/hooks/later', later), received)
  await until('the workflow has run', async () => await count(app, 'seen', 'async') > 0)
  t.equal(await count(app, 'seen', 'async'), 1)

  // The called service: another route of this server, over its port.
  const origin = await listen(app)
  const webhooks = [{
    name: 'forward',
    path: '/hooks/forward',
    provider: 'github',
    secret: '{{secret:HOOK}}',
    actions: [{
      type: 'http',
      action: 'request',
      params: { method: 'POST', url: `${origin}/in/custom`, headers: { 'x-sig': '{{payload.sig}}' }, body: '{{payload.sent}}' },
      condition: '{{payload.sent}} != null'
    }]
  }]
  const save = (tenant: string, document: object) =>
    app.inject({ method: 'POST', url: '/tenant/config', headers: bearer({ role: 'admin', tenant_id: tenant }), payload: document })
  await store(app, 'a', 'the hook of a')
  const saved = await save('a', { webhooks })
  t.equal(saved.statusCode, 200, saved.body)
  t.strictSame(saved.json().secretsDetected, ['HOOK'])
  const sent = { to: 'be forwarded' }
  const sig = createHmac('sha512', secret).update(JSON.stringify(sent)).digest('base64')
  const forward = byGithub('the hook of a', JSON.stringify({ sent, sig }))
  t.strictSame(await send(app, '/hooks/forward?tenant=a', forward), received)
  const [receipt] = await app.db.selectFrom('tenantry.webhook_receipts').select(['tenant_id', 'held_until'])
    .where('path', '=', '/in/custom').where('received_at', '>', new Date(Date.now() - 10_000)).execute()
  t.match(receipt, { tenant_id: '', held_until: null }, 'the call arrived')
  t.strictSame(await send(app, '/hooks/forward?tenant=a', byGithub('the hook of a', '{}')), received, 'a false condition')
  t.match(await send(app, '/hooks/forward?tenant=a', byGithub('the hook of a', JSON.stringify({ sent, sig: 'wrong' }), 'f-1')), {
    status: 502
  }, 'a failing call')
  t.strictSame(
    await send(app, '/hooks/forward?tenant=a', byGithub('the hook of a', JSON.stringify({ sent, sig }), 'f-1')),
    received,
    'it is made when the delivery is sent again'
  )

  const [own] = webhooks
  t.match((await save('a', { webhooks: [{ ...own, path: '/hooks/now/:name' }] })).json(), {
    code: 'TENANTRY_ROUTE_CONFLICT',
    details: [{ path: '/webhooks/0/path' }]
  })
  t.match((await save('a', { webhooks: [own], routes: [{ method: 'post', path: '/hooks/forward', response: {} }] })).json(), {
    code: 'TENANTRY_CONFIG_INVALID'
  })
  const wrong = { ...own, secret: '{{secret:A}}{{secret:B}}', actions: [{ type: 'http', action: 'nothing' }] }
  const places = (await save('a', { webhooks: [wrong] })).json().details.map(({ path }: { path: string }) => path)
  t.strictSame(places.sort(), ['/webhooks/0/actions/0/action', '/webhooks/0/secret'])
}

t.test('invalid webhooks are reported as faults', async (t) => {
  const faults = (...webhooks: object[]): string[] => {
    try {
      checkConfig({ ...testDocument(document), webhooks }, { env })
      return []
    } catch (error) {
      if (error instanceof ConfigError) return error.faults.map(({ pointer, message }) => `${pointer}: ${message}`)
      throw error
    }
  }
  const good = {
    name: 'w',
    path: '/w',
    provider: 'github',
    secret: '{{env.HOOK}}',
    workflow: { steps: [{ id: 's', type: 'database', table: 'seen', operation: 'insert', data: { kind: 'k' } }] }
  }
  t.strictSame(faults(good), [])
  t.match(faults({ ...good, path: '/in/github' }), [/^\/webhooks\/0: the route POST \/in\/github is already declared at \/routes\/0/])
  t.match(faults(good, { ...good, name: 'v' }), [/^\/webhooks\/1: the route POST \/w is already declared at \/webhooks\/0/])
  t.match(faults(good, { ...good, path: '/v' }), [/^\/webhooks\/1\/name: /])
  t.match(faults({ ...good, path: '/webhooks/secret' }), [/^\/webhooks\/0\/path: the path is used by the built-in endpoint/])
  t.match(faults({ ...good, workflow: undefined }), [/^\/webhooks\/0: the webhook has no effect/])
  t.match(faults({ ...good, provider: 'custom' }), [/^\/webhooks\/0\/header: missing/])
  t.match(faults({ ...good, header: 'x' }), [/^\/webhooks\/0\/header: only for `custom`/])
  t.match(faults({ ...good, secret: '{{env.MISSING}}' }), [/^\/webhooks\/0\/secret: the setting MISSING is not set/])
  t.match(faults({ ...good, secret: '' }), [/^\/webhooks\/0\/secret: /])
  t.match(faults({ ...good, secret: '{{body.a}}' }), [/^\/webhooks\/0\/secret: /])
  t.match(faults({ ...good, actions: [{ type: 'http', action: 'request', params: { method: 'GET', url: 'https://example.com' } }] }), [
    /^\/webhooks\/0\/actions: the route runs a workflow/
  ])
  const route = { method: 'post', path: '/r', webhook: { provider: 'github', secret: '{{env.HOOK}}' }, response: { a: '{{payload.a}}' } }
  const ofRoute = (changed: object): string[] => {
    try {
      checkConfig({ ...testDocument({}), routes: [{ ...route, ...changed }] }, { env })
      return []
    } catch (error) {
      if (error instanceof ConfigError) return error.faults.map(({ pointer, message }) => `${pointer}: ${message}`)
      throw error
    }
  }
  t.strictSame(ofRoute({}), [])
  t.match(ofRoute({ webhook: undefined }), [/payload/], 'only webhooks have a payload')
  t.match(ofRoute({ method: 'get' }), [/^\/routes\/0\/method: /])
  t.match(ofRoute({ requireAuth: true }), [/^\/routes\/0\/requireAuth: /])
  t.match(ofRoute({ requiredPermissions: ['a:b'] }), [/^\/routes\/0\/requiredPermissions: /])
})

async function refuses (t: Test): Promise<void> {
  const app = await testServer(t, { ...document, rateLimit: { enabled: true, default: { max: 5, windowMs: 60_000 } } }, { env })
  const wrong = byGithub('wrong', '{}')
  for (let sent = 0; sent < 60; sent++) t.match(await send(app, '/in/github', wrong), refused)
  t.match(await send(app, '/in/github', wrong), { status: 429, body: { code: 'TENANTRY_RATE_LIMITED' } })
  t.match(await send(app, '/in/github', byGithub(secret, '{"kind":"fine"}')), created)
}

async function twoServers (t: Test): Promise<void> {
  const [first, second] = await testServers(t, document, {
    engine: await postgresSection(t),
    env,
    tenants: ['a']
  })
  for (let round = 0; round < 5; round++) {
    const delivery = byGithub(secret, `{"kind":"round ${round}"}`)
    const responses = await Promise.all([send(first, '/in/github', delivery), send(second, '/in/github', delivery)])
    t.strictSame(responses.map(({ status }) => status).sort(), [200, 201])
    t.equal(await count(first, 'seen', `round ${round}`), 1)
  }

  await t.test('a delivery of a process that died is processed by another one after a minute', async (t) => {
    const [here, there] = [first, second].map((app) =>
      createWebhookDeduplication({ dbFor: (tenant) => app.engine.kyselyFor(tenant), log: app.log })
    )
    const pass = (seconds: number) =>
      sql`update tenantry.webhook_receipts set held_until = held_until - make_interval(secs => ${seconds}),
        received_at = received_at - make_interval(secs => ${seconds})`.execute(first.db)
    if (here === undefined || there === undefined) throw new Error('there are two')
    const delivery = { tenant: tenantRef('a'), path: '/hook', id: 'd-1' }
    // A dead process renews nothing.
    let isDead = false
    const dead = createWebhookDeduplication({
      dbFor (tenant) {
        if (isDead) throw new Error('the process is dead')
        return first.engine.kyselyFor(tenant)
      },
      log: first.log
    })
    await new Promise<void>((resolve, reject) => {
      dead.once(delivery, () => {
        resolve()
        return new Promise<string>(() => {})
      }).catch(reject)
    })
    isDead = true

    let looks = 0
    let end = (): void => {}
    const crowded = createWebhookDeduplication({
      dbFor (tenant) {
        // The third look is the second one of the repetition, which waits by then.
        if (tenant === platformRef && ++looks === 3) end()
        return first.engine.kyselyFor(tenant)
      },
      log: first.log
    })
    const flood = Array.from({ length: 150 }, () => crowded.once(delivery, async () => 'twice').catch(() => 'refused'))
    await Promise.race(flood)
    const other = { tenant: platformRef, path: '/hook', id: 'repeated' }
    const ended = new Promise<string>((resolve) => {
      end = () => resolve('done')
    })
    const { opened: begun, open: begin } = gate()
    const repeated = crowded.once(other, () => {
      begin()
      return ended
    }).then(() => {})
    await begun
    t.equal(await crowded.once(other, async () => 'twice'), undefined, 'waits although repetitions of another tenant wait')
    await repeated
    t.strictSame(new Set(await Promise.all(flood)), new Set(['refused']))
    await pass(10)
    await t.rejects(there.once(delivery, async () => 'twice'), { code: 'TENANTRY_STATE_CONFLICT' }, 'not before')
    await pass(51)
    t.equal(await there.once(delivery, async () => 'later'), 'later')
    t.equal(await there.once(delivery, async () => 'again'), undefined)
    await t.rejects(
      there.once({ ...delivery, id: 'd-2' }, async () => {
        throw new Error('it fails')
      }),
      { message: 'it fails' }
    )
    t.equal(await here.once({ ...delivery, id: 'd-2' }, async () => 'at once'), 'at once')
    t.equal(await here.once({ ...delivery, tenant: platformRef }, async () => 'of the platform'), 'of the platform')
    await t.rejects(here.once({ ...delivery, tenant: tenantRef('nobody') }, async () => 'of nobody'), { code: 'TENANTRY_TENANT_UNKNOWN' })

    await pass(2_592_000 - 120)
    await sweepHandledWebhooks(first.db)
    t.equal(await there.once(delivery, async () => 'again'), undefined, 'kept for 30 days')
    await pass(120)
    await sweepHandledWebhooks(first.db)
    t.equal(await there.once(delivery, async () => 'anew'), 'anew')
  })
}
