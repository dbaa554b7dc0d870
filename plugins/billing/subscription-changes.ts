/** The subscriptions of a tenant within one transaction: applies reports of providers, and collects audit entries and events. */
import { type AuditEntry, noActor, writeAudit } from '../../lib/database/audit.js'
import type { Emitter, OutboundEvent } from '../../lib/database/outbox.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { customerOf, keepOrphan, takeOrphans } from './orphan-events.js'
import type { ProviderEvent, ProviderName, Snapshot } from './providers/provider.js'
import type { Memory, TenantSubscription } from './resolve-plan.js'
import { confirmed, heardSnapshot, type Known, knownOf, knownSince, merged } from './snapshots.js'
import { type BillingState, noteEvent, removeOldest, removeSubscription, writeSubscription } from './store.js'

/**
 * `applied`: it counts; `stale`: a later or equal state was known; `duplicate`: an event with its id was handled before; `unclaimed`: its
 * tenant is unknown, or it belongs, or may belong, to a deleted one.
 */
export type Outcome = 'applied' | 'stale' | 'duplicate' | 'unclaimed'

/** The changes that work on a tenant can make. */
export interface Draft {
  /** Applies an event. */
  receive(provider: ProviderName, event: ProviderEvent): Promise<Outcome>
  /** Applies a subscription of the provider's response. */
  confirm(provider: ProviderName, snapshot: Snapshot): void
  /** Another tenant has had the subscription since then. */
  leave(provider: ProviderName, id: string, since: Date): void
  /** Records the time of a call to the provider; its response covers the subscriptions `seen` before. */
  asked(at: number, hasResponse: boolean, seen: readonly TenantSubscription[]): void
}

export interface SubscriptionChangesParts {
  readonly transaction: SystemTransaction
  readonly tenant: Owner
  /** The stored state. */
  readonly before: BillingState
  /** The time of the changes, in ms since 1970. */
  readonly at: number
  /** Gives a subscription the plan that the product map has for its products. */
  readonly mapped: (held: TenantSubscription) => TenantSubscription
}

export function createSubscriptionChanges ({ transaction, tenant, before, at, mapped }: SubscriptionChangesParts) {
  const { deletedAt } = before
  const held = new Map(before.held.map((one) => [keyOf(one), one]))
  const touched = new Set<string>()
  const entries: AuditEntry[] = []
  const warnings: [object, string][] = []
  const outgoing: OutboundEvent[] = []
  let memory: Memory = before.memory

  function audit (action: AuditEntry['action'], target: string, details: AuditEntry['details'], owner = tenant): void {
    entries.push({ tenant: owner, action, actor: noActor, target, details, at: new Date(at) })
  }

  /** Combines the reported state with the known one. Returns whether it contains anything new. */
  function apply (provider: ProviderName, id: string, reported: Known, combine: typeof merged): boolean {
    const key = keyOf({ provider, id })
    const known = held.get(key)
    const next = known === undefined ? reported : combine(known, reported)
    if (known !== undefined && equalJson(stateOf(known), stateOf(next))) return false
    const isSameProduct = equalJson(known?.snapshot?.productIds, next.snapshot?.productIds)
    const changed = mapped({
      provider,
      id,
      plan: isSameProduct ? known?.plan ?? null : null,
      cycle: isSameProduct ? known?.cycle ?? null : null,
      ...stateOf(next)
    })
    held.set(key, changed)
    touched.add(key)
    report(known, changed)
    return true
  }

  /** Reports a visible change of a subscription to the audit log and to webhooks. */
  function report (known: TenantSubscription | undefined, changed: TenantSubscription): void {
    const { provider, id, snapshot, plan } = changed
    if (snapshot === null || equalJson(shownOf(known), shownOf(changed))) return
    audit('billing.subscription', id, { provider, ...shownOf(changed) })
    outgoing.push({
      tenant,
      type: kindOf(known, changed),
      subject: `subscription:${provider}:${id}`,
      data: { provider, id, ...shownOf(changed) },
      at: new Date(at)
    })
    if (plan === null) {
      warnings.push([
        { tenant, provider, subscription: id, products: snapshot.productIds },
        'a subscription has no product of the product map: it has no effect on the plan'
      ])
    }
  }

  function reportUnclaimed (provider: ProviderName, event: ProviderEvent, message: string): void {
    const reported = unclaimedOf(provider, event)
    audit('billing.event_unclaimed', tenant, reported, platformRef)
    warnings.push([{ tenant, ...reported }, message])
  }

  /** Whether an event without a snapshot may belong to a deleted tenant: a subscription's snapshot shows whether it began later. */
  function mayBeOfDeleted (provider: ProviderName, { snapshot, subscriptionId, customerId }: ProviderEvent): boolean {
    if (deletedAt === null || snapshot !== null) return false
    if (subscriptionId !== null) return (held.get(keyOf({ provider, id: subscriptionId }))?.snapshot ?? null) === null
    return ![...held.values()].some((one) => one.provider === provider && one.snapshot?.customerId === customerId)
  }

  /** Keeps the event until the tenant has its subscription, or else its customer. Returns false if it is kept already, or was handled. */
  async function postpone (provider: ProviderName, event: ProviderEvent): Promise<boolean> {
    const { subscriptionId } = event
    // payprov may have one customer for both tenants.
    const kept = subscriptionId === null ? event : { ...event, customerId: null }
    if (!await keepOrphan(transaction, provider, kept, null, new Date(at))) return false
    if (subscriptionId !== null) apply(provider, subscriptionId, knownSince(event.at), merged)
    return true
  }

  async function receive (provider: ProviderName, event: ProviderEvent): Promise<Outcome> {
    const { snapshot, payment, subscriptionId } = event
    if (!isOfDeleted(deletedAt, timeOf(event)) && mayBeOfDeleted(provider, event)) {
      if (!await postpone(provider, event)) return 'duplicate'
      reportUnclaimed(
        provider,
        event,
        'a payment provider reported an event of a deleted tenant, or of an unknown subscription; the event is kept until the subscription is known'
      )
      return 'unclaimed'
    }
    if (!await noteEvent(transaction, tenant, provider, event.id, new Date(at))) return 'duplicate'
    if (isOfDeleted(deletedAt, timeOf(event))) {
      reportUnclaimed(
        provider,
        event,
        'a payment provider reported an event of a deleted tenant: check whether its subscription must be canceled there'
      )
      return 'unclaimed'
    }
    if (payment !== null) {
      audit('billing.payment', payment.id, { provider, ...payment, ...subscriptionId !== null && { subscription: subscriptionId } })
    }
    if (snapshot !== null) return apply(provider, snapshot.id, knownOf(snapshot), merged) ? 'applied' : 'stale'
    if (payment === null) {
      audit('billing.event', event.id, { provider, type: event.type, ...subscriptionId !== null && { subscription: subscriptionId } })
    }
    if (subscriptionId !== null) apply(provider, subscriptionId, knownSince(event.at), merged)
    return 'applied'
  }

  const draft: Draft = {
    receive,
    confirm (provider, snapshot) {
      const { tenant: named } = snapshot
      if (named !== null && named !== tenant) {
        warnings.push([
          { tenant, provider, subscription: snapshot.id, named },
          'a payment provider returned the subscription of another tenant; it is ignored'
        ])
      } else if (!isOfDeleted(deletedAt, snapshot.startedAt)) {
        apply(provider, snapshot.id, knownOf(heardSnapshot(snapshot, at)), confirmed)
      }
    },
    leave (provider, id, since) {
      const known = held.get(keyOf({ provider, id }))?.snapshot ?? null
      if (known === null) return
      apply(
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
  }

  return {
    draft,
    audit,
    warnings,
    get hasEvents () {
      return outgoing.length > 0
    },
    get held (): TenantSubscription[] {
      return [...held.values()]
    },
    /** The times of calls to the provider. */
    get memory (): Memory {
      return memory
    },

    /** Applies earlier events whose tenant or subscription was unknown when they arrived. */
    async receiveOrphans (): Promise<void> {
      for (;;) {
        const known = [...held.values()].filter(({ snapshot }) => snapshot !== null || deletedAt === null)
        const orphans = await takeOrphans(transaction, tenant, known)
        if (orphans.length === 0) return
        for (const { provider, event } of orphans) {
          // An event of a deleted tenant has been reported.
          if (isOfDeleted(deletedAt, timeOf(event))) continue
          await (mayBeOfDeleted(provider, event) ? postpone : receive)(provider, event)
        }
      }
    },

    /** Writes the changed subscriptions. */
    async write (): Promise<void> {
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
    },

    /** Writes the entries of the audit log, and the events of webhooks. */
    async writeReports (emitter: Emitter | null): Promise<void> {
      if (entries.length > 0) await writeAudit(transaction, ...entries)
      if (emitter !== null) { for (const event of outgoing) await emitter.emit(transaction, event) }
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

/** The members of a subscription whose changes are reported. */
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

/** Whether two values have the same JSON. Their members must be in the same order. */
export function equalJson (one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
