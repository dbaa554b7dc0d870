/** `app.billing` on a database, with only the plugin tenancy, and a provider of the test. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { Test } from 'tap'
import { builtInPlans, type Plans } from '../../../lib/plans/plans.js'
import type { PaymentProvider, ProviderName, Snapshot } from '../../../plugins/billing/providers/provider.js'
import { type Billing, createBilling } from '../../../plugins/billing/service.js'
import type { ProductMap } from '../../../plugins/billing/settings.js'
import { testApp, type TestEngine } from '../../helpers/app.js'
import { type FakeClock, fakeClock } from '../../helpers/clock.js'
import { at, productPlans } from './month.js'

/** The provider's responses, and the received calls. */
export interface FakeProvider extends PaymentProvider {
  readonly calls: { tenant: string, customers: readonly string[] | undefined }[]
  respond: (tenant: string) => Promise<Snapshot[]>
}

/** It knows only the result of `respond`: nothing, unless a test sets it. */
export function fakeProvider (name: ProviderName = 'payprov'): FakeProvider {
  const refuse = async () => {
    throw new Error('not part of this test')
  }
  const provider: FakeProvider = {
    name,
    calls: [],
    respond: async () => [],
    async subscriptions (tenant, customers) {
      provider.calls.push({ tenant, customers })
      return await provider.respond(tenant)
    },
    checkout: refuse,
    changeProduct: refuse,
    cancel: refuse,
    resume: refuse,
    readWebhook: () => null
  }
  return provider
}

export interface Opened {
  readonly app: FastifyInstance
  readonly billing: Billing
  readonly clock: FakeClock
  readonly provider: FakeProvider
  /** Log lines at `warn` and above. */
  readonly warnings: Record<string, unknown>[]
}

export interface OpenOptions {
  /** Default: a new PostgreSQL database. */
  readonly engine?: TestEngine
  /** With their plans, which they have had since before the month of these tests. */
  readonly tenants?: Readonly<Record<string, string>>
  readonly clock?: FakeClock
  readonly provider?: FakeProvider | null
  /** Default: the provider. */
  readonly providers?: readonly FakeProvider[]
  /** Default: the built-in plans. */
  readonly plans?: Plans
  /** Default: the products of a month. */
  readonly saleOf?: ProductMap['saleOf']
}

/** The database must be empty. */
export async function open (
  t: Test,
  {
    engine,
    tenants = {},
    clock = fakeClock(at(29).getTime()),
    provider = fakeProvider(),
    providers = provider === null ? [] : [provider],
    plans = builtInPlans,
    saleOf = productPlans
  }: OpenOptions = {}
): Promise<Opened> {
  const warnings: Record<string, unknown>[] = []
  const onLog = (line: string) => {
    const entry = JSON.parse(line)
    if (entry.level >= 40) warnings.push(entry)
  }
  const { app } = await testApp(t, { engine, plugins: { tenancy: {} }, onLog })
  for (const [id, plan] of Object.entries(tenants)) await addTenant(app, id, plan)
  const { db, events, log } = app
  const billing = createBilling({
    db,
    engine: app.engine,
    events,
    plans,
    provider,
    providers: new Map(providers.map((one) => [one.name, one])),
    products: { saleOf },
    now: clock.now,
    emitter: () => null,
    log
  })
  return { app, billing, clock, provider: provider ?? fakeProvider(), warnings }
}

export async function addTenant (app: FastifyInstance, id: string, plan = 'free'): Promise<void> {
  await app.tenants.create({ id, name: id, plan })
  await sql`update tenantry.tenants set created_at = ${at(-1)} where id = ${id}`.execute(app.db)
}

/** Everything that billing stores for a tenant, except the ids of events; and its plan. */
export async function rowsOf (app: FastifyInstance, tenant: string): Promise<unknown> {
  const { db } = app
  return JSON.parse(JSON.stringify({
    tenant: await db.selectFrom('tenantry.tenants').select(['plan', 'status']).where('id', '=', tenant).execute(),
    memory: await db.selectFrom('tenantry.billing_tenants').selectAll().where('tenant_id', '=', tenant).execute(),
    subscriptions: await db.selectFrom('tenantry.billing_subscriptions').selectAll().where('tenant_id', '=', tenant).orderBy('provider')
      .orderBy('id').execute(),
    unclaimed: await db.selectFrom('tenantry.billing_unclaimed').select(['provider', 'id']).where('tenant', '=', tenant).execute()
  }))
}

/** The audit log of billing, in order: `tenant action target`. */
export async function audited (app: FastifyInstance): Promise<string[]> {
  const { rows } = await sql<
    { line: string }
  >`select tenant_id || ' ' || action || ' ' || coalesce(target, '?') as line from tenantry.audit_log where action like 'billing.%' order by id`
    .execute(app.db)
  return rows.map(({ line }) => line)
}
