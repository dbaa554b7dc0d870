import { sql } from 'kysely'
import { test } from 'tap'
import type { Rule } from '../../../plugins/resource-limits/index.js'
import { sweepUsage } from '../../../plugins/resource-limits/store.js'
import { fakeClock } from '../../helpers/clock.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { day } from '../secrets/app.js'
import { open, rule, use, user } from './app.js'

const minute = 60_000 // ms
const hour = 3_600_000 // ms
const most = Number.MAX_SAFE_INTEGER
const refusal = (gateAction: string, current: number, limit: number) => ({
  code: 'TENANTRY_RESOURCE_LIMIT',
  statusCode: 402,
  extras: { allowed: false, gateAction, usage: { current, limit } }
})

test('counting', (t) =>
  forEachEngine(t, async (t, engine) => {
    const clock = fakeClock()
    const { app } = await open(t, engine, { tenants: ['acme', 'globex'], maxCounters: 5, ...clock })
    const { resourceLimits: limits, db } = app
    const set = async (...rules: Rule[]) => {
      await limits.replace('acme', [])
      await limits.replace('acme', rules)
    }
    const current = async (who = user()) => (await limits.usage(who)).map(({ period, current }) => [period, current])
    const counters = async () => {
      const { rows: [row] } = await sql<
        { counters: number, rows: number }
      >`select l.counters, (select count(*)::int from tenantry.resource_usage u where u.tenant_id = l.tenant_id) as rows from tenantry.resource_limits l where l.tenant_id = 'acme'`
        .execute(db)
      return row
    }

    await t.test('without a rule everything is allowed and nothing is counted', async (t) => {
      const free = { allowed: true, gateAction: null, usage: { current: 0, limit: -1 } }
      t.same(await limits.check(user(), use(100)), free)
      t.same(await limits.track(user(), use(100)), free)
      t.notOk(limits.take(user(), use(100)) instanceof Promise, 'and a request waits for nothing')
      await set(rule({ metric: 'calls' }))
      t.same(await limits.track(user(), use(100)), free)
      t.same(await counters(), { counters: 0, rows: 0 })
    })

    await t.test('use is allowed up to the limit', async (t) => {
      await set(rule())
      t.same(await limits.check(user(), use(7)), { allowed: true, gateAction: 'block', usage: { current: 0, limit: 7 } })
      t.same(await limits.track(user(), use(5)), { allowed: true, gateAction: 'block', usage: { current: 5, limit: 7 } })
      t.same(await limits.check(user(), use(3)), { allowed: false, gateAction: 'block', usage: { current: 5, limit: 7 } })
      t.same(
        await limits.check(user(), use(2)),
        { allowed: true, gateAction: 'block', usage: { current: 5, limit: 7 } },
        'a check counts nothing'
      )
      await t.rejects(limits.track(user(), use(3)), refusal('block', 5, 7))
      await t.rejects(async () => limits.take(user(), use(3)), { ...refusal('block', 5, 7), message: 'The limit of llm tokens is 7 a day' })
      t.same(await limits.track(user(), use(2)), { allowed: true, gateAction: 'block', usage: { current: 7, limit: 7 } })
      await t.rejects(limits.track(user(), use()), refusal('block', 7, 7))
      t.same(
        await limits.track(user({ id: 'ben' }), use(7)),
        { allowed: true, gateAction: 'block', usage: { current: 7, limit: 7 } },
        'another user has its own'
      )
      t.same(await limits.usage(user()), [{
        resource: 'llm',
        metric: 'tokens',
        period: 'day',
        current: 7,
        limit: 7,
        percentage: 100,
        scope: 'user'
      }])
    })

    await t.test('an amount larger than the limit itself is rejected', async (t) => {
      await set(rule())
      await t.rejects(limits.track(user(), use(8)), refusal('block', 0, 7))
      t.same(await counters(), { counters: 0, rows: 0 }, 'it leaves no trace')
      await set(rule({ limit: 0 }))
      await t.rejects(limits.track(user(), use(1)), refusal('block', 0, 0))
      t.match(await limits.usage(user()), [{ current: 0, limit: 0, percentage: 0 }])
    })

    await t.test('a use can be given back once', async (t) => {
      await set(rule(), rule({ period: 'month', limit: 100 }))
      const taken = await limits.take(user(), use(5))
      t.same(await current(), [['day', 5], ['month', 5]])
      await Promise.all([taken.give(), taken.give()])
      await taken.give()
      t.same(await current(), [['day', 0], ['month', 0]])
      const other = await limits.take(user(), use(7))
      clock.forward(day)
      await limits.track(user(), use(3))
      await other.give()
      t.same(await current(), [['day', 3], ['month', 3]], 'not from a day that started later')
    })

    await t.test('a hundred concurrent uses take only the available amount', async (t) => {
      await set(rule(), rule({ period: 'month', limit: 100 }))
      for (
        const take of [
          async () => {
            await limits.take(user(), use())
          },
          async () => {
            await limits.track(user({ id: 'ben' }), use())
          }
        ]
      ) {
        const results = await Promise.allSettled(Array.from({ length: 100 }, take))
        t.equal(results.filter(({ status }) => status === 'fulfilled').length, 7)
        for (const result of results) if (result.status === 'rejected') t.match(result.reason, refusal('block', 7, 7))
      }
      t.same(await current(), [['day', 7], ['month', 7]], 'a use that one period rejects is counted in none')
      t.same(await counters(), { counters: 2, rows: 2 })
    })

    await t.test('with several rules a use is counted in all or none', async (t) => {
      await set(rule({ limit: 10 }), rule({ period: 'month', limit: 12, gateAction: 'upgrade' }), rule({ period: 'minute', limit: -1 }))
      await limits.take(user(), use(10))
      await t.rejects(limits.track(user(), use()), refusal('block', 10, 10))
      t.same(await current(), [['day', 10], ['month', 10], ['minute', 10]])
      clock.forward(day)
      t.same(
        await limits.check(user(), use(5)),
        { allowed: false, gateAction: 'upgrade', usage: { current: 10, limit: 12 } },
        'the rejecting one is reported'
      )
      t.same(
        await limits.check(user(), use(1)),
        { allowed: true, gateAction: 'upgrade', usage: { current: 10, limit: 12 } },
        'or the one with the least left'
      )
      await t.rejects(async () => limits.take(user(), use(5)), refusal('upgrade', 10, 12))
      t.same(await current(), [['day', 0], ['month', 10], ['minute', 0]])
      t.same(
        await limits.check(user(), use(11)),
        { allowed: false, gateAction: 'upgrade', usage: { current: 10, limit: 12 } },
        'of the rejecting ones'
      )
    })

    await t.test('a limit that does not block is exceeded and reported', async (t) => {
      for (const gateAction of ['upgrade', 'login'] as const) {
        await set(rule({ gateAction }), rule({ period: 'month', limit: 20 }))
        t.same(await limits.track(user(), use(7)), { allowed: true, gateAction, usage: { current: 7, limit: 7 } })
        t.same(await limits.track(user(), use(3)), { allowed: false, gateAction, usage: { current: 10, limit: 7 } })
        await t.rejects(async () => limits.take(user(), use()), refusal(gateAction, 10, 7), 'a route does not exceed it')
        await t.rejects(
          limits.track(user(), use(11)),
          refusal('block', 10, 20),
          'a blocking rule is reported even if another has less left'
        )
        t.match(await limits.usage(user()), [{ current: 10, percentage: 142.86 }, { current: 10, percentage: 50 }])
      }
    })

    await t.test('rules can depend on tiers and roles', async (t) => {
      await set(
        rule({ tiers: { pro: 100, staff: -1, none: 0 } }),
        rule({ metric: 'calls', limit: 1, conditions: { roles: ['guest', 'visitor'] } }),
        rule({ metric: 'calls', limit: 2, conditions: { roles: ['editor'] } })
      )
      for (
        const [tier, limit] of [['pro', 100], ['staff', -1], ['none', 0], ['gold', 7], ['constructor', 7], ['__proto__', 7], [
          undefined,
          7
        ]] as const
      ) {
        t.equal((await limits.check(user({ ...tier !== undefined && { tier } }), use())).usage.limit, limit, String(tier))
      }
      const calls = { resource: 'llm', metric: 'calls', amount: 1 }
      for (const [role, limit] of [['guest', 1], ['visitor', 1], ['editor', 2], ['admin', -1], [undefined, -1]] as const) {
        t.equal((await limits.check(user({ ...role !== undefined && { role } }), calls)).usage.limit, limit, String(role))
      }
      await limits.track(user({ role: 'guest' }), calls)
      t.same(
        (await limits.check(user({ role: 'editor' }), calls)).usage,
        { current: 1, limit: 2 },
        'usage stays with a user whose role changes'
      )
      t.same(
        (await limits.usage(user({ role: 'editor', tier: 'staff' }))).map(({ metric, limit, percentage }) => [metric, limit, percentage]),
        [['tokens', -1, 0], ['calls', 2, 50]]
      )
    })

    await t.test('each period ends at its own time and starts from zero', async (t) => {
      const start = Date.parse('2024-02-29T23:59:00Z') // a Thursday
      clock.forward(start - clock.now())
      const spans = ['minute', 'hour', 'day', 'week', 'month', 'total'] as const
      await set(...spans.map((period) => rule({ period, limit: 1000 })))
      await limits.track(user(), use(5))
      const left = async (at: string) => {
        clock.forward(Date.parse(at) - clock.now())
        return (await current()).filter(([, amount]) => amount === 5).map(([period]) => period)
      }
      t.same(await left('2024-02-29T23:59:59.999Z'), spans)
      t.same(await left('2024-03-01T00:00:00.000Z'), ['week', 'total'])
      t.same(await left('2024-03-03T23:59:59.999Z'), ['week', 'total'])
      t.same(await left('2024-03-04T00:00:00.000Z'), ['total'])
      t.same(await left('2034-03-04T00:00:00.000Z'), ['total'])
      await limits.track(user(), use(1))
      t.same(await current(), [...spans.slice(0, -1).map((period) => [period, 1]), ['total', 6]])
    })

    await t.test('a clock that steps back does not block users', async (t) => {
      clock.forward(Date.parse('2026-06-02T00:00:10Z') - clock.now())
      await set(rule(), rule({ period: 'total', limit: 100 }))
      await limits.track(user(), use(7))
      clock.forward(-30_000)
      await t.rejects(
        limits.track(user(), use()),
        refusal('block', 7, 7),
        'by seconds, into the day before: counts on, as on two servers with different clocks'
      )
      t.same(await current(), [['day', 7], ['total', 7]])
      clock.forward(-365 * day)
      t.same(
        await limits.track(user(), use(2)),
        { allowed: true, gateAction: 'block', usage: { current: 2, limit: 7 } },
        'by a year: no user is blocked until then'
      )
      t.same(await current(), [['day', 2], ['total', 9]])
      clock.forward(365 * day + minute)
      t.same(await current(), [['day', 0], ['total', 9]])
    })

    await t.test('sums past 2^53 are rejected', async (t) => {
      await set(rule({ limit: -1 }), rule({ period: 'month', limit: 10, gateAction: 'upgrade' }))
      t.match(await limits.track(user(), use(most)), { allowed: false, usage: { current: most, limit: 10 } })
      await t.rejects(limits.track(user(), use()), {
        code: 'TENANTRY_VALIDATION_FAILED',
        extras: { details: [{ path: '/body/amount', message: `must not increase the usage beyond ${most}` }] }
      })
      t.same(await current(), [['day', most], ['month', most]])
      for (const amount of [0, -1, 1.5, NaN, Infinity, -0, 2 ** 53, 1e300]) {
        for (
          const call of [async () => {
            await limits.track(user(), use(amount))
          }, async () => {
            await limits.check(user(), use(amount))
          }, async () => {
            await limits.take(user(), use(amount))
          }]
        ) {
          await t.rejects(call, { code: 'TENANTRY_VALIDATION_FAILED' }, `${amount}`)
        }
      }
    })

    await t.test('a tenant counts a limited number of users; the error says how to free some, which works', async (t) => {
      await set(rule(), rule({ metric: 'calls' }))
      const results = await Promise.allSettled(Array.from({ length: 5 }, (_, index) => limits.track(user({ id: `u${index}` }), use())))
      t.ok(results.every(({ status }) => status === 'fulfilled'))
      t.same(await counters(), { counters: 5, rows: 5 })
      const full = {
        code: 'TENANTRY_CONFLICT',
        statusCode: 409,
        message: /maximum of 5 usage counters.*PUT \/tenant\/limits\/resources\) without the rules of a resource and metric, which deletes/
      }
      await t.rejects(limits.track(user({ id: 'u5' }), use()), full)
      await t.rejects(async () => limits.take(user({ id: 'u0' }), { ...use(), metric: 'calls' }), full)
      t.match(await limits.track(user({ id: 'u0' }), use()), { usage: { current: 2 } }, 'users already counted continue')
      t.match(await limits.check(user({ id: 'u5' }), use()), { allowed: true })
      await limits.replace('globex', [rule()])
      t.match(await limits.track(user({ tenant: 'globex', id: 'u5' }), use()), { usage: { current: 1 } }, 'so does another tenant')

      await limits.replace('acme', [rule({ metric: 'calls' })])
      t.same(await counters(), { counters: 0, rows: 0 }, 'counts without a rule are removed')
      t.match(await limits.track(user({ id: 'u5' }), { ...use(), metric: 'calls' }), { usage: { current: 1 } })

      await set(rule({ period: 'total' }))
      for (let index = 0; index < 5; index++) await limits.track(user({ id: `u${index}` }), use())
      await sweepUsage(db, new Date(clock.now() + 1000 * day))
      await t.rejects(limits.track(user({ id: 'u5' }), use()), full, 'counts of a total do not end')
      await set()
      await set(rule({ period: 'total' }))
      t.match(await limits.track(user({ id: 'u5' }), use()), { usage: { current: 1 } }, 'until the limit is saved without it, and again')
    })

    await t.test('ended counts are swept', async (t) => {
      await set(rule(), rule({ metric: 'calls', period: 'total' }), rule({ metric: 'runs', period: 'month' }))
      for (const metric of ['tokens', 'calls', 'runs']) await limits.track(user(), { ...use(), metric })
      const at = (ms: number) => new Date(clock.now() + ms)
      t.equal(await sweepUsage(db, at(day)), true)
      t.same(await counters(), { counters: 3, rows: 3 }, 'not within a day after their end')
      await sweepUsage(db, at(2 * day))
      t.same(await counters(), { counters: 2, rows: 2 })
      await sweepUsage(db, at(3650 * day))
      t.same(await counters(), { counters: 1, rows: 1 }, 'a total is never swept')
      await limits.replace('acme', [rule({ metric: 'calls', period: 'hour' })])
      t.same(await limits.usage(user()), [{
        resource: 'llm',
        metric: 'calls',
        period: 'hour',
        current: 0,
        limit: 7,
        percentage: 0,
        scope: 'user'
      }])
      await sweepUsage(db, at(40 * day))
      t.same(await counters(), { counters: 0, rows: 0 }, 'unless no rule counts it any longer')
      clock.forward(hour)
    })

    await t.test('a user id that is too long for an index is accepted', async (t) => {
      await set(rule())
      const ids = ['x'.repeat(5000), `${'x'.repeat(4999)}y`, 'nul\0', '\ud800', '\udbff', 'ünïcödé']
      await limits.replace('acme', [rule({ metric: 'a' }), rule()])
      for (const id of ids.slice(0, 5)) t.match(await limits.track(user({ id }), use(3)), { usage: { current: 3 } })
      for (const id of ids.slice(0, 5)) t.match(await limits.usage(user({ id })), [{ current: 0 }, { current: 3 }], 'it has its own count')
    })

    await t.test("a deleted tenant's rules and counts are deleted", async (t) => {
      await t.rejects(limits.replace('nobody', [rule()]), { code: 'TENANTRY_TENANT_UNKNOWN' })
      await set(rule())
      const taken = await limits.take(user(), use())
      await app.tenants.delete('acme')
      await taken.give()
      t.same(await limits.rules('acme'), [])
      const { rows } = await sql`select from tenantry.resource_usage where tenant_id = 'acme'`.execute(db)
      t.equal(rows.length, 0)
      await app.tenants.create({ id: 'acme', name: 'acme' })
      t.match(await limits.track(user(), use()), { usage: { limit: -1 } }, 'a new one with its id inherits no rule')
      await limits.replace('acme', [rule()])
      t.match(await limits.track(user(), use()), { usage: { current: 1, limit: 7 } }, 'and no usage')
    })
  }))
