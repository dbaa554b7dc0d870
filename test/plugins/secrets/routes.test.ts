import { sql } from 'kysely'
import { test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'
import { open, valuesOf } from './app.js'

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const first = secretText('sk_live_the_first_value')
const second = secretText('sk_live_the_second_value')

test("each tenant's secret is stored, listed without its value, changed, deleted and stored again", (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, as } = await open(t, engine, { tenants: { acme: 'pro', globex: 'pro' } })
    const [acme, globex] = [as('acme'), as('globex')]
    t.same(await acme('GET /tenant/secrets').then(({ body }) => body), { secrets: [], pagination: { limit: 20, offset: 0, total: 0 } })

    const created = await acme('POST /tenant/secrets', {
      body: { key: 'stripe', value: first, metadata: { type: 'api key', nested: { a: [1] } }, expiresAt: '2100-01-01T00:00:00Z' }
    })
    t.match(created, { status: 201, body: { success: true, key: 'stripe' } })
    t.match(await globex('POST /tenant/secrets', { body: { key: 'stripe', value: second } }), { status: 201 })
    t.same(await valuesOf(app, 'acme'), { stripe: first })
    t.same(await valuesOf(app, 'globex'), { stripe: second })
    const listed = await acme('GET /tenant/secrets')
    t.match(listed.body, {
      secrets: [{
        key: 'stripe',
        createdAt: time,
        lastAccessedAt: null,
        accessCount: 0,
        expiresAt: '2100-01-01T00:00:00.000Z',
        metadata: { type: 'api key', nested: { a: [1] } }
      }]
    })
    t.notMatch(listed.text, first)

    t.match(await acme('POST /tenant/secrets', { body: { key: 'stripe', value: second } }), {
      status: 200,
      body: { success: true, key: 'stripe' }
    })
    t.same(await valuesOf(app, 'acme'), { stripe: second })
    t.match((await acme('GET /tenant/secrets')).body, {
      secrets: [{ expiresAt: '2100-01-01T00:00:00.000Z', metadata: { type: 'api key' } }]
    }, 'members that an update leaves out stay')
    await acme('POST /tenant/secrets', { body: { key: 'stripe', value: second, metadata: {}, expiresAt: null } })
    t.match((await acme('GET /tenant/secrets')).text, /"expiresAt":null.*"metadata":\{\}|"metadata":\{\}.*"expiresAt":null/)

    t.match(await acme('DELETE /tenant/secrets/stripe'), { status: 200, body: { success: true } })
    refused(t, await acme('DELETE /tenant/secrets/stripe'), 404, 'NOT_FOUND')
    t.same((await acme('GET /tenant/secrets')).body, { secrets: [], pagination: { limit: 20, offset: 0, total: 0 } })
    t.same(await valuesOf(app, 'acme'), {})
    t.same(await valuesOf(app, 'globex'), { stripe: second }, "the other tenant's is unchanged")
    const { rows } =
      await sql`select value, previous_value, deleted_at is not null as deleted from tenantry.secrets where tenant_id = 'acme'`.execute(
        app.db
      )
    t.same(rows, [{ value: null, previous_value: null, deleted: true }], 'its value is deleted, its row is not')

    await acme('POST /tenant/secrets', { body: { key: 'stripe', value: first, metadata: { a: 1 } } })
    await acme('DELETE /tenant/secrets/stripe')
    t.match(
      await acme('POST /tenant/secrets', { body: { key: 'stripe', value: first } }),
      { status: 201 },
      'storing a deleted secret creates it'
    )
    t.match((await acme('GET /tenant/secrets')).text, /"metadata":\{\}/, 'with nothing of the previous one')
  }))

test('a rejection names the fault without the value', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: { acme: 'pro' } })
  const acme = as('acme')
  const post = (body: unknown) => acme('POST /tenant/secrets', { body })
  const long = first + 'x'.repeat(65_536)
  const wide = `${first}${'ü'.repeat(32_768)}`
  const cases: [body: unknown, path: string][] = [
    [{ key: 'a', value: long }, '/body/value'],
    [{ key: 'a', value: wide }, '/body/value'],
    [{ key: 'a', value: '' }, '/body/value'],
    [{ key: 'a', value: { deep: first } }, '/body/value'],
    [{ key: 'a', value: [first] }, '/body/value'],
    [{ key: 'a', value: `${first}\ud800` }, '/body/value'],
    [{ key: 'a b', value: first }, '/body/key'],
    [{ key: '', value: first }, '/body/key'],
    [{ key: 'a'.repeat(129), value: first }, '/body/key'],
    [{ value: first }, '/body/key'],
    [{ key: 'a' }, '/body/value'],
    [{ key: 'a', value: first, extra: 1 }, '/body/extra'],
    [{ key: 'a', value: first, metadata: { text: 'm'.repeat(4096) } }, '/body/metadata'],
    [{ key: 'a', value: first, metadata: [first] }, '/body/metadata'],
    [{ key: 'a', value: first, expiresAt: '2020-01-01T00:00:00Z' }, '/body/expiresAt'],
    [{ key: 'a', value: first, expiresAt: 'tomorrow' }, '/body/expiresAt'],
    [{ key: 'a', value: first, expiresAt: '2098-12-31T23:59:60Z' }, '/body/expiresAt']
  ]
  for (const [body, path] of cases) {
    const response = await post(body)
    const label = JSON.stringify(body).slice(0, 80)
    refused(t, response, 400, 'VALIDATION_FAILED', label)
    t.match(response.body.details, [{ path }], label)
    t.notOk(response.text.includes(first), `nothing of the value: ${label}`)
  }
  const broken = await acme('POST /tenant/secrets', { raw: `{"key": "a", "value": "${first}"` })
  refused(t, broken, 400, 'BAD_REQUEST')
  t.notOk(broken.text.includes(first))
  t.same((await acme('GET /tenant/secrets')).body, { secrets: [], pagination: { limit: 20, offset: 0, total: 0 } })

  t.match(await post({ key: 'a'.repeat(128), value: 'x'.repeat(65_536) }), { status: 201 })
  t.match(await post({ key: 'A-z_0.9', value: `${'ü'.repeat(32_768)}` }), { status: 201 })
  t.same(await app.secrets.get('acme', 'A-z_0.9'), 'ü'.repeat(32_768))
})

test('keys that look like paths are ordinary keys', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: { acme: 'pro' } })
  const acme = as('acme')
  for (const key of ['rotate', 'audit', 'a..b', 'constructor', 'x']) {
    t.match(await acme('POST /tenant/secrets', { body: { key, value: first } }), { status: 201 }, key)
    const rotated = await acme(`POST /tenant/secrets/${key}/rotate`, { body: { newValue: `${second} ${key}` } })
    t.match(rotated, { status: 200, body: { success: true, oldKeyValidUntil: time } }, `${key}/rotate`)
    t.equal(await app.secrets.get('acme', key), `${second} ${key}`)
    t.match(
      await acme('POST /tenant/secrets/rotate', { body: { key, newValue: `${second} again ${key}` } }),
      { status: 200 },
      `rotate ${key}`
    )
    t.equal(await app.secrets.get('acme', key), `${second} again ${key}`)
  }
  t.match((await acme('GET /tenant/secrets/audit?limit=1000')).body, { pagination: { limit: 100, offset: 0 } })
  for (const key of ['rotate', 'audit', 'constructor', 'x']) t.match(await acme(`DELETE /tenant/secrets/${key}`), { status: 200 }, key)
  t.strictSame(Object.keys(await valuesOf(app, 'acme')), ['a..b'])
  refused(t, await acme('POST /tenant/secrets/x/rotate', { body: { newValue: second } }), 404, 'NOT_FOUND', 'a deleted one')
  refused(t, await acme('POST /tenant/secrets/x/rotate', { body: { newValue: second, key: 'y' } }), 400, 'VALIDATION_FAILED')
  refused(t, await acme('POST /tenant/secrets/x%2Fy/rotate', { body: { newValue: second } }), 400, 'VALIDATION_FAILED')
})

test('only administrators of the tenant and holders of secrets:write have access, which is checked before the body is read', async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: { acme: 'pro', globex: 'pro' } })
  await as('acme')('POST /tenant/secrets', { body: { key: 'a', value: first } })
  const targets = [
    'GET /tenant/secrets',
    'POST /tenant/secrets',
    'DELETE /tenant/secrets/a',
    'POST /tenant/secrets/a/rotate',
    'POST /tenant/secrets/rotate',
    'GET /tenant/secrets/audit'
  ]
  const body = { nothing: 'right' }
  const stranger = caller(t, app)
  const user = caller(t, app, { token: signToken({ tenant_id: 'acme', role: 'editor' }) })
  const elsewhere = caller(t, app, { token: signToken({ tenant_id: 'globex', role: 'admin' }), tenant: 'acme' })
  const holder = caller(t, app, { token: signToken({ tenant_id: 'acme', permissions: ['secrets:write'], sub: 'grace' }) })
  const platform = caller(t, app, { token: signToken({ role: 'admin', sub: 'root' }) })
  for (const target of targets) {
    const request = target.startsWith('POST') ? { body } : {}
    refused(t, await stranger(target, request), 401, 'TOKEN_MISSING', target)
    refused(t, await stranger(target, { ...request, tenant: 'acme' }), 401, 'TOKEN_MISSING', target)
    refused(t, await user(target, request), 403, 'FORBIDDEN', target)
    refused(t, await elsewhere(target, request), 403, 'TENANT_MISMATCH', target)
  }
  t.match(await holder('GET /tenant/secrets'), { status: 200, body: { secrets: [{ key: 'a' }] } })
  t.match(await holder('POST /tenant/secrets', { body: { key: 'b', value: second } }), { status: 201 })
  t.match(await platform('GET /tenant/secrets', { tenant: 'acme' }), { body: { secrets: [{ key: 'a' }, { key: 'b' }] } })
  refused(t, await platform('GET /tenant/secrets'), 400, 'TENANT_REQUIRED')
  t.same((await as('globex')('GET /tenant/secrets')).body, { secrets: [], pagination: { limit: 20, offset: 0, total: 0 } })
  t.same((await as('globex')('GET /tenant/secrets/audit')).body.data, [])
  refused(t, await as('globex')('DELETE /tenant/secrets/a'), 404, 'NOT_FOUND', "another tenant's")
})
