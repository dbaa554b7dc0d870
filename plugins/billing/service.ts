/** `app.billing`: the subscriptions of tenants. */
import { sql } from 'kysely'
import { noActor, writeAudit } from '../../lib/database/audit.js'
import type { Engine } from '../../lib/database/engine.js'
import { removal, sweep } from '../../lib/database/retention.js'
import { failure, isFailure } from '../../lib/errors.js'
import { isTenantId, type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import { type ChangeParts, createChange, type SettledTenant } from './change.js'
import { claimants, customerOf, keepOrphan } from './orphan-events.js'
import type { PaymentProvider, ProviderEvent, ProviderName, Snapshot, SubscriptionStatus } from './providers/provider.js'
import { entitlement, lowestPlan, type TenantSubscription } from './resolve-plan.js'
import type { Sale } from './settings.js'
import { heardEvent } from './snapshots.js'
import { type BillingState, movedOf, ownerOf, readState, takeDue } from './store.js'
import { type Outcome, unclaimedOf } from './subscription-changes.js'

/** A tenant's subscription. */
export interface Subscription {
  /** The current tier of the tenant, from any source. */
  readonly plan: string
  readonly status: SubscriptionStatus
  readonly startDate: Date
  readonly renewalDate: Date
  readonly currentPeriodEnd: Date
  readonly cancelAtPeriodEnd: boolean
  readonly paymentMethod: string
}

/** A subscription that entitles a tenant to its plan now. */
export interface InForce extends Sale {
  readonly snapshot: Snapshot
  readonly provider: ProviderName
}

export interface Billing {
  /**
   * Handles an event with a valid signature. When it resolves, the changes are committed; when it rejects nothing is, and the event may be
   * sent again.
   */
  receive(provider: ProviderName, event: ProviderEvent): Promise<Outcome>
  /** The current state: expired periods are settled first. `tenantUnknown` */
  subscription(tenant: string): Promise<Subscription>
  /**
   * The subscription with the highest plan now. Otherwise one whose payment is missing for so long that it no longer entitles, while the
   * provider still tries to collect; else null. `tenantUnknown`
   */
  inForce(tenant: string): Promise<InForce | null>
  /** Applies the provider's response. */
  record(provider: ProviderName, tenant: string, snapshots: readonly Snapshot[]): Promise<void>
  /** Asks the provider. `billingNotConfigured` without one, `tenantUnknown`, and the errors of its call. */
  sync(tenant: string): Promise<Subscription>
  /**
   * Settles changes by time for tenants without requests, and stored events whose tenant exists now: a hundred of them at most, each on one
   * server at a time, for less than a minute. Resolves with their number. Removes rows after 90 days.
   */
  settleDue(signal?: AbortSignal): Promise<number>
}

export interface BillingParts extends ChangeParts {
  readonly engine: Pick<Engine, 'kyselyFor'>
  /** The provider for sales; null without one. */
  readonly provider: PaymentProvider | null
}

const readPause = 60_000 // ms between two calls to the provider by reads of a tenant's subscription
const due = { batch: 100, atOnce: 4, runMs: 45_000, againMs: 300_000 } // of a run of the scheduler
const keptFor = 7_776_000_000 // ms, 90 days: providers repeat an event for a few days
const maxCustomers = 10 // ids in one request to a provider

export function createBilling (parts: BillingParts): Billing {
  const { db, engine, provider, providers, now, log } = parts
  const { change, judged } = createChange(parts)
  const pulls = new Map<string, Promise<SettledTenant>>()

  async function settle (tenant: Owner): Promise<SettledTenant> {
    return await alone(tenant, present(await change(tenant, async () => {})))
  }

  /** Each subscription belongs to the tenant that had it last: others may have taken over some of the tenant's. */
  async function alone (tenant: Owner, settled: SettledTenant): Promise<SettledTenant> {
    const moved = await movedOf(db, settled.state.held)
    for (const { tenant: other, provider, id, since } of moved) await change(other, async ({ leave }) => leave(provider, id, since))
    return moved.some((one) => one.tenant === tenant) ? present(await change(tenant, async () => {})) : settled
  }

  /** Asks the current provider, and former ones with subscriptions that may change; each response is applied even if another call fails. */
  async function pull (tenant: Owner): Promise<SettledTenant> {
    const state = await readState(engine.kyselyFor(tenant), tenant, now())
    if (state === null) throw failure('tenantUnknown')
    const startedAt = now()
    const asked = [...providers.values()].filter(({ name }) =>
      name === provider?.name || state.held.some((held) => held.provider === name && mayChange(held))
    )
    const results = await Promise.allSettled(
      asked.map(async (one) => ({ name: one.name, snapshots: await one.subscriptions(tenant, customersOf(state, one.name)) }))
    )
    const failed = results.find((result) => result.status === 'rejected')
    const settled = await change(tenant, async ({ confirm, asked: note }) => {
      for (const result of results) {
        if (result.status === 'fulfilled') { for (const snapshot of result.value.snapshots) confirm(result.value.name, snapshot) }
      }
      note(startedAt, failed === undefined, state.held)
    })
    const known = await alone(tenant, present(settled))
    if (failed !== undefined) throw failed.reason
    return known
  }

  /** One at a time for a tenant; if the provider fails, the stored state. */
  async function pullOnce (tenant: Owner): Promise<SettledTenant> {
    const running = pulls.get(tenant) ?? pull(tenant).finally(() => pulls.delete(tenant))
    pulls.set(tenant, running)
    try {
      return await running
    } catch (err) {
      if (isFailure(err, 'tenantUnknown')) throw err
      log.warn({ err, tenant }, 'a subscription could not be read from the payment provider; its last known state is used')
      return await settle(tenant)
    }
  }

  /** The current state of the tenant. If time has changed nothing, it writes nothing and calls no provider. */
  async function current (tenant: Owner): Promise<SettledTenant> {
    const state = await readState(engine.kyselyFor(tenant), tenant, now())
    if (state === null) throw failure('tenantUnknown')
    const judgement = judged(state)
    if (judgement.asks && now() - (state.memory.triedAt ?? -Infinity) >= readPause) return await pullOnce(tenant)
    return judgement.given === state.memory.given ? { state, judgement } : await settle(tenant)
  }

  async function unclaimed (name: ProviderName, event: ProviderEvent, tenant: Owner | null): Promise<Outcome> {
    const at = new Date(now())
    const reported = unclaimedOf(name, event)
    const isNew = await db.transaction().execute(async (transaction) => {
      if (!await keepOrphan(transaction, name, event, tenant, at)) return false
      await writeAudit(transaction, {
        tenant: platformRef,
        action: 'billing.event_unclaimed',
        actor: noActor,
        target: tenant,
        details: reported,
        at
      })
      return true
    })
    if (!isNew) return 'duplicate'
    log.warn(
      { tenant, ...reported },
      'a payment provider reported an event of an unknown tenant; it is kept, and applied when the tenant is created'
    )
    return 'unclaimed'
  }

  async function settleOne (tenant: Owner): Promise<boolean> {
    try {
      const state = await readState(db, tenant, now())
      if (state === null) return false
      const { asks, dueAt } = judged(state)
      await (asks && dueAt <= now() ? pullOnce(tenant) : settle(tenant))
      return true
    } catch (err) {
      log.warn({ err, tenant }, 'a subscription could not be settled; retrying later')
      return false
    }
  }

  return {
    async receive (name, reported) {
      const event = heardEvent(reported, now())
      const named = event.snapshot?.tenant ?? event.tenant ??
        await ownerOf(db, name, event.subscriptionId ?? event.snapshot?.id ?? null, customerOf(event))
      const changed = named !== null && isTenantId(named) ? await change(named, ({ receive }) => receive(name, event)) : null
      if (named === null || changed === null) return await unclaimed(name, event, named)
      await alone(named, changed)
      return changed.result
    },
    async subscription (tenant: Owner) {
      return subscriptionOf(await current(tenant), now())
    },
    async inForce (tenant: Owner) {
      const { judgement: { current: entitling, shown } } = await current(tenant)
      const held = entitling ?? (shown?.snapshot.status === 'past_due' ? shown : null)
      return held === null || held.plan === null || held.cycle === null
        ? null
        : { snapshot: held.snapshot, plan: held.plan, cycle: held.cycle, provider: held.provider }
    },
    async record (name, tenant: Owner, snapshots) {
      await change(tenant, async ({ confirm }) => {
        for (const snapshot of snapshots) confirm(name, snapshot)
      })
    },
    async sync (tenant: Owner) {
      if (provider === null) throw failure('billingNotConfigured')
      return subscriptionOf(await pull(tenant), now())
    },
    async settleDue (signal) {
      const [startedAt, at] = [performance.now(), now()]
      const taken = await takeDue(db, new Date(at), new Date(at + due.againMs), due.batch)
      const tenants = [...new Set([...taken, ...await claimants(db, due.batch)])]
      let settled = 0
      const next = async (): Promise<void> => {
        for (let tenant = tenants.shift(); tenant !== undefined; tenant = tenants.shift()) {
          // Remaining ones are due again in a few minutes.
          if (signal?.aborted === true || performance.now() - startedAt > due.runMs) return
          if (await settleOne(tenantRef(tenant))) settled++
        }
      }
      await Promise.all(Array.from({ length: due.atOnce }, next))
      const isOld = sql`received_at <= ${new Date(at - keptFor)}`
      await sweep(db, 'tenantry.billing.sweep', [
        removal('tenantry.billing_events', isOld),
        removal('tenantry.billing_unclaimed', isOld)
      ])
      return settled
    }
  }
}

function present (settled: SettledTenant | null): SettledTenant {
  if (settled === null) throw failure('tenantUnknown')
  return settled
}

/** Whether its provider may know a later state: not of an ended subscription, nor of an unpaid one without a later event. */
function mayChange ({ snapshot, unsure, askedAt }: TenantSubscription): boolean {
  if (snapshot === null || unsure) return true
  if (snapshot.status === 'incomplete') return askedAt !== null && askedAt > snapshot.asOf
  return snapshot.status !== 'canceled' && snapshot.endedAt === null
}

/** The ids of the tenant at the provider, the most reliable ones first. */
function customersOf ({ held }: BillingState, provider: ProviderName): string[] {
  const snapshots = held.flatMap(({ provider: name, snapshot }) => name === provider && snapshot !== null ? [snapshot] : [])
  snapshots.sort((one, other) => other.startedAt.getTime() - one.startedAt.getTime())
  return [...new Set(snapshots.map(({ customerId }) => customerId))].slice(0, maxCustomers)
}

function subscriptionOf ({ state: { plan, createdAt }, judgement: { current, shown, given } }: SettledTenant, now: number): Subscription {
  // A plan that the platform gave in place of that of an ended subscription does not come from a provider.
  if (shown === null || (current === null && plan !== (given ?? lowestPlan))) return withoutOne(plan, createdAt, now)
  const { status, startedAt, periodEnd, endedAt, cancelAtPeriodEnd, paymentMethod } = shown.snapshot
  const { entitled } = entitlement(shown.snapshot, now)
  const end = entitled ? periodEnd : endedAt ?? periodEnd
  return {
    plan,
    // It has ended without an event.
    status: !entitled && (status === 'active' || status === 'trialing') ? 'canceled' : status,
    startDate: startedAt,
    renewalDate: end,
    currentPeriodEnd: end,
    cancelAtPeriodEnd,
    paymentMethod: paymentMethod ?? 'unknown'
  }
}

/** Allowances are renewed with the month. */
function withoutOne (plan: string, startDate: Date, now: number): Subscription {
  const date = new Date(now)
  const next = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1))
  return { plan, status: 'active', startDate, renewalDate: next, currentPeriodEnd: next, cancelAtPeriodEnd: false, paymentMethod: 'none' }
}
