/** The pure functions of billing: merging snapshots of a subscription, its entitlement, and the choice of the current one. */
import { test } from 'tap'
import type { Snapshot } from '../../../plugins/billing/providers/provider.js'
import { entitlement, graceMs, type Memory, resolvePlan, type TenantSubscription } from '../../../plugins/billing/resolve-plan.js'
import { confirmed, type Known, knownOf, knownSince, merged } from '../../../plugins/billing/snapshots.js'
import { seededRandom } from '../../helpers/random.js'
import { at, day, endOfMonth, productPlans, products, recordedMonth, shuffled, snapshotOf, start } from './month.js'

const tiers = ['free', 'pro', 'team', 'scale', 'enterprise']
const nothing: Memory = { given: null, pulledAt: null, triedAt: null, since: start - day }

/** Merges all snapshots, from the left or in any other grouping. */
const fold = (parts: readonly Known[]): Known => parts.reduce(merged)

function foldAnyhow (parts: readonly Known[], next: () => number): Known {
  if (parts.length < 2) return fold(parts)
  const middle = 1 + Math.floor(next() * (parts.length - 1))
  return merged(foldAnyhow(parts.slice(0, middle), next), foldAnyhow(parts.slice(middle), next))
}

test('a month merges to the same state in any order, twice, and in any grouping', async (t) => {
  const month = recordedMonth()
  for (const { id, asOf } of endOfMonth(month)) {
    const own = month.filter(({ subscriptionId }) => subscriptionId === id)
    const parts = own.map(({ snapshot, at }) => snapshot === null ? knownSince(at) : knownOf(snapshot))
    const expected = fold(parts)
    t.same(expected.snapshot?.asOf, asOf)
    for (let seed = 0; seed < 300; seed++) {
      const next = seededRandom(seed)
      const found = foldAnyhow(shuffled([...parts, ...parts], next), next)
      if (JSON.stringify(found) !== JSON.stringify(expected)) return t.same(found, expected, `seed ${seed}`)
    }
  }
  t.equal(
    fold(month.flatMap(({ snapshot }) => snapshot === null ? [] : [knownOf(snapshot)]).slice(-2)).snapshot?.status,
    'active',
    'within one second, incomplete comes first'
  )
})

test('states of the same moment merge to the same result in any order', async (t) => {
  const seen = { unsure: 0, sure: 0 }
  for (let seed = 0; seed < 500; seed++) {
    const next = seededRandom(seed)
    const oneOf = <Item>(...items: [Item, ...Item[]]): Item => items[Math.floor(next() * items.length)] ?? items[0]
    const parts = Array.from({ length: 2 + Math.floor(next() * 6) }, () => {
      const status = oneOf('active', 'active', 'incomplete', 'past_due', 'canceled')
      const snapshot = snapshotOf({
        status,
        asOf: at(oneOf(1, 2)),
        endedAt: status === 'canceled' ? at(oneOf(1, 1, 2)) : null,
        paymentMethod: oneOf(null, 'card', 'sepa'),
        cancelAtPeriodEnd: oneOf(true, false),
        periodEnd: at(oneOf(30, 60)),
        productIds: shuffled(['a', 'b'], next)
      })
      return next() < 0.1 ? knownSince(at(oneOf(1, 2))) : knownOf(snapshot)
    })
    const expected = fold(parts)
    expected.unsure ? seen.unsure++ : seen.sure++
    for (let order = 0; order < 10; order++) {
      const found = foldAnyhow(shuffled([...parts, ...parts], next), next)
      if (JSON.stringify(found) !== JSON.stringify(expected)) return t.same(found, expected, `seed ${seed}`)
    }
  }
  t.ok(seen.unsure > 50 && seen.sure > 50, JSON.stringify(seen))
})

test('at equal timestamps, "ended" wins, "incomplete" loses, and any other difference causes a request', async (t) => {
  const [active, incomplete, ended, late] = [
    snapshotOf(),
    snapshotOf({ status: 'incomplete' }),
    snapshotOf({ status: 'canceled', endedAt: at(0) }),
    snapshotOf({ status: 'past_due', pastDueSince: at(0) })
  ].map(knownOf)
  if (active === undefined || incomplete === undefined || ended === undefined || late === undefined) throw new Error('four')
  t.match(merged(active, incomplete), { snapshot: { status: 'active' }, unsure: false })
  t.match(merged(active, ended), { snapshot: { status: 'canceled' }, unsure: false })
  const unsure = merged(active, late)
  t.equal(unsure.unsure, true)
  t.match(merged(unsure, ended), { snapshot: { status: 'canceled' }, unsure: false })
  t.equal(merged(unsure, knownOf(snapshotOf({ asOf: at(0, 1) }))).unsure, false, 'a later snapshot settles it')
  for (const answer of [active, late]) {
    t.match(confirmed(unsure, answer), { snapshot: { status: answer.snapshot?.status }, unsure: false }, 'so does the provider')
  }
  t.match(
    confirmed(unsure, knownOf(snapshotOf({ asOf: at(-1), status: 'trialing' }))),
    { unsure: true },
    'unless it returned the older state'
  )
  t.match(
    confirmed(active, late),
    { snapshot: { status: 'past_due' }, unsure: true },
    'the response may be older than the event of that moment'
  )
  t.match(confirmed(confirmed(active, late), late), { snapshot: { status: 'past_due' }, unsure: false })
})

test('the last known payment method stays if a later snapshot has none', async (t) => {
  const parts = [
    snapshotOf({ paymentMethod: 'sepa' }),
    snapshotOf({ asOf: at(1), paymentMethod: 'card' }),
    snapshotOf({ asOf: at(2), paymentMethod: null })
  ].map(knownOf)
  for (let seed = 0; seed < 20; seed++) {
    t.match(foldAnyhow(shuffled(parts, seededRandom(seed)), seededRandom(seed)), { snapshot: { asOf: at(2).toISOString(), paymentMethod: 'card' } })
  }
})

test("a subscription's status and period decide its entitlement", async (t) => {
  const cases: [name: string, snapshot: Partial<Snapshot>, day: number, entitled: boolean, overdue?: boolean][] = [
    ['active, in its period', {}, 29, true],
    ['trialing', { status: 'trialing', periodEnd: at(14) }, 13, true],
    ['active, at the end of its period', {}, 30, true, true],
    ['active, seven days later', {}, 37, false],
    ['a trial without an end event', { status: 'trialing', periodEnd: at(14) }, 15, true, true],
    ['cancelled at the end of its period, before', { cancelAtPeriodEnd: true }, 29.9, true],
    ['cancelled at the end of its period, then', { cancelAtPeriodEnd: true }, 30, false],
    ['past due, for six days', { status: 'past_due', pastDueSince: at(2) }, 8, true],
    ['past due, for seven days', { status: 'past_due', pastDueSince: at(2) }, 9, false],
    ['past due since its period began', { status: 'past_due', periodStart: at(1) }, 7.9, true],
    ['past due since its period began, for seven days', { status: 'past_due', periodStart: at(1) }, 8, false],
    ['ended before its period', { status: 'canceled', endedAt: at(5) }, 5, false],
    ['will end in the future', { status: 'canceled', endedAt: at(5) }, 4.9, true],
    ['canceled, within its period', { status: 'canceled' }, 29, true],
    ['canceled, after its period', { status: 'canceled' }, 30, false],
    ['active, despite an end', { endedAt: at(5) }, 6, false],
    ['past due, despite an end', { status: 'past_due', pastDueSince: at(4), endedAt: at(5) }, 5, false],
    ['unpaid, with a future end', { status: 'unpaid', endedAt: at(5) }, 1, false],
    ['unpaid', { status: 'unpaid' }, 1, false],
    ['incomplete', { status: 'incomplete' }, 1, false]
  ]
  for (const [name, changes, days, entitled, overdue = false] of cases) {
    const snapshot = snapshotOf(changes)
    const now = at(days).getTime()
    const found = entitlement(snapshot, now)
    t.match(found, { entitled, overdue }, name)
    t.ok(found.changesAt > now, `${name}: before the change`)
    if (found.changesAt < Infinity) {
      const { entitled, overdue } = entitlement(snapshot, found.changesAt)
      t.notSame([entitled, overdue], [found.entitled, found.overdue], `${name}: after the change`)
      const before = entitlement(snapshot, found.changesAt - 1)
      t.same([before.entitled, before.overdue], [found.entitled, found.overdue], `${name}: just before it`)
    }
    t.ok(found.changedAt === null || found.changedAt <= now, name)
  }
  t.equal(graceMs, 7 * day)
})

function held (changes: Partial<Snapshot>, rest: Partial<TenantSubscription> = {}): TenantSubscription {
  const known = knownOf(snapshotOf(changes))
  const { plan, cycle } = productPlans(known.snapshot?.productIds ?? []) ?? { plan: null, cycle: null }
  return { ...known, provider: 'payprov', id: known.snapshot?.id ?? '', plan, cycle, ...rest }
}

const never = () => false
const always = () => true

test('the current subscription is the one with the highest entitled plan; for equal plans the one that began last', async (t) => {
  const all = [
    held({ id: 'a' }),
    held({ id: 'b', startedAt: at(1), asOf: at(1) }),
    held({ id: 'c', status: 'canceled', endedAt: at(2), productIds: [products.team_yearly] }),
    held({ id: 'd', status: 'incomplete', productIds: [products.team_yearly] }),
    held({ id: 'e', productIds: ['unknown'] }),
    held({ id: 'f' }, { plan: 'gone' })
  ]
  for (let seed = 0; seed < 20; seed++) {
    t.match(resolvePlan(shuffled(all, seededRandom(seed)), nothing, tiers, never, at(5).getTime()), {
      current: { id: 'b' },
      shown: { id: 'b' },
      given: 'pro',
      asks: false
    })
  }
  t.match(resolvePlan([...all, held({ id: 'g', productIds: [products.team_monthly] })], nothing, tiers, never, at(5).getTime()), {
    current: { id: 'g' },
    given: 'team'
  })
  t.match(resolvePlan([...all, held({ id: 'g', productIds: [products.team_monthly] })], nothing, tiers, never, at(30, 1).getTime()), {
    current: { id: 'g' }
  }, 'overdue, within its grace period')
})

test('a plan that the document lacks stays until its subscription ends, and counts below the known ones', async (t) => {
  const now = at(5).getTime()
  const [gone, older] = [held({ id: 'a', startedAt: at(1) }, { plan: 'gone' }), held({ id: 'b' }, { plan: 'older' })]
  for (const given of [null, 'free', 'pro', 'gone']) {
    t.match(resolvePlan([gone], { ...nothing, given }, tiers, never, now), { current: { id: 'a' }, given: 'gone' }, String(given))
  }
  t.match(resolvePlan([gone, older], nothing, tiers, never, now), { given: 'gone' }, 'the one that began last')
  t.match(resolvePlan([gone, older], { ...nothing, given: 'older' }, tiers, never, now), { given: 'older' }, 'or the one that counts')
  t.match(resolvePlan([gone, held({ id: 'c' })], { ...nothing, given: 'gone' }, tiers, never, now), { current: { id: 'c' }, given: 'pro' })
  const ended = held({ id: 'a', status: 'canceled', endedAt: at(2) }, { plan: 'gone' })
  t.match(resolvePlan([ended], { ...nothing, given: 'gone' }, tiers, never, now), { current: null, given: 'free' })
})

test('the end of the last subscription leaves free, and a tenant without any keeps its plan', async (t) => {
  const now = at(50).getTime()
  t.match(resolvePlan([], nothing, tiers, never, now), { current: null, shown: null, given: null, dueAt: Infinity })
  t.match(resolvePlan([held({ status: 'incomplete' })], nothing, tiers, never, now), { given: null, shown: { id: 'sub_1' } })
  t.match(resolvePlan([held({ status: 'canceled', endedAt: at(3) })], nothing, tiers, never, now), { given: 'free', shown: { id: 'sub_1' } })
  t.match(
    resolvePlan([held({ status: 'canceled', endedAt: at(3) })], { ...nothing, since: at(4).getTime() }, tiers, never, now),
    { given: null },
    'it ended before the tenant existed'
  )
  t.match(resolvePlan([], { ...nothing, given: 'pro' }, tiers, never, now), { given: 'free' })
})

test('a tenant is evaluated again when time changes its state, and the provider is queried if it may know more', async (t) => {
  const judged = (one: TenantSubscription, days: number, memory: Partial<Memory> = {}, canAsk = always) => {
    const { dueAt, asks } = resolvePlan([one], { ...nothing, ...memory }, tiers, canAsk, at(days).getTime())
    return [(dueAt - start) / day, asks]
  }
  const hour = 1 / 24
  t.same(judged(held({}), 5), [30, false])
  t.same(judged(held({}), 31), [31, true], 'overdue: at once')
  t.same(judged(held({}), 31, { pulledAt: at(31).getTime(), triedAt: at(31).getTime() }), [31 + hour, true], 'and every hour')
  t.same(judged(held({}), 31, { pulledAt: null, triedAt: at(31).getTime() }), [31 + hour / 12, true], 'or sooner, if the provider did not respond')
  t.same(judged(held({}), 31, {}, never), [37, false])
  t.same(judged(held({}), 38), [38, true], 'before the plan is withdrawn')
  t.same(judged(held({}), 38, { pulledAt: at(37.5).getTime(), triedAt: at(37.5).getTime() }), [Infinity, false])
  t.same(judged(held({ cancelAtPeriodEnd: true }), 31), [31, true])
  t.same(judged(held({ status: 'past_due', pastDueSince: at(1) }), 5), [8, false])
  t.same(judged(held({ status: 'canceled', endedAt: at(2) }), 5), [Infinity, false])
  t.same(judged(held({}, { unsure: true }), 5), [5, true])
  t.same(judged(held({}, { snapshot: null, askedAt: at(3) }), 5), [5, true], 'a payment of an unknown subscription')
  t.same(judged(held({}, { snapshot: null }), 5), [Infinity, false], 'the provider does not know it either')
  t.same(judged(held({}, { askedAt: at(3) }), 5), [30, false], 'a payment within the period is no news')
  t.same(judged(held({ status: 'incomplete' }, { askedAt: at(3) }), 5), [5, true], 'a payment of an unpaid subscription')
  t.same(judged(held({ status: 'incomplete', asOf: at(4) }, { askedAt: at(3) }), 5), [Infinity, false], 'unless it was already reported later')
})
