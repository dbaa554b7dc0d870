/** Attacks on the webhooks of payment providers over HTTP; valid events are accepted once. */
import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { request as httpRequest } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { Webhook } from 'standardwebhooks'
import { type Test, test } from 'tap'
import type { ProviderName } from '../../../plugins/billing/providers/provider.js'
import { altprovServer } from '../../helpers/altprov/index.js'
import { secretText } from '../../helpers/log-scan.js'
import type { SignedEvent, SignOptions, World } from '../../helpers/payment-world.js'
import { payprovWorld } from '../../helpers/payprov/index.js'
import { postgresDatabase, type Row } from '../../helpers/postgres.js'
import { listen, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { checked, parsed, refused, type Reply } from '../../http/caller.js'
import { envOf, optionsOf, paths, type Sales, sellAll } from './app.js'

const second = 1000 // ms
const former = secretText('whsec_b2YgYmVmb3JlLCBvZiBiZWZvcmU=', 'a signing secret of before')

/** Headers by name; several values are sent as several headers. */
type Headers = Readonly<Record<string, string | readonly string[]>>

interface Provider {
  readonly name: ProviderName
  readonly world: World
  readonly sales: Sales
  /** The signature's header, and all signed headers. */
  readonly signature: string
  readonly headers: readonly string[]
  /** Another body under the event's id, signed. */
  readonly again: (event: SignedEvent, body: (value: Record<string, unknown>) => object) => SignedEvent
}

interface Opened extends Provider {
  readonly send: (headers: Headers, body: Buffer | string, type?: string) => Promise<Reply>
  readonly deliver: (event: SignedEvent, headers?: Headers) => Promise<Reply>
  readonly query: (sql: string) => Promise<Row[]>
  readonly plan: (tenant: string) => Promise<unknown>
}

/** From a different address each time, so that failures of one test do not affect another. */
let addresses = 0

async function send (t: Test, origin: string, target: string, headers: Headers, body: Buffer | string): Promise<Reply> {
  const [method = '', path = ''] = target.split(' ')
  const call = httpRequest(`${origin}${path}`, {
    method,
    agent: false,
    headers: {
      'x-forwarded-for': `192.0.2.${++addresses % 250}`,
      ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]))
    }
  })
  const answered: Promise<Array<{ statusCode: number, headers: IncomingHttpHeaders } & NodeJS.ReadableStream>> = once(call, 'response')
  // A server that rejects a large body by its headers closes the connection while it is sent.
  call.on('error', () => undefined)
  call.end(body)
  const [response] = await answered
  if (response === undefined) throw new Error('no response')
  const text = await textOf(response)
  return checked(t, target, { status: response.statusCode, headers: response.headers, text, body: parsed(text) })
}

test('webhooks of payment providers', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  // The clocks of the providers advance by seconds while the tests run; their events must not lie in the server's future.
  const now = Date.now() - 60 * second
  const payprov = await payprovWorld(t, { now })
  const altprov = await altprovServer(t)
  altprov.advance(now - altprov.now())
  const [sold, alsoSold] = [sellAll(payprov), sellAll(altprov)]
  const { webhookSecret = '', productMap } = optionsOf('altprov', altprov, alsoSold).altprov ?? {}
  const app = await testServer(t, {
    server: { trustProxy: true, bodyLimit: 50_000_000 },
    rateLimit: { enabled: true, default: { max: 5, windowMs: 60_000 } }
  }, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['acme', 'globex', 'initech', 'umbrella'],
    env: {
      ...envOf('payprov', payprov, sold),
      PAYPROV_PREVIOUS_WEBHOOK_SECRETS: former,
      // The previous provider: only its webhooks are still served.
      ALTPROV_WEBHOOK_SECRET: webhookSecret,
      ALTPROV_PREVIOUS_WEBHOOK_SECRETS: former,
      ALTPROV_PRODUCT_MAP: JSON.stringify(productMap)
    }
  })
  const origin = await listen(app)
  const providers: Provider[] = [{
    name: 'payprov',
    world: payprov,
    sales: sold,
    signature: 'webhook-signature',
    headers: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
    again ({ body, headers }, change) {
      const [text, id = ''] = [JSON.stringify(change(JSON.parse(body.toString()))), headers['webhook-id']]
      const time = new Date(Math.floor(Date.now() / second) * second)
      return {
        body: Buffer.from(text),
        headers: {
          'webhook-id': id,
          'webhook-timestamp': String(time.getTime() / second),
          'webhook-signature': new Webhook(payprov.webhookSecret, { format: 'raw' }).sign(id, time, text)
        }
      }
    }
  }, {
    name: 'altprov',
    world: altprov,
    sales: alsoSold,
    signature: 'stripe-signature',
    headers: ['stripe-signature'],
    again: ({ body }, change) => altprov.sign(Buffer.from(JSON.stringify(change(JSON.parse(body.toString())))))
  }]
  for (const provider of providers) {
    const target = `POST ${paths[provider.name]}`
    const opened: Opened = {
      ...provider,
      send: (headers, body, type = 'application/json') =>
        send(t, origin, target, { ...type !== '' && { 'content-type': type }, ...headers }, body),
      deliver: ({ headers, body }, more = {}) => send(t, origin, target, { 'content-type': 'application/json', ...headers, ...more }, body),
      query: (sql) => query(sql),
      plan: async (tenant) => (await query('select plan from tenantry.tenants where id = $1', [tenant]))[0]?.['plan']
    }
    await t.test(`${provider.name}: a request without a valid signature is rejected unread`, (t) => forges(t, opened))
    await t.test(`${provider.name}: a body that is not JSON or is too large is rejected before its signature is verified`, (t) =>
      shapes(t, opened))
    await t.test(`${provider.name}: an event counts once, and only for the tenant that it names`, (t) => counts(t, opened))
  }
  await t.test('failed signatures are counted per address, and signed requests are not', (t) => floods(t, origin, payprov, sold))
})

async function forges (t: Test, { world, name, sales, signature, headers: names, send, deliver, query, plan }: Opened): Promise<void> {
  const subscription = world.subscribe('acme', sales.pro_monthly)
  const event = (options?: SignOptions) => world.event('created', subscription, options)
  const invalid = async (response: Promise<Reply>, label: string) => {
    refused(t, await response, 401, 'SIGNATURE_INVALID', label)
  }
  const good = event()
  const { [signature]: right = '' } = good.headers

  for (const header of names) {
    const { [header]: value = '', ...rest } = good.headers
    await invalid(send(rest, good.body), `without ${header}`)
    await invalid(deliver(good, { [header]: '' }), `an empty ${header}`)
    await invalid(deliver(good, { [header]: [value, value] }), `two headers ${header}`)
    await invalid(deliver(good, { [header]: ['x', value] }), `a wrong header ${header} before the right one`)
  }
  await invalid(send({}, good.body), 'without any')
  for (const at of [-305, 305, -86_400, 86_400, -Date.now() / second + 1]) {
    await invalid(deliver(event({ at: Date.now() + at * second })), `signed ${at} seconds from now`)
  }
  const other = secretText('whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldA==', 'a wrong secret')
  await invalid(deliver(event({ secrets: [other] })), 'by another secret')
  await invalid(deliver(event({ secrets: [other, `${other}x`, 'short'] })), 'by three others')
  for (
    const text of [
      right.slice(0, -1),
      right.slice(0, -2),
      `${right}0`,
      right.toUpperCase(),
      right.replace('v1', 'v0'),
      right.replace('v1', 'v2'),
      'v1,',
      'v1=',
      't=1,v1=00',
      'null',
      '{}',
      'x'.repeat(4000)
    ]
  ) {
    if (text !== right) await invalid(deliver(good, { [signature]: text }), text.slice(0, 30))
  }
  const changed = Buffer.from(good.body)
  changed[changed.length - 2] = (changed[changed.length - 2] ?? 0) ^ 1
  for (
    const body of [
      changed,
      Buffer.concat([good.body, Buffer.from(' ')]),
      Buffer.concat([Buffer.from([0xEF, 0xBB, 0xBF]), good.body]),
      Buffer.alloc(0),
      Buffer.from('{}'),
      Buffer.from('{"__proto__":1}'),
      Buffer.from([0xC3, 0x28])
    ]
  ) {
    await invalid(deliver({ ...good, body }), `another body of ${body.length} bytes`)
  }
  t.equal(await plan('acme'), 'free')
  for (const table of ['billing_events', 'billing_unclaimed']) {
    t.same(await query(`select id from tenantry.${table} where provider = '${name}'`), [])
  }

  await t.test('a valid signature is accepted', async (t) => {
    for (
      const [label, options] of [
        ['an old one', { at: Date.now() - 290 * second }],
        ['a future one', { at: Date.now() + 290 * second }],
        ['the previous secret', { secrets: [former] }],
        ['both secrets', { secrets: [former, world.webhookSecret] }],
        ['a valid one among invalid ones', { secrets: [other, world.webhookSecret, 'wrong'] }]
      ] as const
    ) {
      t.match(await deliver(event(options)), { status: 200, body: { received: true } }, label)
    }
    t.equal(await plan('acme'), 'pro')
  })
  world.change(subscription, 'end')
  t.match(await deliver(world.event('ended', subscription)), { status: 200 })
  await query("delete from tenantry.billing_events; update tenantry.tenants set plan = 'free'")
}

async function shapes (t: Test, { world, sales, send, deliver, query }: Opened): Promise<void> {
  const good = world.event('created', world.subscribe('initech', sales.pro_monthly))
  const large = world.sign(Buffer.from(JSON.stringify({ filler: 'x'.repeat(10 * 1_048_576) })))
  refused(t, await deliver(large), 413, 'BODY_TOO_LARGE', '10 MB')
  refused(t, await deliver(large, { 'transfer-encoding': 'chunked' }), 413, 'BODY_TOO_LARGE', '10 MB of unknown length')
  const largest = world.sign(Buffer.concat([Buffer.from('{"a":"'), Buffer.alloc(1_048_576 - 8, 'x'), Buffer.from('"}')]))
  t.equal(largest.body.length, 1_048_576)
  refused(t, await deliver(largest), 400, 'BAD_REQUEST', 'the largest body is read')
  for (
    const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/xml',
      'application/octet-stream',
      'application/jsonp',
      'text/json',
      '*/*',
      ''
    ]
  ) {
    refused(t, await send(good.headers, good.body, type), 415, 'MEDIA_TYPE_UNSUPPORTED', `as ${type || 'nothing'}`)
  }
  const packed = gzipSync(good.body)
  for (const coding of ['gzip', 'GZIP', 'deflate', 'br', 'x-gzip', 'gzip, identity']) {
    refused(t, await send({ ...good.headers, 'content-encoding': coding }, packed), 415, 'MEDIA_TYPE_UNSUPPORTED', coding)
  }
  refused(t, await deliver({ ...good, body: packed }), 401, 'SIGNATURE_INVALID', 'compressed without a header')
  for (
    const text of [
      'null',
      '[]',
      '1',
      '"x"',
      '{',
      '{}',
      '{"type":1}',
      '{"type":"subscription.updated"}',
      '{"id":"evt_1","object":"event","type":"customer.subscription.updated","created":-1,"data":{"object":{}}}',
      '['.repeat(100_000)
    ]
  ) {
    refused(t, await deliver(world.sign(Buffer.from(text))), 400, 'BAD_REQUEST', `signed: ${text.slice(0, 40)}`)
  }
  const manyKeys = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`key${index}`, 1]))
  const complex = world.sign(Buffer.from(JSON.stringify({ ...JSON.parse(good.body.toString()), ...manyKeys })))
  refused(t, await deliver(complex), 400, 'BAD_REQUEST', 'signed, with 20,000 different keys')
  t.match(await send(good.headers, good.body, 'application/json; charset=utf-8'), { status: 200 })
  const rows = await query("select count(*)::int as events from tenantry.billing_events where tenant_id = 'initech'")
  t.strictSame(rows, [{ events: 1 }], 'one of all these counted')
}

async function counts (t: Test, { world, name, sales, again, send, deliver, query, plan }: Opened): Promise<void> {
  const subscription = world.subscribe('globex', sales.pro_monthly)
  const created = world.event('created', subscription)
  // The signature authenticates the sender and the tenant; other credentials are ignored.
  t.match(await deliver(created, { 'x-tenant-id': 'acme', authorization: `Bearer ${signToken({ role: 'admin', tenant_id: 'acme' })}` }), {
    status: 200
  })
  t.strictSame([await plan('globex'), await plan('acme')], ['pro', 'free'])
  const strange: Headers[] = [{ 'x-tenant-id': 'no tenant' }, { authorization: 'Bearer wrong' }, { authorization: 'Basic eDp5' }, {
    'x-api-key': 'x'.repeat(40)
  }]
  for (const headers of strange) t.match(await deliver(created, headers), { status: 200, body: { received: true } })

  world.advance(second)
  world.change(subscription, 'end')
  const ended = world.event('ended', subscription)
  const replayed = again(created, () => JSON.parse(ended.body.toString()))
  const underItsId = name === 'payprov' ? replayed : again(created, (value) => ({ ...JSON.parse(ended.body.toString()), id: value['id'] }))
  t.match(await deliver(underItsId), { status: 200, body: { received: true } })
  t.equal(await plan('globex'), 'pro', 'another body under a processed id is ignored')
  t.match(await deliver(ended), { status: 200 })
  t.equal(await plan('globex'), 'free')
  t.match(await deliver(created), { status: 200 }, 'repeating the first one changes nothing')
  t.equal(await plan('globex'), 'free')

  const atOnce = world.event('created', world.subscribe('umbrella', sales.team_monthly))
  t.strictSame(
    (await Promise.all(Array.from({ length: 8 }, () => deliver(atOnce)))).map(({ status }) => status),
    Array.from({ length: 8 }, () => 200)
  )
  t.equal(await plan('umbrella'), 'team')
  t.strictSame(
    await query(
      `select count(*)::int as entries from tenantry.audit_log where tenant_id = 'umbrella' and action = 'billing.plan' and details ->> 'provider' = '${name}'`
    ),
    [{ entries: 1 }],
    'eight at once count as one'
  )
  await query(
    "update tenantry.tenants set plan = 'free' where id = 'umbrella'; delete from tenantry.billing_subscriptions where tenant_id = 'umbrella'; delete from tenantry.billing_tenants where tenant_id = 'umbrella'"
  )

  t.match(await deliver(world.event('created', world.subscribe(`nobody-${name}`, sales.pro_monthly))), {
    status: 200,
    body: { received: true }
  }, 'for an unknown tenant')
  t.strictSame(
    await query(
      `select target from tenantry.audit_log where tenant_id = '' and action = 'billing.event_unclaimed' and target = 'nobody-${name}'`
    ),
    [{ target: `nobody-${name}` }],
    'it is reported'
  )
  t.match(await deliver(world.event('other', subscription)), { status: 200, body: { received: true } })
  refused(t, await send({}, created.body, 'application/json'), 401, 'SIGNATURE_INVALID')
}

async function floods (t: Test, origin: string, world: World, sales: Sales): Promise<void> {
  const event = world.event('created', world.subscribe('acme', sales.pro_monthly))
  const wrong = { ...event.headers, 'webhook-signature': 'v1,AAAA' }
  const deliver = (headers: Headers, address: string) =>
    send(t, origin, `POST ${paths.payprov}`, { 'content-type': 'application/json', ...headers, 'x-forwarded-for': address }, event.body)
  const statuses = new Map<number, number>()
  for (let count = 0; count < 70; count++) {
    const { status } = await deliver(wrong, '198.51.100.7')
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  t.strictSame([...statuses], [[401, 60], [429, 10]])
  const response = await deliver(wrong, '198.51.100.7')
  refused(t, response, 429, 'RATE_LIMITED')
  t.match(response, { headers: { 'retry-after': /^\d+$/ }, body: { retryAfter: Number } })
  t.match(await deliver(event.headers, '198.51.100.7'), { status: 200 }, 'a signed request is accepted')
  t.match(await deliver(wrong, '198.51.100.8'), { status: 401 }, 'another address has its own count')
  for (let count = 0; count < 20; count++) {
    t.match(await deliver(world.event('updated', world.subscribe('acme', sales.pro_monthly)).headers, '198.51.100.9'), { status: 401 })
  }
  for (let count = 0; count < 70; count++) t.match(await deliver(event.headers, '203.0.113.1'), { status: 200 })
}
