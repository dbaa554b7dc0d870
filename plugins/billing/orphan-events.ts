/** Events of unknown tenants: the newest 10,000 are kept until their tenant exists. */
import { type Kysely, sql } from 'kysely'
import { keptText } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ProviderEvent, ProviderName, Snapshot } from './providers/provider.js'
import type { TenantSubscription } from './resolve-plan.js'

/** On the database, or in one transaction of it. */
type Db = Kysely<SystemTables>

export const maxOrphans = 10_000
const maxClaimed = 1000 // at a time

/** The members of an event and its snapshot that are times. */
const times: ReadonlySet<string> = new Set<keyof ProviderEvent | keyof Snapshot>([
  'at', 'startedAt', 'periodStart', 'periodEnd', 'endedAt', 'pastDueSince', 'asOf'
])

/** Stores it; false if an event with its id is stored already, or was handled: another server may have learned its tenant. */
export async function keepOrphan (db: Db, provider: ProviderName, event: ProviderEvent, tenant: Owner | null, at: Date): Promise<boolean> {
  const handled = await db.selectFrom('tenantry.billing_events').select('id').where('provider', '=', provider).where('id', '=', event.id)
    .executeTakeFirst()
  if (handled !== undefined) return false
  const row = await db.insertInto('tenantry.billing_unclaimed')
    .values({
      provider,
      id: event.id,
      tenant: tenant === null ? null : keptText(tenant),
      subscription_id: event.subscriptionId ?? event.snapshot?.id ?? null,
      customer_id: customerOf(event),
      event: JSON.stringify(event),
      received_at: at
    })
    .onConflict((conflict) => conflict.doNothing()).returning('id').executeTakeFirst()
  if (row === undefined) return false
  await sql`delete from tenantry.billing_unclaimed where place <= (select place from tenantry.billing_unclaimed order by place desc offset ${maxOrphans} limit 1)`
    .execute(db)
  return true
}

/**
 * Takes the events that name the tenant, or that name no tenant but one of its subscriptions or a customer of no other tenant. In the order
 * of their arrival; at most a thousand.
 */
export async function takeOrphans (db: Db, tenant: Owner, held: readonly TenantSubscription[]) {
  const providers = held.map(({ provider }) => provider)
  const subscriptions = sql`(u.provider, u.subscription_id) in (select * from unnest(${providers}::text[], ${held.map(({ id }) => id)}::text[]))`
  const customers = sql`(u.provider, u.customer_id) in (select * from unnest(${providers}::text[], ${
    held.map(({ snapshot }) => snapshot?.customerId ?? null)
  }::text[]))
    and not exists (select from tenantry.billing_subscriptions s where s.provider = u.provider and s.customer_id = u.customer_id and s.tenant_id <> ${tenant})`
  const { rows } = await sql<
    { provider: ProviderName, place: string, event: string }
  >`delete from tenantry.billing_unclaimed where (provider, id) in (
      select u.provider, u.id from tenantry.billing_unclaimed u
      where u.tenant = ${tenant} or (u.tenant is null and (${subscriptions} or (${customers}))) order by u.place limit ${maxClaimed}
    ) returning provider, place, event::text`.execute(db)
  return rows.sort((one, other) => Number(one.place) - Number(other.place)).map(({ provider, event }) => ({
    provider,
    event: eventOf(event)
  }))
}

/** Existing tenants with stored events. An id that a deleted tenant had needs a state of the subscription. */
export async function claimants (db: Db, limit: number): Promise<string[]> {
  const { rows } = await sql<{ tenant: Owner }>`select t.id as tenant from tenantry.billing_unclaimed u
      join tenantry.tenants t on t.id = u.tenant where t.status <> 'deleting'
    union select s.tenant_id from tenantry.billing_unclaimed u
      join tenantry.billing_subscriptions s on s.provider = u.provider and s.id = u.subscription_id
      where u.tenant is null and (s.as_of is not null or not exists (select from tenantry.deleted_tenants d where d.id = s.tenant_id))
    union select min(s.tenant_id) from tenantry.billing_unclaimed u join tenantry.billing_subscriptions s on s.provider = u.provider and s.customer_id = u.customer_id
      where u.tenant is null group by u.provider, u.id having count(distinct s.tenant_id) = 1
    limit ${limit}`.execute(db)
  return rows.map(({ tenant }) => tenant)
}

export function customerOf ({ customerId, snapshot }: ProviderEvent): string | null {
  return customerId ?? snapshot?.customerId ?? null
}

function eventOf (text: string): ProviderEvent {
  return JSON.parse(text, (member, value: unknown) => typeof value === 'string' && times.has(member) ? new Date(value) : value)
}
