/**
 * Changes the billing state of a tenant: in one transaction that locks the tenant and then evaluates the tenant's plan again. Two servers
 * with concurrent events of one tenant change it one after the other.
 */
import type { Kysely } from 'kysely'
import { FairSemaphore } from '../../lib/concurrency/fair-semaphore.js'
import { type AuditEntry, noActor, writeAudit } from '../../lib/database/audit.js'
import type { Events } from '../../lib/database/events.js'
import { databaseBusy } from '../../lib/database/failures.js'
import type { Emitter, OutboundEvent } from '../../lib/database/outbox.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import type { Plans } from '../../lib/plans/plans.js'
import { customerOf, takeOrphans } from './orphan-events.js'
import type { PaymentProvider, ProviderEvent, ProviderName, Snapshot } from './providers/provider.js'
import { type Judgement, type Memory, resolvePlan, type TenantSubscription } from './resolve-plan.js'
import type { ProductMap } from './settings.js'
import { confirmed, heardSnapshot, type Known, knownOf, knownSince, merged } from './snapshots.js'
import { noteEvent, readView, removeOldest, removeSubscription, type View, writeMemory, writePlan, writeSubscription } from './store.js'

export interface ChangeParts {
  /** The server's own. */
  readonly db: Kysely<SystemTables>
  readonly events: Events
  readonly plans: Plans
  readonly products: Pick<ProductMap, 'saleOf'>
  /** Callable providers: a tenant may have a subscription with a former one. */
  readonly providers: ReadonlyMap<ProviderName, PaymentProvider>
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
  readonly log: { warn(object: object, message: string): void }
  /** Sends the events of subscriptions; null for no events. */
  readonly emitter: () => Emitter | null
}

/**
 * `applied`: it counts; `stale`: a later or equal state was known; `duplicate`: an event with its id was handled before; `unclaimed`: its
 * tenant is unknown, or it belongs to a deleted one.
 */
export type Outcome = 'applied' | 'stale' | 'duplicate' | 'unclaimed'

/** A tenant, and the result of its subscriptions. */
export interface SettledTenant {
  readonly view: View
  readonly judgement: Judgement
}

/** The changes of one transaction to a tenant. */
interface Draft {
  /** Applies an event. */
  receive(provider: ProviderName, event: ProviderEvent): Promise<Outcome>
  confirm(provider: ProviderName, snapshot: Snapshot): void
  /** Another tenant has had the subscription since then. */
  leave(provider: ProviderName, id: string, since: Date): void
  /** Records the time of a call to the provider; its response covers the subscriptions `seen` before. */
  asked(at: number, hasResponse: boolean, seen: readonly TenantSubscription[]): void
}

/** Rolls back a transaction that would change the plan without a notice. It is repeated with a notice. */
const needsNotice = new Error('the plan changes')

export function createChange ({ db, events, plans, products, providers, now, log, emitter }: ChangeParts) {
  const canAsk = (provider: ProviderName) => providers.has(provider)

  /** By the current product map. Products that it no longer has keep their plan from the time of writing. */
  function mapped (held: TenantSubscription): TenantSubscription {
    return { ...held, ...held.snapshot === null ? null : products.saleOf(held.snapshot.productIds) }
  }

  function judged ({ held, memory }: View): Judgement {
    return resolvePlan(held.map(mapped), memory, plans.tiers, canAsk, now())
  }

  async function attempt<T> (
    transaction: SystemTransaction,
    tenant: Owner,
    work: (draft: Draft) => Promise<T>,
    { notifies }: { readonly notifies: boolean }
  ) {
    if (!await lockTenant(transaction, tenant, 'alone')) return null
    const at = now()
    const before = await readView(transaction, tenant, at)
    if (before === null) return null
    const { deletedAt } = before
    const held = new Map(before.held.map((one) => [keyOf(one), one]))
    const touched = new Set<string>()
    const entries: AuditEntry[] = []
    const warnings: [object, string][] = []
    const outgoing: OutboundEvent[] = []
    let memory: Memory = before.memory
    const entry = (action: AuditEntry['action'], target: string, details: AuditEntry['details'], owner = tenant) => {
      entries.push({ tenant: owner, action, actor: noActor, target, details, at: new Date(at) })
    }

    /** Whether it contains anything new. */
    function take (provider: ProviderName, id: string, reported: Known, how: typeof merged): boolean {
      const key = keyOf({ provider, id })
      const known = held.get(key)
      const next = known === undefined ? reported : how(known, reported)
      if (known !== undefined && same(stateOf(known), stateOf(next))) return false
      const isSameProduct = same(known?.snapshot?.productIds, next.snapshot?.productIds)
      const found: TenantSubscription = mapped({
        provider,
        id,
        plan: isSameProduct ? known?.plan ?? null : null,
        cycle: isSameProduct ? known?.cycle ?? null : null,
        ...stateOf(next)
      })
      held.set(key, found)
      touched.add(key)
      if (found.snapshot === null || same(shownOf(known), shownOf(found))) return true
      entry('billing.subscription', id, { provider, ...shownOf(found) })
      outgoing.push({
        tenant,
        type: kindOf(known, found),
        subject: `subscription:${provider}:${id}`,
        data: { provider, id, ...shownOf(found) },
        at: new Date(at)
      })
      if (found.plan === null) {
        warnings.push([
          { tenant, provider, subscription: id, products: found.snapshot.productIds },
          'a subscription has no product of the product map: it has no effect on the plan'
        ])
      }
      return true
    }

    async function receive (provider: ProviderName, event: ProviderEvent): Promise<Outcome> {
      const { snapshot, payment, subscriptionId } = event
      if (!await noteEvent(transaction, tenant, provider, event.id, new Date(at))) return 'duplicate'
      if (isOfDeleted(deletedAt, timeOf(event))) {
        const reported = unclaimedOf(provider, event)
        entry('billing.event_unclaimed', tenant, reported, platformRef)
        warnings.push([
          { tenant, ...reported },
          'a payment provider reported an event of a deleted tenant: check whether its subscription must be canceled there'
        ])
        return 'unclaimed'
      }
      if (payment !== null) {
        entry('billing.payment', payment.id, { provider, ...payment, ...subscriptionId !== null && { subscription: subscriptionId } })
      }
      if (snapshot !== null) return take(provider, snapshot.id, knownOf(snapshot), merged) ? 'applied' : 'stale'
      if (payment === null) {
        entry('billing.event', event.id, { provider, type: event.type, ...subscriptionId !== null && { subscription: subscriptionId } })
      }
      if (subscriptionId !== null) take(provider, subscriptionId, knownSince(event.at), merged)
      return 'applied'
    }

    const result = await work({
      receive,
      confirm (provider, snapshot) {
        const { tenant: named } = snapshot
        if (named !== null && named !== tenant) {
          warnings.push([
            { tenant, provider, subscription: snapshot.id, named },
            'a payment provider returned the subscription of another tenant; it is ignored'
          ])
        } else if (!isOfDeleted(deletedAt, snapshot.startedAt)) {
          take(provider, snapshot.id, knownOf(heardSnapshot(snapshot, at)), confirmed)
        }
      },
      leave (provider, id, since) {
        const known = held.get(keyOf({ provider, id }))?.snapshot ?? null
        if (known === null) return
        take(
          provider,
          id,
          knownOf({
            ...known,
            status: 'canceled',
            endedAt: since,
            pastDueSince: null,
            cancelAtPeriodEnd: false,
            paymentMethod: null,
            asOf: since
          }),
          merged
        )
        warnings.push([{ tenant, provider, subscription: id }, 'a subscription now belongs to another tenant'])
      },
      asked (time, hasResponse, seen) {
        memory = {
          ...memory,
          triedAt: Math.max(time, memory.triedAt ?? 0),
          ...hasResponse && { pulledAt: Math.max(time, memory.pulledAt ?? 0) }
        }
        if (!hasResponse) return
        for (const { askedAt, ...one } of seen) {
          const known = held.get(keyOf(one))
          // Events that arrived during a call to the provider trigger another call.
          if (known === undefined || askedAt === null || known.askedAt?.getTime() !== askedAt.getTime()) continue
          held.set(keyOf(one), { ...known, askedAt: null })
          touched.add(keyOf(one))
        }
      }
    })
    // Earlier events without a known tenant or subscription.
    for (;;) {
      const taken = await takeOrphans(transaction, tenant, [...held.values()])
      if (taken.length === 0) break
      for (const { provider, event } of taken) {
        // An event of a deleted tenant has been reported.
        if (!isOfDeleted(deletedAt, timeOf(event))) await receive(provider, event)
      }
    }

    const judgement = resolvePlan([...held.values()].map(mapped), memory, plans.tiers, canAsk, at)
    const { given, current, dueAt } = judgement
    const isNew = given !== null && given !== memory.given
    const plan = isNew ? given : before.plan
    if (plan !== before.plan) {
      if (!notifies) throw needsNotice
      await writePlan(transaction, tenant, plan)
      entry('billing.plan', plan, {
        from: before.plan,
        to: plan,
        ...current !== null && { provider: current.provider, subscription: current.id }
      })
    }
    memory = { ...memory, given }
    for (const key of touched) {
      const one = held.get(key)
      if (one === undefined) continue
      // Neither the database nor the provider has it.
      if (one.snapshot === null && one.askedAt === null) {
        held.delete(key)
        await removeSubscription(transaction, tenant, one)
      } else {
        await writeSubscription(transaction, tenant, one)
      }
    }
    if (held.size > before.held.length) await removeOldest(transaction, tenant)
    if (dueAt !== before.dueAt || !same(memory, before.memory)) await writeMemory(transaction, tenant, memory, dueAt)
    if (entries.length > 0) await writeAudit(transaction, ...entries)
    const webhooks = emitter()
    if (webhooks !== null) { for (const event of outgoing) await webhooks.emit(transaction, event) }
    const view = { ...before, plan, memory, dueAt, held: [...held.values()] }
    return { result, warnings, notifies: outgoing.length > 0, judgement, view }
  }

  /** Other processes keep the plan of a tenant in memory. They are notified only if it changes. */
  async function committed<T> (tenant: Owner, work: (draft: Draft) => Promise<T>) {
    try {
      return await db.transaction().execute((transaction) => attempt(transaction, tenant, work, { notifies: false }))
    } catch (error) {
      if (error !== needsNotice) throw error
      return await events.change({ topic: 'tenant', tenant }, (transaction) => attempt(transaction, tenant, work, { notifies: true }))
    }
  }

  const inTurn = createTenantMutex()
  return {
    judged,
    /** Runs the work and evaluates the tenant; null for an unknown tenant, or one that is being deleted. */
    async change<T> (tenant: Owner, work: (draft: Draft) => Promise<T>): Promise<SettledTenant & { readonly result: T } | null> {
      const done = await inTurn(tenant, () => committed(tenant, work))
      if (done === null) return null
      const { warnings, notifies, ...settled } = done
      for (const [object, message] of warnings) log.warn(object, message)
      if (notifies) emitter()?.wake()
      return settled
    }
  }
}

/** The description of an event without a tenant. */
export function unclaimedOf (provider: ProviderName, event: ProviderEvent) {
  return { provider, event: event.id, type: event.type, subscription: event.subscriptionId, customer: customerOf(event) }
}

function keyOf ({ provider, id }: Pick<TenantSubscription, 'provider' | 'id'>): string {
  return `${provider} ${id}`
}

/** The time that shows whether an event is older than a deletion: the start of its subscription, or else its own time. */
function timeOf ({ snapshot, at }: ProviderEvent): Date {
  return snapshot?.startedAt ?? at
}

/** A tenant gets nothing from a deleted one with the same id. */
function isOfDeleted (deletedAt: Date | null, at: Date): boolean {
  return deletedAt !== null && at.getTime() <= deletedAt.getTime()
}

function stateOf ({ snapshot, methodAsOf, unsure, askedAt }: Known): Known {
  return { snapshot, methodAsOf, unsure, askedAt }
}

/** Changes of a subscription for the audit log. */
function shownOf (held: TenantSubscription | undefined) {
  if (held === undefined || held.snapshot === null) return undefined
  const { status, cancelAtPeriodEnd, periodEnd, endedAt, productIds } = held.snapshot
  return {
    status,
    plan: held.plan,
    cycle: held.cycle,
    products: productIds,
    periodEnd,
    cancelAtPeriodEnd,
    ...endedAt !== null && { endedAt }
  }
}

/** The kind of event for the change. */
function kindOf (known: TenantSubscription | undefined, { snapshot }: TenantSubscription): string {
  const before = known?.snapshot?.status
  if (snapshot?.status === 'canceled' && before !== 'canceled') return 'subscription.canceled'
  return before === undefined ? 'subscription.created' : 'subscription.updated'
}

/** JSON values with sorted members. */
function same (one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

const waitMs = 5000 // for the turn

/**
 * One piece of work at a time for each tenant, on this server; `databaseBusy` after a timeout. Work that locks a tenant in the database
 * goes through here: otherwise many would wait for one another with a connection each, and leave none to the other tenants.
 */
function createTenantMutex () {
  const lines = new Map<string, { readonly gate: FairSemaphore, length: number }>()
  return async <T>(tenant: Owner, work: () => Promise<T>): Promise<T> => {
    const line = lines.get(tenant) ?? { gate: new FairSemaphore(1, waitMs, { keepsFree: false }), length: 0 }
    lines.set(tenant, line)
    line.length++
    try {
      return await line.gate.run(tenant, databaseBusy, work)
    } finally {
      if (--line.length === 0) lines.delete(tenant)
    }
  }
}
