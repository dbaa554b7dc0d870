/**
 * `POST /billing/upgrade`: starts a checkout, or changes the tenant's subscription. Nothing is bought twice: the provider is asked first
 * for the tenant's subscriptions, and a tenant has one request at a time.
 */
import type { FastifyBaseLogger } from 'fastify'
import { createAttemptLimiter } from '../../lib/database/attempt-limiter.js'
import { type Actor, noteAudit } from '../../lib/database/audit.js'
import { failure, isFailure, type TenantryError } from '../../lib/errors.js'
import type { Owner, TenantLife } from '../../lib/identity/tenant-ref.js'
import { type Plans, unlimited } from '../../lib/plans/plans.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { type FindsTenants, requireSameLife } from '../tenancy/tenant.js'
import { minorUnits } from './minor-units.js'
import type { PaymentProvider, Snapshot } from './providers/provider.js'
import { lowestPlan } from './resolve-plan.js'
import type { Billing, BillingParts, InForce } from './service.js'
import type { ProductMap, Sale } from './settings.js'
import { readState } from './store.js'

/** One at a time: the place of an interrupted request is free after that time. */
const oneAtATime = { kind: 'billing.upgrade', heldMs: 60_000 }

export interface UpgradeInput extends Sale {
  readonly tenant: Owner
  /** As the request found the tenant. */
  readonly life: TenantLife
  /** The e-mail address of the payer, if it is known. */
  readonly email: string | undefined
  /** Equal for repetitions of the same upgrade, and unique to the tenant and the caller. */
  readonly idempotencyKey: string
  readonly actor: Actor
}

export interface UpgradeParts extends Pick<BillingParts, 'engine' | 'plans' | 'provider' | 'providers' | 'now'> {
  readonly log: Pick<FastifyBaseLogger, 'error' | 'warn'>
  readonly tenants: FindsTenants
  readonly billing: Pick<Billing, 'sync' | 'inForce' | 'record'>
  readonly products: ProductMap
  /** The return address of a checkout, without a slash at its end. */
  readonly appUrl: string
}

/** The change of a subscription. */
type Change = 'now' | 'period_end' | 'cancel' | 'resume'

export type Upgrade = ReturnType<typeof createUpgrade>

/**
 * The function throws `billingNotConfigured` without a provider, `validationFailed` for plans that are not for sale or that the tenant has
 * already, `conflict` during another request or before a scheduled cancellation, `tenantUnknown` if the tenant was deleted, and the errors
 * of the provider's calls.
 */
export function createUpgrade ({ billing, provider, providers, products, plans, tenants, appUrl, engine, log, now }: UpgradeParts) {
  const attempts = createAttemptLimiter(engine.kyselyFor, now)

  async function buy (seller: PaymentProvider, { tenant, plan, cycle, email, idempotencyKey }: UpgradeInput) {
    const state = await readState(engine.kyselyFor(tenant), tenant, now())
    if (state === null) throw failure('tenantUnknown')
    const { id, url, amount, currency } = await seller.checkout({
      tenant,
      deletedAt: state.deletedAt,
      email,
      product: productOf(seller, { plan, cycle }),
      successUrl: `${appUrl}/billing/success?session={CHECKOUT_ID}`,
      cancelUrl: `${appUrl}/billing/cancel`,
      idempotencyKey
    })
    return {
      change: 'checkout',
      response: { checkoutUrl: url, session: { id, provider: seller.name, plan, billing_cycle: cycle, amount, currency } }
    }
  }

  async function change (current: InForce, { tenant, plan, cycle, idempotencyKey }: UpgradeInput) {
    const seller = providers.get(current.provider)
    if (seller === undefined) {
      throw failure('billingNotConfigured', {
        message: `The subscription belongs to the payment provider ${current.provider}, which is not configured`
      })
    }
    const kind = changeTo({ plan, cycle }, current, plans)
    // The provider would credit the rest of a period that was never paid.
    if (kind === 'now' && current.snapshot.status === 'past_due') {
      throw failure('conflict', {
        message: `A payment of the current subscription is missing, which ${seller.name} still tries to take: pay it there first`
      })
    }
    const snapshot = await changed(seller, current.snapshot.id, kind, { plan, cycle }, idempotencyKey)
    if (snapshot === null) {
      if (current.snapshot.status === 'past_due') {
        throw failure('conflict', {
          message: `A payment of ${plan} ${cycle} is missing, which ${seller.name} still tries to take: pay it there`
        })
      }
      throw refused('/body/targetPlan', `the tenant has ${plan} ${cycle} already`)
    }
    // The provider has made the change: an error would make the caller repeat the request.
    await billing.record(seller.name, tenant, [snapshot]).catch((err: unknown) => {
      const changed = { provider: seller.name, subscription: snapshot.id }
      log.error({ err, tenant, ...changed }, 'a changed subscription could not be stored; the next event or sync stores it')
    })
    const effectiveAt = kind === 'now' || kind === 'resume' ? new Date(now()) : snapshot.periodEnd
    return {
      change: kind,
      response: {
        checkoutUrl: null,
        session: {
          id: snapshot.id,
          provider: seller.name,
          plan,
          billing_cycle: cycle,
          ...priceOf({ plan, cycle }, plans),
          effectiveAt
        }
      }
    }
  }

  async function changed (seller: PaymentProvider, id: string, kind: Change, sale: Sale, key: string): Promise<Snapshot | null> {
    if (kind === 'cancel') return await seller.cancel(id, key)
    if (kind === 'resume') return await seller.resume(id, key)
    return await seller.changeProduct(id, productOf(seller, sale), kind, key)
  }

  /** Throws `validationFailed` for a plan that the provider does not sell. */
  function productOf ({ name }: PaymentProvider, sale: Sale): string {
    const product = products.idOf(name, sale)
    if (product === undefined) throw notSold(sale, products.soldBy(name), plans)
    return product
  }

  /** The caller named no object of the provider: the id came from the product map, or from the stored subscription. */
  function missingAt (seller: PaymentProvider, current: InForce | null, { plan, cycle }: UpgradeInput): string {
    const name = current?.provider ?? seller.name
    const product = products.idOf(name, { plan, cycle })
    return `${name} does not have ${
      [
        ...current === null ? [] : [`the subscription ${current.snapshot.id}`],
        ...product === undefined ? [] : [`${product}, which the product map names for ${plan}_${cycle}`]
      ].join(' or ')
    }`
  }

  async function upgrade (seller: PaymentProvider, input: UpgradeInput) {
    const { tenant, life, plan, cycle, actor } = input
    // A webhook may be on its way. A just bought plan must not be bought twice.
    await billing.sync(tenant)
    const current = await billing.inForce(tenant)
    await requireSameLife(tenants, { id: tenant, life })
    if (current === null && plan === lowestPlan) throw refused('/body/targetPlan', 'there is no subscription to cancel')
    const { response, change: kind } = await (current === null ? buy(seller, input) : change(current, input)).catch((error: unknown) => {
      throw isFailure(error, 'notFound')
        ? failure('providerFailed', { cause: new Error(missingAt(seller, current, input), { cause: error }) })
        : error
    })
    const { id, provider: by } = response.session
    await noteAudit({ engine, log }, {
      tenant,
      life,
      action: 'billing.upgrade',
      actor,
      target: `${plan}_${cycle}`,
      details: { change: kind, provider: by, id },
      at: new Date(now())
    })
    return response
  }

  return async (input: UpgradeInput) => {
    if (provider === null) throw failure('billingNotConfigured')
    const { tenant, plan, cycle } = input
    // A plan that is not for sale is refused before a provider is called.
    const isSold = [...providers.keys()].some((name) => products.idOf(name, { plan, cycle }) !== undefined)
    if (plan !== lowestPlan && !isSold) throw notSold({ plan, cycle }, products.soldBy(provider.name), plans)
    const place = await attempts.hold(oneAtATime.kind, tenant, tenant, oneAtATime.heldMs)
    if (place === null) throw failure('conflict', { message: 'Another change of the subscription is in progress: try again in a moment' })
    try {
      return await upgrade(provider, input)
    } finally {
      // The change stays done, and the place is free after a minute in any case.
      await attempts.release(oneAtATime.kind, tenant, tenant, place).catch((err: unknown) =>
        log.warn({ err, tenant }, 'the lock of an upgrade could not be released; it expires in a minute')
      )
    }
  }
}

/**
 * The change of the subscription: `resume` for the current plan, if a change or end is scheduled. A current plan that the document lacks is
 * changed now, since the tenant has the limits of `free`. Throws `validationFailed` if it already ends, and `conflict` if a cancellation is
 * scheduled.
 */
function changeTo ({ plan, cycle }: Sale, current: InForce, { tiers }: Pick<Plans, 'tiers'>): Change {
  const { cancelAtPeriodEnd, periodEnd } = current.snapshot
  if (plan === lowestPlan) {
    if (cancelAtPeriodEnd) throw refused('/body/targetPlan', `the subscription ends on ${periodEnd.toISOString()} already`)
    return 'cancel'
  }
  if (!tiers.includes(current.plan)) return 'now'
  if (plan === current.plan && cycle === current.cycle) return 'resume'
  if (cancelAtPeriodEnd) {
    throw failure('conflict', {
      message:
        `The subscription ends on ${periodEnd.toISOString()}: take that back first, by an upgrade to ${current.plan} ${current.cycle}`
    })
  }
  const rise = tiers.indexOf(plan) - tiers.indexOf(current.plan)
  return rise > 0 || (rise === 0 && cycle === 'yearly') ? 'now' : 'period_end'
}

function priceOf ({ plan, cycle }: Sale, plans: Plans) {
  const { currency, [cycle]: price } = plans.of(plan).price
  return { amount: price === unlimited ? null : minorUnits(price, currency), currency: currency.toLowerCase() }
}

function notSold ({ plan, cycle }: Sale, sold: readonly Sale[], plans: Plans): TenantryError {
  const isSold = sold.some((sale) => sale.plan === plan)
  if (plans.of(plan).price.monthly === unlimited && !isSold) {
    return refused('/body/targetPlan', `${plan} is sold by agreement: contact the platform`)
  }
  const others = sold.length === 0 ? lowestPlan : `one of ${sold.map((sale) => `${sale.plan} ${sale.cycle}`).join(', ')}`
  return refused(isSold ? '/body/billingCycle' : '/body/targetPlan', `${plan} ${cycle} is not sold: must be ${others}`)
}

function refused (path: string, message: string): TenantryError {
  return invalidInput(path, message, 'enum')
}
