import { sql } from 'kysely'
import { test } from 'tap'
import { builtInPlans } from '../../../lib/plans/plans.js'
import { sweepAudit } from '../../../plugins/audit/store.js'
import { sweepSecrets } from '../../../plugins/secrets/store.js'
import { fakeClock } from '../../helpers/clock.js'
import { secretText } from '../../helpers/log-scan.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { day, open, valuesOf } from './app.js'

const [one, two, three] = [secretText('the first value of it'), secretText('the second value of it'), secretText('the third value of it')]

test('a rotation applies the new value at once, and accepts both until the grace period ends', (t) =>
  forEachEngine(t, async (t, engine) => {
    const clock = fakeClock()
    const { app, as } = await open(t, engine, { now: clock.now, tenants: { acme: 'pro', globex: 'pro' } })
    const acme = as('acme')
    await acme('POST /tenant/secrets', { body: { key: 'hook', value: one, metadata: { a: 1 } } })
    t.same(await app.secrets.accepted('acme', 'hook'), [one])
    const rotated = await acme('POST /tenant/secrets/hook/rotate', { body: { newValue: two, gracePeriodDays: 90 } })
    t.match(rotated, { status: 200, body: { success: true, oldKeyValidUntil: new Date(clock.now() + 90 * day).toISOString() } })
    t.notMatch(rotated.text, two)
    t.equal(await app.secrets.get('acme', 'hook'), two)
    t.same(await app.secrets.accepted('acme', 'hook'), [two, one])
    t.match((await acme('GET /tenant/secrets')).body, { secrets: [{ key: 'hook', metadata: { a: 1 } }] })
    clock.forward(90 * day - 1)
    t.same(await app.secrets.accepted('acme', 'hook'), [two, one])
    clock.forward(1)
    t.same(await app.secrets.accepted('acme', 'hook'), [two])
    t.equal(await sweepSecrets(app.db, new Date(clock.now())), true)
    const { rows } = await sql`select previous_value from tenantry.secrets`.execute(app.db)
    t.same(rows, [{ previous_value: null }], 'the sweep removes the previous value')

    await acme('POST /tenant/secrets/rotate', { body: { key: 'hook', newValue: three, gracePeriodDays: 5 } })
    await acme('POST /tenant/secrets/rotate', { body: { key: 'hook', newValue: one } })
    t.same(
      await app.secrets.accepted('acme', 'hook'),
      [one, two],
      'without a grace period the last value ends now, and an earlier one keeps its own end'
    )
    await acme('POST /tenant/secrets/rotate', { body: { key: 'hook', newValue: three, endEarlier: true } })
    t.same(await app.secrets.accepted('acme', 'hook'), [three], 'unless the rotation ends all of them')
    t.same(await app.secrets.accepted('globex', 'hook'), [])
    for (const gracePeriodDays of [-1, 91, 1.5, '7', null]) {
      refused(
        t,
        await acme('POST /tenant/secrets/rotate', { body: { key: 'hook', newValue: three, gracePeriodDays } }),
        400,
        'VALIDATION_FAILED',
        String(gracePeriodDays)
      )
    }
    refused(t, await acme('POST /tenant/secrets/rotate', { body: { key: 'none', newValue: three } }), 404, 'NOT_FOUND')
  }))

test('each value of a secret that is rotated repeatedly is accepted until its own end, ten at most', (t) =>
  forEachEngine(t, async (t, engine) => {
    const clock = fakeClock()
    const { app, as } = await open(t, engine, { now: clock.now, tenants: { acme: 'pro', globex: 'pro' } })
    const acme = as('acme')
    const rotate = (newValue: string, gracePeriodDays: number, more: object = {}) =>
      acme('POST /tenant/secrets/hook/rotate', { body: { newValue, gracePeriodDays, ...more } })
    const numbered = (index: number) => secretText(`the value of it of number ${index}`)
    await acme('POST /tenant/secrets', { body: { key: 'hook', value: one } })
    await as('globex')('POST /tenant/secrets', { body: { key: 'hook', value: one } })
    await rotate(two, 7)
    await rotate(three, 1)
    t.same(await app.secrets.accepted('acme', 'hook'), [three, two, one])
    t.same(await app.secrets.accepted('globex', 'hook'), [one], "another tenant's secret with that key")
    clock.forward(day)
    t.same(await app.secrets.accepted('acme', 'hook'), [three, one], 'the second has ended, the first has not')
    await sweepSecrets(app.db, new Date(clock.now()))
    t.same(await app.secrets.accepted('acme', 'hook'), [three, one])
    clock.forward(6 * day)
    t.same(await app.secrets.accepted('acme', 'hook'), [three])
    await sweepSecrets(app.db, new Date(clock.now()))
    t.same((await sql`select 1 from tenantry.secret_earlier_values`.execute(app.db)).rows, [], 'the sweep removes ended values')

    const values = Array.from({ length: 11 }, (_, index) => numbered(index))
    for (const [index, value] of values.slice(0, 10).entries()) t.match(await rotate(value, 10 + index), { status: 200 })
    t.same(await app.secrets.accepted('acme', 'hook'), [...values.slice(0, 10).reverse(), three], 'ten beside the current one')
    refused(t, await rotate(numbered(10), 1), 409, 'CONFLICT')
    t.equal(await app.secrets.get('acme', 'hook'), numbered(9), 'a rejected rotation changes nothing')
    t.match(await rotate(numbered(10), 0), { status: 200 }, 'without a grace period there is no previous value')
    t.same(await app.secrets.accepted('acme', 'hook'), [numbered(10), ...values.slice(0, 9).reverse(), three])
    t.match(await rotate(one, 1, { endEarlier: true }), { status: 200 })
    t.same(await app.secrets.accepted('acme', 'hook'), [one, numbered(10)])

    await rotate(two, 7)
    await acme('DELETE /tenant/secrets/hook')
    t.same((await sql`select 1 from tenantry.secret_earlier_values`.execute(app.db)).rows, [], 'a deleted secret leaves no value')
    await acme('POST /tenant/secrets', { body: { key: 'hook', value: three } })
    t.same(await app.secrets.accepted('acme', 'hook'), [three])
  }))

test('an expired secret is null, which is logged and audited once, for any number of reads', (t) =>
  forEachEngine(t, async (t, engine) => {
    const clock = fakeClock()
    const lines: string[] = []
    const { app, as } = await open(t, engine, { now: clock.now, tenants: { acme: 'pro' }, onLog: (line) => lines.push(line) })
    const acme = as('acme')
    const expiresAt = new Date(clock.now() + day).toISOString()
    await acme('POST /tenant/secrets', { body: { key: 'short', value: one, expiresAt } })
    await acme('POST /tenant/secrets', { body: { key: 'long', value: two } })
    const warm = await app.secrets.values('acme')
    t.same(Object.fromEntries(warm), { short: one, long: two })
    t.equal(app.secrets.values('acme'), warm, 'the same map, returned synchronously')
    clock.forward(day - 1)
    t.equal(app.secrets.values('acme'), warm)
    clock.forward(1)
    t.same(await valuesOf(app, 'acme'), { short: null, long: two })
    t.same(Object.fromEntries(warm), { short: one, long: two }, 'a running request keeps its values')
    for (let index = 0; index < 5; index++) t.equal(await app.secrets.get('acme', 'short'), null)
    t.same(await app.secrets.accepted('acme', 'short'), [])
    t.equal(lines.filter((line) => /"keys":\["short"\].*secrets have expired/.test(line)).length, 1, 'one warning')

    const expiries = async () => (await acme('GET /tenant/secrets/audit')).body.data?.filter(({ action }) => action === 'expire')
    t.match(await expiries(), [{ key: 'short', userId: null }])
    await sweepSecrets(app.db, new Date(clock.now()))
    t.match(
      (await acme('GET /tenant/secrets')).body,
      { secrets: [{ key: 'long' }, { key: 'short', expiresAt, accessCount: 0 }] },
      'it is still listed'
    )
    t.equal((await expiries())?.length, 1)

    t.match(await acme('POST /tenant/secrets/short/rotate', { body: { newValue: three, gracePeriodDays: 9 } }), {
      body: { oldKeyValidUntil: new Date(clock.now()).toISOString() }
    })
    t.same(await app.secrets.accepted('acme', 'short'), [three], 'a rotation makes it active, and accepts no expired value')
    await acme('POST /tenant/secrets', { body: { key: 'short', value: one, expiresAt: new Date(clock.now() + day).toISOString() } })
    clock.forward(day)
    t.match(await acme('POST /tenant/secrets', { body: { key: 'short', value: two } }), { status: 200 }, 'before the first read')
    t.same(await valuesOf(app, 'acme'), { short: two, long: two })
    t.equal((await expiries())?.length, 2)

    await acme('POST /tenant/secrets/short/rotate', { body: { newValue: three, gracePeriodDays: 30 } })
    await acme('POST /tenant/secrets', { body: { key: 'short', value: three, expiresAt: new Date(clock.now() + day).toISOString() } })
    clock.forward(day)
    await acme('POST /tenant/secrets', { body: { key: 'short', value: one } })
    t.same(await app.secrets.accepted('acme', 'short'), [one], 'a rotated value ends with the secret')
  }))

test('the audit log contains each change of a key with its user, and uses in batches, as long as the plan keeps it', (t) =>
  forEachEngine(t, async (t, engine) => {
    const clock = fakeClock()
    const { app, as } = await open(t, engine, { now: clock.now, tenants: { acme: 'pro', globex: 'free', initech: 'enterprise' } })
    const acme = as('acme')
    const begun = new Date(clock.now()).toISOString()
    await acme('POST /tenant/secrets', { body: { key: 'a', value: one } })
    await acme('POST /tenant/secrets', { body: { key: 'a', value: two } })
    clock.forward(1000)
    await acme('POST /tenant/secrets/a/rotate', { body: { newValue: three } })
    await app.secrets.values('acme')
    for (let index = 0; index < 1000; index++) app.secrets.accessed('acme', ['a', 'missing'])
    clock.forward(1000)
    app.secrets.accessed('acme', ['a'])
    const used = new Date(clock.now()).toISOString()
    t.match((await acme('GET /tenant/secrets')).body, { secrets: [{ key: 'a', accessCount: 1001, lastAccessedAt: used }] })
    clock.forward(1000)
    await acme('DELETE /tenant/secrets/a')
    const at = (seconds: number) => new Date(Date.parse(begun) + seconds * 1000).toISOString()
    const entries = [
      { timestamp: at(3), action: 'delete', userId: 'ada', key: 'a' },
      { timestamp: at(2), action: 'access', userId: null, key: 'a', count: 1001 },
      { timestamp: at(1), action: 'rotate', userId: 'ada', key: 'a' },
      { timestamp: at(0), action: 'update', userId: 'ada', key: 'a' },
      { timestamp: at(0), action: 'create', userId: 'ada', key: 'a' }
    ]
    t.same((await acme('GET /tenant/secrets/audit')).body, { data: entries, pagination: { limit: 20, offset: 0, total: 5 } })
    t.same((await acme('GET /tenant/secrets/audit?limit=2&offset=1')).body, {
      data: entries.slice(1, 3),
      pagination: { limit: 2, offset: 1, total: 5 }
    })
    t.same((await acme('GET /tenant/secrets/audit?key=b')).body, { data: [], pagination: { limit: 20, offset: 0, total: 0 } })
    t.match((await acme('GET /tenant/secrets/audit?key=a')).body, { pagination: { total: 5 } })
    for (const query of ['limit=0', 'limit=x', 'offset=-1', 'key=a%20b']) {
      refused(t, await acme(`GET /tenant/secrets/audit?${query}`), 400, 'VALIDATION_FAILED', query)
    }

    await as('globex')('POST /tenant/secrets', { body: { key: 'b', value: one } })
    await as('initech')('POST /tenant/secrets', { body: { key: 'c', value: one } })
    const totals = async () =>
      Promise.all(
        ['acme', 'globex', 'initech'].map(async (tenant) =>
          Object(await as(tenant)('GET /tenant/secrets/audit').then(({ body }) => body['pagination'])).total
        )
      )
    t.same(await totals(), [5, 1, 1])
    clock.forward(7 * day)
    t.same(await totals(), [5, 0, 1], 'free keeps a week')
    clock.forward(83 * day)
    t.same(await totals(), [0, 0, 1], 'pro keeps ninety days, enterprise keeps all')
    const rows = async () =>
      (await sql<{ count: number }>`select count(*)::int as count from tenantry.audit_log where tenant_id <> ''`.execute(app.db)).rows[0]
        ?.count
    t.equal(await rows(), 7, 'before the sweep')
    t.equal(await sweepAudit(app.db, { plans: builtInPlans, retentionDays: 365 }, new Date(clock.now())), true)
    t.equal(await rows(), 1)
  }))
