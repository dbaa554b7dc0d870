/** Attacks and edge cases of a tenant with many or large secrets, or at the limits of time. */
import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { builtInPlans } from '../../../lib/plans/plans.js'
import { refuseBeyond, refuseBytes } from '../../../plugins/secrets/limits.js'
import { createSecretStore, sweepSecrets } from '../../../plugins/secrets/store.js'
import { testApp } from '../../helpers/app.js'
import { fakeClock } from '../../helpers/clock.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { day, open, valuesOf } from './app.js'

const value = secretText('the value of a bounded secret')

test('bounds of secrets, and their uses and expiry', async (t) => {
  const clock = fakeClock()
  const { app, as } = await open(t, await postgresSection(t), {
    now: clock.now,
    tenants: { acme: 'enterprise', globex: 'pro', initech: 'pro' }
  })
  const [acme, globex, initech] = [as('acme'), as('globex'), as('initech')]
  const audit = async (ask = globex) =>
    (await ask('GET /tenant/secrets/audit')).body.data?.map(({ action, key, count }) => [action, key, count].join(' ').trim())

  await t.test('large secrets are read in pages of bytes, and all of them are returned', async (t) => {
    const large = value.padEnd(60_000, '.')
    for (let index = 0; index < 20; index++) await app.secrets.put('acme', { key: `large-${index}`, value: large }, noActor)
    for (let index = 0; index < 30; index++) await app.secrets.put('acme', { key: `small-${index}`, value }, noActor)
    const store = createSecretStore(app.db)
    const first = await store.sealed(tenantRef('acme'), '', 524_288)
    t.match(first, { more: true })
    t.equal(first.rows.length, 8)
    t.same((await store.sealed(tenantRef('acme'), 'a', 1)).rows.length, 1, 'more than one page')
    t.match(await store.sealed(tenantRef('acme'), 'small-0', 524_288), { more: false })
    t.equal(Object.keys(await valuesOf(app, 'acme')).length, 50, 'all are returned')
  })

  await t.test('a list has pages of at most 100 secrets', async (t) => {
    const keys = async (query: string) => (await acme(`GET /tenant/secrets${query}`)).body['secrets']
    const small = Object(await keys('?limit=2&offset=20'))
    t.match(small, [{ key: 'small-0' }, { key: 'small-1' }])
    t.strictSame(small[0].metadata, {})
    t.equal(Object(await keys('')).length, 20)
    t.equal(Object(await keys('?limit=5000')).length, 50)
    t.strictSame((await acme('GET /tenant/secrets?limit=5000')).body['pagination'], { limit: 100, offset: 0, total: 50 })
    t.same(await keys('?offset=50'), [])
    for (const query of ['limit=0', 'offset=-1', 'page=1']) {
      refused(t, await acme(`GET /tenant/secrets?${query}`), 400, 'VALIDATION_FAILED', query)
    }
  })

  await t.test('a plan without a limit is bounded by 10,000 secrets and 8 MB', async (t) => {
    t.doesNotThrow(() => refuseBeyond(builtInPlans, builtInPlans.of('enterprise'), 9999))
    t.throws(() => refuseBeyond(builtInPlans, builtInPlans.of('enterprise'), 10_000), { code: 'TENANTRY_CONFLICT' })
    t.doesNotThrow(() => refuseBytes(8_388_608))
    t.throws(() => refuseBytes(8_388_609), { code: 'TENANTRY_CONFLICT' })
    await sql`insert into tenantry.secrets (tenant_id, key, version, value) select 'acme', 'huge-' || n, 1, decode(repeat('00', 65000), 'hex') from generate_series(1, 110) n`
      .execute(app.db)
    for (
      const [target, body] of [['POST /tenant/secrets', { key: 'more', value: 'x'.repeat(65_536) }], ['POST /tenant/secrets/rotate', {
        key: 'small-1',
        newValue: 'x'.repeat(65_536)
      }]] as const
    ) {
      refused(t, await acme(target, { body }), 409, 'CONFLICT', target)
    }
    t.equal((await globex('POST /tenant/secrets', { body: { key: 'a', value } })).status, 201, 'another tenant has room')
  })

  await t.test('a body of many members is rejected by its size', async (t) => {
    const metadata = Object.fromEntries(Array.from({ length: 60_000 }, (_, index) => [`m${index}`, 1]))
    refused(t, await globex('POST /tenant/secrets', { body: { key: 'a', value, metadata } }), 413, 'BODY_TOO_LARGE')
    t.equal((await globex('POST /tenant/secrets', { body: { key: 'long', value: '"'.repeat(65_536) } })).status, 201)
  })

  await t.test('uses of a secret that is deleted at once are logged, and not counted for its successor', async (t) => {
    await initech('POST /tenant/secrets', { body: { key: 'b', value } })
    t.equal(await app.secrets.get('initech', 'b'), value)
    clock.forward(10)
    t.equal((await initech('DELETE /tenant/secrets/b')).status, 200)
    clock.forward(10)
    await initech('POST /tenant/secrets', { body: { key: 'b', value } })
    t.match((await initech('GET /tenant/secrets')).body['secrets'], [{ key: 'b', accessCount: 0, lastAccessedAt: null }])
    t.same(await audit(initech), ['create b', 'delete b', 'access b 1', 'create b'])

    // Like another server, which writes its uses after the deletion and the next creation.
    const at = new Date(clock.now())
    await createSecretStore(app.db).accessed([{ tenant: tenantRef('initech'), key: 'b', count: 3, lastAt: new Date(clock.now() - 15) }], at)
    t.match((await initech('GET /tenant/secrets')).body['secrets'], [{ key: 'b', accessCount: 0, lastAccessedAt: null }])
    t.same(await audit(initech), ['create b', 'delete b', 'access b 4', 'create b'], 'one entry for the uses of an hour')
    clock.forward(3_600_000)
    await app.secrets.get('initech', 'b')
    t.same((await audit(initech))?.[0], 'access b 1')
  })

  await t.test("a rotation keeps the previous value at most until the secret's expiry", async (t) => {
    const expiresAt = new Date(clock.now() + day).toISOString()
    await globex('POST /tenant/secrets', { body: { key: 'short', value, expiresAt } })
    t.match((await globex('POST /tenant/secrets/short/rotate', { body: { newValue: value, gracePeriodDays: 30 } })).body, {
      oldKeyValidUntil: expiresAt
    })
  })

  await t.test('deleted secrets lose their metadata at once, and their row after a week', async (t) => {
    await globex('POST /tenant/secrets', { body: { key: 'gone', value, metadata: { note: 'private' } } })
    await globex('DELETE /tenant/secrets/gone')
    const rows = async () => (await sql`select metadata from tenantry.secrets where key = 'gone'`.execute(app.db)).rows
    t.same(await rows(), [{ metadata: {} }])
    clock.forward(7 * day - 1)
    await sweepSecrets(app.db, new Date(clock.now()))
    t.equal((await rows()).length, 1)
    clock.forward(1)
    await sweepSecrets(app.db, new Date(clock.now()))
    t.same(await rows(), [])
  })
})

test('an embedded database keeps its secrets without the option for its folder', async (t) => {
  const dbPath = `${t.testdir({})}/data`
  async function start () {
    return (await testApp(t, { engine: { provider: 'embedded', embedded: { dbPath } }, plugins: { secrets: { masterKey: undefined } } })).app
  }
  const first = await start()
  await first.tenants.create({ id: 'acme', name: 'acme' })
  await first.secrets.put('acme', { key: 'a', value }, noActor)
  await first.close()
  t.equal(await (await start()).secrets.get('acme', 'a'), value)
})
