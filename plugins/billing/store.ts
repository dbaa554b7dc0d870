/** The SQL of tenants' billing states. Times come from the caller, so that one clock decides. */
import { type Kysely, type Selectable, sql } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { clockTolerance } from '../../lib/time/spans.js'
import { cycles, type ProviderName, providerNames, type Snapshot, statuses } from './providers/provider.js'
import type { Memory, TenantSubscription } from './resolve-plan.js'

/** On the database, or in one transaction of it. */
type Db = Kysely<SystemTables>
type Subscription = SystemTables['tenantry.billing_subscriptions']

/** The most ended subscriptions that a tenant keeps: as many as a provider returns. */
const maxEnded = 100

/** The billing state of a tenant. */
export interface BillingState {
  readonly plan: string
  readonly createdAt: Date
  /** The last deletion of a tenant with the id; null without one. */
  readonly deletedAt: Date | null
  readonly memory: Memory
  /** The time of the next evaluation, in ms since 1970; Infinity: at the next event. */
  readonly dueAt: number
  readonly held: readonly TenantSubscription[]
}

/**
 * null for an unknown tenant, or one that is being deleted. Calls to the provider that are later than `now`, in ms since 1970, come from a
 * wrong clock and do not count.
 */
export async function readState (db: Db, tenant: Owner, now: number): Promise<BillingState | null> {
  const row = await db.selectFrom('tenantry.tenants as t')
    .leftJoin('tenantry.billing_tenants as b', 'b.tenant_id', 't.id')
    .leftJoin('tenantry.deleted_tenants as d', 'd.id', 't.id')
    .select([
      't.plan', 't.created_at as createdAt', 'd.deleted_at as deletedAt', 'b.plan as given', 'b.due_at as dueAt',
      'b.pulled_at as pulledAt', 'b.tried_at as triedAt'
    ])
    .where('t.id', '=', tenant).where('t.status', '<>', 'deleting').executeTakeFirst()
  if (row === undefined) return null
  const rows = await db.selectFrom('tenantry.billing_subscriptions').selectAll().where('tenant_id', '=', tenant).execute()
  const { plan, createdAt, deletedAt, given, dueAt, pulledAt, triedAt } = row
  const past = (time: Date | null) => time === null || time.getTime() > now + clockTolerance ? null : time.getTime()
  return {
    plan,
    createdAt,
    deletedAt,
    memory: { given, pulledAt: past(pulledAt), triedAt: past(triedAt), since: createdAt.getTime() },
    dueAt: dueAt?.getTime() ?? Infinity,
    held: rows.flatMap(heldOf)
  }
}

export async function writeSubscription (
  db: Db,
  tenant: Owner,
  { provider, id, snapshot, methodAsOf, unsure, askedAt, plan, cycle }: TenantSubscription
): Promise<void> {
  const row = {
    as_of: snapshot?.asOf ?? null,
    customer_id: snapshot?.customerId ?? null,
    product_ids: [...snapshot?.productIds ?? []],
    plan,
    cycle,
    status: snapshot?.status ?? null,
    started_at: snapshot?.startedAt ?? null,
    period_start: snapshot?.periodStart ?? null,
    period_end: snapshot?.periodEnd ?? null,
    cancel_at_period_end: snapshot?.cancelAtPeriodEnd ?? false,
    ended_at: snapshot?.endedAt ?? null,
    past_due_since: snapshot?.pastDueSince ?? null,
    payment_method: snapshot?.paymentMethod ?? null,
    payment_method_as_of: methodAsOf,
    unsure,
    asked_at: askedAt
  }
  await db.insertInto('tenantry.billing_subscriptions').values({ tenant_id: tenant, provider, id, ...row })
    .onConflict((conflict) => conflict.columns(['tenant_id', 'provider', 'id']).doUpdateSet(row)).execute()
}

export async function removeSubscription (db: Db, tenant: Owner, { provider, id }: TenantSubscription): Promise<void> {
  await db.deleteFrom('tenantry.billing_subscriptions').where('tenant_id', '=', tenant).where('provider', '=', provider)
    .where('id', '=', id).execute()
}

/** Removes the oldest ended subscriptions beyond the bound. */
export async function removeOldest (db: Db, tenant: Owner): Promise<void> {
  await sql`delete from tenantry.billing_subscriptions where tenant_id = ${tenant} and (provider, id) in (
    select provider, id from tenantry.billing_subscriptions where tenant_id = ${tenant} and (status is null or status in ('canceled', 'incomplete', 'unpaid'))
    order by started_at desc nulls last, provider, id offset ${maxEnded})`.execute(db)
}

/** @param dueAt in ms since 1970; Infinity: never */
export async function writeMemory (db: Db, tenant: Owner, { given, pulledAt, triedAt }: Memory, dueAt: number): Promise<void> {
  const date = (time: number | null) => time === null || time === Infinity ? null : new Date(time)
  const row = { plan: given, due_at: date(dueAt), pulled_at: date(pulledAt), tried_at: date(triedAt) }
  // Without a state, any earlier row is removed.
  if (Object.values(row).every((value) => value === null)) {
    await db.deleteFrom('tenantry.billing_tenants').where('tenant_id', '=', tenant).execute()
    return
  }
  await db.insertInto('tenantry.billing_tenants').values({ tenant_id: tenant, ...row })
    .onConflict((conflict) => conflict.column('tenant_id').doUpdateSet(row)).execute()
}

export async function writePlan (db: Db, tenant: Owner, plan: string): Promise<void> {
  await db.updateTable('tenantry.tenants').set({ plan, updated_at: sql`now()` }).where('id', '=', tenant).execute()
}

/** Records an event as handled; false if its id was handled before. */
export async function noteEvent (db: Db, tenant: Owner, provider: ProviderName, id: string, at: Date): Promise<boolean> {
  const row = await db.insertInto('tenantry.billing_events').values({ tenant_id: tenant, provider, id, received_at: at })
    .onConflict((conflict) => conflict.columns(['provider', 'id']).doNothing()).returning('id').executeTakeFirst()
  return row !== undefined
}

/** The tenant of a subscription, else of a customer; null if both are unknown, or several tenants share the customer. */
export async function ownerOf (
  db: Db,
  provider: ProviderName,
  subscriptionId: string | null,
  customerId: string | null
): Promise<Owner | null> {
  const subscriptions = db.selectFrom('tenantry.billing_subscriptions').select('tenant_id').where('provider', '=', provider)
  const owner = subscriptionId === null
    ? undefined
    : await subscriptions.where('id', '=', subscriptionId).orderBy(sql`as_of desc nulls last, status = 'canceled'`).orderBy('tenant_id')
      .limit(1).executeTakeFirst()
  if (owner !== undefined || customerId === null) return owner === undefined ? null : tenantRef(owner.tenant_id)
  const [first, second] = await subscriptions.where('customer_id', '=', customerId).distinct().limit(2).execute()
  return first === undefined || second !== undefined ? null : tenantRef(first.tenant_id)
}

/** The subscriptions that now belong to another tenant, which has a later state of them. */
export async function movedOf (db: Db, held: readonly Pick<TenantSubscription, 'provider' | 'id'>[]) {
  if (held.length === 0) return []
  const { rows } = await sql<{ tenant: Owner, provider: ProviderName, id: string, since: Date }>`select tenant_id as tenant, provider, id, since from (
      select tenant_id, provider, id, status, as_of, max(as_of) over (partition by provider, id) as since from tenantry.billing_subscriptions
      where (provider, id) in (select * from unnest(${held.map(({ provider }) => provider)}::text[], ${held.map(({ id }) => id)}::text[]))
    ) reported where as_of < since and status <> 'canceled'`.execute(db)
  return rows
}

/** Claims up to `limit` due tenants, the longest due first. Other servers can claim them again from `until` on. */
export async function takeDue (db: Db, at: Date, until: Date, limit: number): Promise<string[]> {
  const { rows } = await sql<{ tenant: Owner }>`update tenantry.billing_tenants b set due_at = ${until} from (
      select tenant_id from tenantry.billing_tenants where due_at <= ${at} order by due_at, tenant_id limit ${limit} for no key update skip locked
    ) due where b.tenant_id = due.tenant_id returning b.tenant_id as tenant`.execute(db)
  return rows.map(({ tenant }) => tenant)
}

function heldOf (row: Selectable<Subscription>): TenantSubscription[] {
  const { id, plan, unsure, asked_at: askedAt, payment_method_as_of: methodAsOf } = row
  const provider = providerNames.find((one) => one === row.provider)
  const cycle = cycles.find((one) => one === row.cycle) ?? null
  // A provider of a later version of the server.
  return provider === undefined ? [] : [{ provider, id, plan, cycle, snapshot: snapshotOf(row), methodAsOf, unsure, askedAt }]
}

function snapshotOf (row: Selectable<Subscription>): Snapshot | null {
  const { as_of: asOf, customer_id: customerId, started_at: startedAt, period_start: periodStart, period_end: periodEnd } = row
  const status = statuses.find((one) => one === row.status)
  if (
    asOf === null || customerId === null || startedAt === null || periodStart === null || periodEnd === null || status === undefined
  ) { return null }
  return {
    id: row.id,
    tenant: tenantRef(row.tenant_id),
    customerId,
    productIds: row.product_ids,
    status,
    startedAt,
    periodStart,
    periodEnd,
    cancelAtPeriodEnd: row.cancel_at_period_end,
    endedAt: row.ended_at,
    pastDueSince: row.past_due_since,
    paymentMethod: row.payment_method,
    asOf
  }
}
