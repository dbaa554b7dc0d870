/** A recorded month, delivered in any order, twice, with some events missing followed by a sync: always with the same result. */
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import type { ProviderEvent } from '../../../plugins/billing/providers/provider.js'
import { type DatabaseSection, forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { seededRandom } from '../../helpers/random.js'
import { endOfMonth, recordedMonth, shuffled } from './month.js'
import { addTenant, audited, open, type Opened, rowsOf } from './tenants.js'

/** A tenant's rows with another tenant's id, so that they can be compared. */
function renamed (rows: unknown, tenant: string): unknown {
  return JSON.parse(JSON.stringify(rows).replaceAll(tenant, 'acme'))
}

async function deliver ({ billing }: Opened, events: readonly ProviderEvent[]): Promise<void> {
  for (const event of events) await billing.receive('payprov', event)
}

async function sameInAnyOrder (t: Test, engine: DatabaseSection, orders: number): Promise<void> {
  const opened = await open(t, { engine })
  const { app, billing, provider } = opened
  const months = new Map<string, ProviderEvent[]>()
  provider.respond = async (tenant) => endOfMonth(months.get(tenant) ?? [])
  const live = async (tenant: string, order: (month: ProviderEvent[]) => ProviderEvent[]) => {
    const month = recordedMonth(tenant)
    months.set(tenant, month)
    await addTenant(app, tenant)
    await deliver(opened, order(month))
  }
  const states = async (tenant: string) => renamed(await rowsOf(app, tenant), tenant)

  await live('t-order', (month) => month)
  const expected = await states('t-order')
  t.match(expected, {
    tenant: [{ plan: 'team' }],
    subscriptions: [{ status: 'canceled' }, { status: 'active', plan: 'team', cycle: 'yearly', payment_method: 'card' }],
    memory: [{ plan: 'team' }],
    unclaimed: { length: 0 }
  })
  for (let seed = 0; seed < orders; seed++) {
    const next = seededRandom(seed)
    await live(`t-${seed}`, (month) => shuffled([...month, ...month], next))
    const found = await states(`t-${seed}`)
    t.equal((await audited(app)).filter((line) => line.startsWith(`t-${seed} billing.payment`)).length, 5, 'each payment is audited once')
    if (JSON.stringify(found) !== JSON.stringify(expected)) {
      t.same(found, expected, `order ${seed}`)
      return
    }
  }

  await billing.sync('t-order')
  const synced = await states('t-order')
  for (let seed = 0; seed < orders; seed++) {
    const next = seededRandom(seed + 1000)
    await live(`m-${seed}`, (month) => shuffled([...month, ...month].filter(({ id }) => seededRandom(Number(id.slice(4)) + seed)() < 0.6), next))
    await billing.sync(`m-${seed}`)
    const found = await states(`m-${seed}`)
    if (JSON.stringify(found) !== JSON.stringify(synced)) {
      t.same(found, synced, `some missing, order ${seed}`)
      return
    }
  }
  t.same(await app.db.selectFrom('tenantry.billing_unclaimed').selectAll().execute(), [], 'nothing is left unprocessed')
}

test('a month in any order, twice, with some events missing and a sync, ends in the same rows', (t) =>
  forEachEngine(t, (t, engine) => sameInAnyOrder(t, engine, engine.provider === 'postgres' ? 8 : 2)))

test('concurrent deliveries to two servers end in the same rows', async (t) => {
  const engine = await postgresSection(t)
  const here = await open(t, { engine })
  const there = await open(t, { engine, clock: here.clock })
  const end = async (tenant: string, app: FastifyInstance) => renamed(await rowsOf(app, tenant), tenant)
  await addTenant(here.app, 'alone')
  await deliver(here, recordedMonth('alone'))
  const expected = await end('alone', here.app)
  for (let seed = 0; seed < 3; seed++) {
    const tenant = `both-${seed}`
    await addTenant(here.app, tenant)
    const month = recordedMonth(tenant)
    await Promise.all(
      [here, there].flatMap(({ billing }, index) =>
        shuffled(month, seededRandom(seed * 2 + index)).map((event) => billing.receive('payprov', event))
      )
    )
    // An event without a tenant may have been kept at the moment in which the other server learned its tenant.
    await here.billing.settleDue()
    t.equal((await audited(here.app)).filter((line) => line.startsWith(`${tenant} billing.payment`)).length, 5, 'each payment counts once')
    t.same(await end(tenant, there.app), expected)
  }
})
