import { test } from 'tap'
import { fakeClock } from '../../helpers/clock.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { open, postgresSection } from '../auth/app.js'
import { makeKey, rotateKey } from './key.js'

const day = 86_400_000 // ms
const start = Date.parse('2030-06-01T12:00:00Z')
const admin = { role: 'admin', tenant_id: 'acme' }

test('a key expires at its time, and a replaced key after its grace period, even if both are cached', async (t) => {
  const clock = fakeClock(start)
  const { as } = await open(t, await postgresSection(t), { tenants: ['acme'], now: clock.now })
  const acme = as(admin)
  const status = async (key: string) => (await as(key)('GET /who')).status
  refused(
    t,
    await acme('POST /tenant/api-keys', { body: { name: 'x', expiresAt: new Date(clock.now()).toISOString() } }),
    400,
    'VALIDATION_FAILED',
    'now is not in the future'
  )
  const ending = await makeKey(t, acme, { expiresAt: new Date(clock.now() + 10 * day).toISOString() })
  const { id, key: first } = await makeKey(t, acme)

  const response = await acme(`POST /tenant/api-keys/${id}/rotate`, { body: { gracePeriodDays: 7 } })
  t.equal(response.headers['cache-control'], 'no-store')
  t.match(response.body, { id, oldKeyValidUntil: new Date(clock.now() + 7 * day).toISOString() })
  const second = String(response.body['key'])
  t.same(await Promise.all([first, second, ending.key].map(status)), [200, 200, 200])
  clock.forward(7 * day - 1)
  t.same(await Promise.all([first, second, ending.key].map(status)), [200, 200, 200])
  clock.forward(1)
  t.same(await Promise.all([first, second, ending.key].map(status)), [401, 200, 200])
  clock.forward(3 * day)
  t.same(await Promise.all([first, second, ending.key].map(status)), [401, 200, 401])

  const third = await rotateKey(t, acme, id, { gracePeriodDays: 90 })
  const fourth = await rotateKey(t, acme, id, { gracePeriodDays: 1 })
  t.same(await Promise.all([second, third, fourth].map(status)), [401, 200, 200], 'only the previous key has a grace period')
  const fifth = await rotateKey(t, acme, id)
  t.same(await Promise.all([third, fourth, fifth].map(status)), [401, 401, 200], 'without days the previous key expires at once')
})

test('a key gives no access beyond its own end', async (t) => {
  const clock = fakeClock(start)
  const { app, as } = await open(t, await postgresSection(t), { tenants: ['acme'], now: clock.now })
  const acme = as(admin)
  const status = async (key: string) => (await as(key)('GET /who')).status
  const time = (days: number) => new Date(start + days * day).toISOString()
  const scopes = ['*']
  const expiresAt = time(10)
  const [lasting, earlier, ending] = [
    await makeKey(t, acme, { scopes }),
    await makeKey(t, acme, { scopes, expiresAt: time(5) }),
    await makeKey(t, acme, { scopes, expiresAt })
  ]
  const holder = as(ending.key)
  const made = async (body: object) => {
    const response = await holder('POST /tenant/api-keys', { body: { name: 'x', scopes, ...body } })
    t.equal(response.status, 201)
    return { id: String(response.body['id']), key: String(response.body['key']), expiresAt: response.body['expiresAt'] }
  }
  const [unlimited, later, sooner] = [await made({}), await made({ expiresAt: time(20) }), await made({ expiresAt: time(5) })]
  t.same([unlimited, later, sooner].map((key) => key.expiresAt), [expiresAt, expiresAt, time(5)])
  const ofMade = await as(unlimited.key)('POST /tenant/api-keys', { body: { name: 'x' } })
  t.equal(ofMade.body['expiresAt'], expiresAt, 'a key of a key')
  const entry = await app.db.selectFrom('tenantry.audit_log').select('details').where('target', '=', unlimited.id).executeTakeFirst()
  t.match(entry, { details: { expiresAt } }, 'the audit log has the same time')

  refused(t, await holder(`POST /tenant/api-keys/${lasting.id}/rotate`), 403, 'GRANT_EXCEEDS', 'a key without an end')
  await rotateKey(t, holder, earlier.id)
  const renewed = await rotateKey(t, holder, ending.id, { gracePeriodDays: 1 })
  refused(t, await holder(`POST /tenant/api-keys/${ending.id}/rotate`), 403, 'GRANT_EXCEEDS', 'the replaced text itself')
  t.equal((await made({})).expiresAt, time(1), 'a replaced text ends with its grace period')
  t.same(await Promise.all([lasting.key, renewed].map(status)), [200, 200])
  clock.forward(10 * day)
  t.same(await Promise.all([lasting, unlimited, later].map(({ key }) => status(key))), [200, 401, 401])
})

test("a key's last use is shown at once, and written when the server stops", async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const clock = fakeClock(start)
  const { app, as } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { tenants: ['acme'], now: clock.now })
  const acme = as(admin)
  const [used, unused] = [await makeKey(t, acme), await makeKey(t, acme)]
  const lastUse = async () => {
    return (await acme('GET /tenant/api-keys')).body.data?.map(({ id, lastUsedAt }) => [id, lastUsedAt]).sort()
  }
  const expected = (at: string | null) => [[used.id, at], [unused.id, null]].sort()
  t.same(await lastUse(), expected(null))
  await as(used.key)('GET /who')
  refused(
    t,
    await as(`${unused.key.slice(0, -1)}${unused.key.endsWith('A') ? 'B' : 'A'}`)('GET /who'),
    401,
    'TOKEN_INVALID',
    'a wrong key is not a use'
  )
  t.same(await lastUse(), expected('2030-06-01T12:00:00.000Z'))
  clock.forward(5000)
  await as(used.key)('GET /who')
  t.same(await lastUse(), expected('2030-06-01T12:00:05.000Z'))
  t.same(await query('select id from tenantry.api_keys where last_used_at is not null'), [], 'not during a request')
  await app.close()
  t.same(await query('select id, last_used_at from tenantry.api_keys where last_used_at is not null'), [{
    id: used.id,
    last_used_at: new Date('2030-06-01T12:00:05Z')
  }])
})

test("a deleted tenant's keys are not valid for a new tenant with its id", async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  const { key } = await makeKey(t, as(admin))
  t.equal((await as(key)('GET /who')).status, 200)
  await app.tenants.update('acme', { status: 'suspended' })
  refused(t, await as(key)('GET /who'), 403, 'TENANT_SUSPENDED')
  await app.tenants.delete('acme')
  refused(t, await as(key)('GET /who'), 401, 'TOKEN_INVALID')
  await app.tenants.create({ id: 'acme', name: 'another', plan: 'free' })
  refused(t, await as(key)('GET /who'), 401, 'TOKEN_INVALID')
})
