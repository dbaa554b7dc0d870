/**
 * Changes the billing state of a tenant: in one transaction that locks the tenant and then evaluates the tenant's plan again. Two servers
 * with concurrent events of one tenant change it one after the other.
 */
import type { Kysely } from 'kysely'
import { FairSemaphore } from '../../lib/concurrency/fair-semaphore.js'
import type { Events } from '../../lib/database/events.js'
import { databaseBusy } from '../../lib/database/failures.js'
import type { Emitter } from '../../lib/database/outbox.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Plans } from '../../lib/plans/plans.js'
import type { PaymentProvider, ProviderName } from './providers/provider.js'
import { type Judgement, resolvePlan, type TenantSubscription } from './resolve-plan.js'
import type { ProductMap } from './settings.js'
import { type BillingState, readState, writeMemory, writePlan } from './store.js'
import { createSubscriptionChanges, type Draft, equalJson } from './subscription-changes.js'

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

/** A tenant, and the result of its subscriptions. */
export interface SettledTenant {
  readonly state: BillingState
  readonly judgement: Judgement
}

/** Rolls back a transaction that would change the plan without a notice. It is repeated with a notice. */
const needsNotice = new Error('the plan changes')

export function createChange ({ db, events, plans, products, providers, now, log, emitter }: ChangeParts) {
  const canAsk = (provider: ProviderName) => providers.has(provider)

  /** By the current product map. Products that it no longer has keep their plan from the time of writing. */
  function mapped (held: TenantSubscription): TenantSubscription {
    return { ...held, ...held.snapshot === null ? null : products.saleOf(held.snapshot.productIds) }
  }

  function judged ({ held, memory }: BillingState): Judgement {
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
    const before = await readState(transaction, tenant, at)
    if (before === null) return null
    const changes = createSubscriptionChanges({ transaction, tenant, before, at, mapped })
    const result = await work(changes.draft)
    await changes.receiveOrphans()

    const judgement = resolvePlan(changes.held.map(mapped), changes.memory, plans.tiers, canAsk, at)
    const { given, current, dueAt } = judgement
    const plan = given !== null && given !== before.memory.given ? given : before.plan
    if (plan !== before.plan) {
      if (!notifies) throw needsNotice
      await writePlan(transaction, tenant, plan)
      changes.audit('billing.plan', plan, {
        from: before.plan,
        to: plan,
        ...current !== null && { provider: current.provider, subscription: current.id }
      })
    }
    await changes.write()
    const memory = { ...changes.memory, given }
    if (dueAt !== before.dueAt || !equalJson(memory, before.memory)) await writeMemory(transaction, tenant, memory, dueAt)
    await changes.writeReports(emitter())
    const state = { ...before, plan, memory, dueAt, held: changes.held }
    return { result, warnings: changes.warnings, hasEvents: changes.hasEvents, judgement, state }
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
      const { warnings, hasEvents, ...settled } = done
      for (const [object, message] of warnings) log.warn(object, message)
      if (hasEvents) emitter()?.wake()
      return settled
    }
  }
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
