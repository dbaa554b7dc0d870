/** The delivery of events: signed, in order, retried, logged, and isolated. */
import type { ServerResponse } from 'node:http'
import { test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { open, type Receiver, receiver, verify } from './app.js'

const minute = 60_000 // ms
const hour = 60 * minute
const events = ['entity.*']

/** A webhook to a receiver. */
function to ({ origin }: Receiver, name = 'out', more: object = {}) {
  return { name, url: `${origin}/hook?token=of-the-address`, events, ...more }
}

const fails = (status: number, headers: Record<string, string> = {}) => (_request: unknown, response: ServerResponse) => {
  response.writeHead(status, headers).end('no')
}

test('a committed event arrives once, signed, and one that was rolled back never', (t) =>
  forEachEngine(t, async (t, engine) => {
    const hears = await receiver(t)
    const signing = secretText('a signing secret of the tenant', 'a signing secret')
    const other = await receiver(t)
    const { app, as, tell } = await open(t, engine, {
      tenants: {
        acme: [to(hears), to(other, 'keyed', { url: `${other.origin}/hook?key={{secret:hook}}`, secret: '{{secret:hook}}' })],
        globex: []
      }
    })
    await as('acme')('POST /tenant/secrets', { body: { key: 'hook', value: signing } })

    await t.rejects(
      app.db.transaction().execute(async (transaction) => {
        await app.webhooks.emit(transaction, {
          tenant: 'acme',
          type: 'entity.created',
          subject: 'notes:1',
          data: { value: 'undone' },
          at: new Date()
        })
        throw new Error('undone')
      }),
      /undone/
    )
    await tell('acme', 'x{{secret:hook}}')
    await until('both webhooks have received it', () => hears.requests.length > 0 && other.requests.length > 0)

    const { body: { secret } } = await as('acme')('GET /webhooks/secret')
    t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    const [first] = hears.requests
    t.match(first, {
      method: 'POST',
      path: '/hook?token=of-the-address',
      headers: { 'content-type': 'application/json; charset=utf-8', 'webhook-id': /^[0-9a-f-]{36}$/ }
    })
    if (first === undefined || other.requests[0] === undefined) return t.fail('nothing arrived')
    t.match(verify(String(secret), first), { type: 'entity.updated', timestamp: /^\d{4}-.*Z$/, data: { value: 'x{{secret:hook}}' } })
    t.match(verify(signing, other.requests[0]), { type: 'entity.updated' })
    t.throws(() => verify('whsec_AAAA', first), /No matching signature found/)
    t.equal((await as('acme')('GET /webhooks/secret')).body['secret'], secret, 'it stays')
    t.not((await as('globex')('GET /webhooks/secret')).body['secret'], secret)
    t.not((await as()('GET /webhooks/secret')).body['secret'], secret, 'nor does the platform get it')

    await until('the log contains it', async () => (await as('acme')('GET /webhooks/deliveries?status=delivered')).body.data?.length === 2)
    const log = await as('acme')('GET /webhooks/deliveries')
    t.match(log.body, {
      data: [{
        event: 'entity.updated',
        status: 'delivered',
        attempts: 1,
        lastStatus: 204,
        lastError: null,
        nextAttemptAt: null,
        deliveredAt: String
      }, {}],
      pagination: { limit: 20, offset: 0, total: 2 }
    })
    t.strictSame(
      new Set(log.body.data?.map(({ url, webhook }) => `${String(webhook)} ${String(url)}`)),
      new Set([`out ${hears.origin}/hook`, `keyed ${other.origin}/hook`]),
      'without the query string'
    )
    t.match(
      (await as('acme')('GET /tenant/secrets')).body,
      { secrets: [{ key: 'hook', accessCount: 1 }] },
      'one attempt uses a secret once, wherever it occurs'
    )
    t.strictSame((await as('globex')('GET /webhooks/deliveries')).body.data, [])
    t.strictSame((await as()('GET /webhooks/deliveries')).body.data, [], 'the platform has its own')

    // The rows contain only the necessary columns, and encrypted secrets.
    const rows = JSON.stringify([
      await app.db.selectFrom('tenantry.webhook_secrets').selectAll().execute(),
      await app.db.selectFrom('tenantry.webhook_deliveries').selectAll().execute()
    ], (_name, value: unknown) => value)
    for (const plain of [String(secret), signing, 'of-the-address']) t.notMatch(rows, plain)
    t.same(
      (await app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'action']).where('action', '=', 'webhook.secret')
        .orderBy('tenant_id').execute()).map(({ tenant_id: tenant }) => tenant),
      ['', 'acme', 'globex']
    )

    await app.tenants.delete('acme')
    for (const table of ['tenantry.webhook_events', 'tenantry.webhook_deliveries', 'tenantry.webhook_secrets'] as const) {
      t.strictSame(await app.db.selectFrom(table).select('tenant_id').where('tenant_id', '=', 'acme').execute(), [], table)
    }
    await tell('acme', 'late')
    t.strictSame(await app.db.selectFrom('tenantry.webhook_events').selectAll().execute(), [], 'a late event has no tenant')
    t.equal(hears.requests.length, 1)
  }))

test('a receiver that was down gets every event, in the order of its entity', async (t) => {
  const hears = await receiver(t)
  const { app, clock, tell, forward } = await open(t, await postgresSection(t), { tenants: { acme: [to(hears)] } })
  hears.respond = fails(503)
  await tell('acme', 1)
  await until('it was tried', () => hears.requests.length === 1)
  const [first] = hears.requests
  const waiting = async () =>
    await app.db.selectFrom('tenantry.webhook_deliveries').select(['next_attempt_at as next', 'attempts', 'holder'])
      .where('next_attempt_at', 'is not', null).execute()
  await until('it waits', async () => (await waiting())[0]?.holder === null)
  const [delivery] = await waiting()
  t.ok(
    delivery?.next !== null && delivery !== undefined && delivery.next.getTime() - clock.now() <= 10_000,
    'the first retry comes within 10 s'
  )

  await tell('acme', 2, 3)
  await app.db.transaction().execute((transaction) =>
    app.webhooks.emit(transaction, {
      tenant: 'acme',
      type: 'entity.created',
      subject: 'notes:2',
      data: { value: 'other' },
      at: new Date(clock.now())
    })
  )
  for (let past = 0; past < hour; past += 4 * minute) {
    const tried = hears.requests.length
    forward(4 * minute)
    const due = (await waiting()).some(({ next, holder }) => holder === null && next !== null && next.getTime() <= clock.now())
    if (due) await until('it is tried again', () => hears.requests.length > tried)
    await until('nothing is being sent', async () => (await waiting()).every(({ holder }) => holder === null))
  }
  t.ok(new Set(hears.values()).size === 2 && !hears.values().includes(2), 'later ones wait')
  t.strictSame(
    new Set(hears.requests.filter((_, index) => hears.values()[index] === 1).map(({ headers }) => headers['webhook-id'])),
    new Set([first?.headers['webhook-id']]),
    'with one id'
  )
  await tell('acme', 4)
  hears.requests.length = 0
  hears.respond = fails(200)
  forward(hour)
  await until('all of them arrived', () => {
    forward(1000)
    return hears.requests.length >= 5
  })
  t.strictSame(hears.values().filter((value) => value !== 'other'), [1, 2, 3, 4])
  await until(
    'nothing waits',
    async () =>
      (await app.db.selectFrom('tenantry.webhook_deliveries').select('id').where('status', '<>', 'delivered').execute()).length === 0
  )
})

test("a receiver's response means accepted, retry, or unwanted", async (t) => {
  const hears = await receiver(t)
  const engine = await postgresSection(t)
  const { as, tell, forward } = await open(t, engine, {
    timeoutMs: 5000, // in which a busy machine must deliver
    tenants: {
      acme: [to(hears), { name: 'inside', url: 'http://127.0.0.2:9/', events }, { name: 'gone', url: 'https://{{secret:none}}/', events }]
    }
  })
  const outcome = async (name: string) => (await as('acme')('GET /webhooks/deliveries')).body.data?.find(({ webhook }) => webhook === name)
  const responses: readonly (readonly [string, Receiver['respond'], object])[] = [
    ['an error', fails(500), { lastStatus: 500, lastError: /error/ }],
    ['a redirect', fails(302, { location: `${hears.origin}/elsewhere` }), { lastStatus: 302, lastError: /redirect/ }],
    ['nothing', () => {}, { lastStatus: null, lastError: /no response within 5 s/ }],
    ['six megabytes', (_request, response) => {
      response.end(Buffer.alloc(6_291_456))
    }, { lastStatus: null, lastError: /too large/ }],
    ['an end', (_request, response) => {
      response.destroy()
    }, { lastStatus: null, lastError: /no connection/ }]
  ]
  await tell('acme', 'x')
  await until('it arrived', async () => (await outcome('out'))?.['status'] === 'delivered')
  for (const name of ['inside', 'gone']) await until('all were tried', async () => (await outcome(name))?.['lastError'] !== null)
  t.match(await outcome('inside'), { status: 'pending', lastStatus: null, lastError: /private or forbidden/, url: 'http://127.0.0.2:9/' })
  t.match(await outcome('gone'), { status: 'pending', lastStatus: null, lastError: /secret.*no value/, url: 'https://{{secret:none}}/' })
  const id = String((await outcome('out'))?.['id'])
  for (const [label, response, expected] of responses) {
    await t.test(label, async (t) => {
      const before = hears.requests.length
      hears.respond = response
      t.equal((await as('acme')(`POST /webhooks/deliveries/${id}/redeliver`)).status, 202)
      await until('it is tried again, and the log says why', async () => {
        const row = await outcome('out')
        return hears.requests.length > before &&
          Object.entries(expected).every(([name, value]) =>
            value instanceof RegExp ? value.test(String(row?.[name])) : row?.[name] === value
          )
      })
      t.match(await outcome('out'), { status: 'pending', nextAttemptAt: String })
    })
  }
  t.equal(hears.requests.filter(({ path }) => path.includes('elsewhere')).length, 0, 'no redirect is followed')
  hears.respond = fails(410)
  forward(hour)
  await until('it is unwanted', async () => (await outcome('out'))?.['status'] === 'failed')
  t.match(await outcome('out'), { lastStatus: 410, nextAttemptAt: null })
  await until('the others have their retries', async () => Number((await outcome('inside'))?.['attempts']) > 1)
  for (let day = 0; day < 26 && (await outcome('inside'))?.['status'] === 'pending'; day++) {
    const attempts = Number((await outcome('inside'))?.['attempts'])
    forward(hour)
    await until(
      'it is tried again',
      async () => Number((await outcome('inside'))?.['attempts']) > attempts || (await outcome('inside'))?.['status'] === 'failed'
    )
  }
  await until('a day later it has finally failed', async () => (await outcome('inside'))?.['status'] === 'failed')
})
