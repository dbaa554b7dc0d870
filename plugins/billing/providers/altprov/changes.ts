/** Changes of a subscription of Stripe. A requested change replaces the plan of a schedule. */
import type Stripe from 'stripe'
import { failure } from '../../../../lib/errors.js'
import type { Snapshot } from '../provider.js'
import { requirePaid } from '../require-paid.js'
import { type AltprovCall, checkId, type ProviderResponse } from './client.js'
import {
  type AltprovDiscounts, type AltprovItem,
  type AltprovPhase, type AltprovPrice, type AltprovSchedule, type AltprovSubscription,
  readPrice, readPrices, readProduct, readSchedule
} from './documented.js'
import { idOf, isCanceling, snapshotOf, subscriptionOf } from './snapshot.js'
import { write } from './write.js'

/** Members of a snapshot that are ids unless they are expanded. */
export const expanded = ['default_payment_method', 'customer.invoice_settings.default_payment_method'] as const

/** One change: its requests share the time, and each has its own idempotency key, derived from the change's. */
export interface Change {
  readonly call: AltprovCall
  /** For the requests after a payment, which may have taken the time. */
  readonly callAnew: () => AltprovCall
  readonly idempotencyKey: string
}

type Subscribed = ProviderResponse<AltprovSubscription>
type Test = (subscription: AltprovSubscription) => boolean

/** Charges or credits the difference at once. If the payment fails, nothing changes: `providerRefused` with the provider's reason. */
export async function changeNow (change: Change, id: string, product: string): Promise<Snapshot> {
  const [price, subscription] = await Promise.all([priceOf(change.call, product), read(change, id)])
  requirePaid(subscription.body.status)
  const item = onlyItem(subscription.body)
  const hasPrice: Test = (body) => onlyItem(body).price.id === price.id && !isCanceling(body)
  const changed = hasPrice(subscription.body)
    ? subscription
    : await update(change, id, {
      items: [{ id: item.id, price: price.id }],
      proration_behavior: 'always_invoice',
      payment_behavior: 'error_if_incomplete',
      ...goingOn(subscription.body)
    }, hasPrice)
  // Last, so that a refused payment keeps the schedule. A schedule forbids changes of the cancellation, not of the price.
  await release({ ...change, call: change.callAnew() }, subscription.body)
  return snapshotAt(changed)
}

/** A schedule changes the price at the end of the period, and releases the subscription a period later. */
export async function changeAtPeriodEnd (change: Change, id: string, product: string): Promise<Snapshot> {
  let [price, subscribed] = await Promise.all([priceOf(change.call, product), read(change, id)])
  onlyItem(subscribed.body)
  // The provider creates no schedule for a subscription with an end date.
  if (isCanceling(subscribed.body)) subscribed = await update(change, id, goingOn(subscribed.body), isGoingOn)
  const schedule = await scheduleOf(change, subscribed.body)
  const current = schedule.phases.find(({ start_date: start }) => start === schedule.current_phase?.start_date)
  if (current === undefined) {
    throw failure('providerFailed', { cause: new Error('altprov has a schedule for the subscription without a current phase') })
  }
  const next = {
    ...carriedOn(current),
    items: [{ price: price.id, quantity: current.items[0]?.quantity ?? 1 }],
    duration: onePeriod(price),
    proration_behavior: 'none'
  }
  const plan: Stripe.SubscriptionScheduleUpdateParams = {
    end_behavior: 'release',
    proration_behavior: 'none',
    phases: [asItIs(current), next]
  }
  await write(change.call, {
    read: readSchedule,
    key: [change.idempotencyKey, schedule.id, plan],
    run: (stripe, options) => stripe.subscriptionSchedules.update(schedule.id, plan, options),
    async current () {
      const planned = await readPlanned(change, schedule.id)
      const { phases, current_phase: running } = planned.body
      const coming = phases.find(({ start_date: start }) => start === running?.end_date)
      return coming?.items.every((item) => idOf(item.price) === price.id) === true ? planned : null
    }
  })
  return snapshotAt(subscribed)
}

/** At the period's end; unchanged if it already ends then. */
export async function cancel (change: Change, id: string): Promise<Snapshot> {
  const subscribed = await read(change, id)
  await release(change, subscribed.body)
  if (isCanceling(subscribed.body)) return snapshotAt(subscribed)
  return snapshotAt(await update(change, id, { cancel_at_period_end: true }, isCanceling))
}

/** Withdraws the scheduled change or end; null without one. */
export async function resume (change: Change, id: string): Promise<Snapshot | null> {
  const subscribed = await read(change, id)
  const ends = isCanceling(subscribed.body)
  if (!ends && !await isScheduled(change, subscribed.body)) return null
  await release(change, subscribed.body)
  return snapshotAt(ends ? await update(change, id, goingOn(subscribed.body), isGoingOn) : subscribed)
}

/** Whether the subscription's schedule plans anything after its current phase. It stays for a period after the last change. */
async function isScheduled (change: Change, { schedule }: AltprovSubscription): Promise<boolean> {
  if (!isSet(schedule)) return false
  const { body: { current_phase: current, phases, end_behavior: end } } = await readPlanned(change, idOf(schedule))
  return current === null || end === 'cancel' || phases.some(({ start_date: start }) => start >= current.end_date)
}

function snapshotAt ({ body, at }: Subscribed): Snapshot {
  return snapshotOf(body, at)
}

/** A changeable subscription: an ended one stays ended. */
async function read ({ call }: Change, id: string): Promise<Subscribed> {
  checkId(id)
  const subscribed = await call(subscriptionOf, (stripe) => stripe.subscriptions.retrieve(id, { expand: [...expanded] }))
  const { status } = subscribed.body
  if (status === 'canceled' || status === 'incomplete_expired') throw failure('providerRefused', { message: 'The subscription has ended' })
  return subscribed
}

async function update (change: Change, id: string, changes: Stripe.SubscriptionUpdateParams, isMade: Test): Promise<Subscribed> {
  return await write(change.call, {
    read: subscriptionOf,
    key: [change.idempotencyKey, id, changes],
    run: (stripe, options) => stripe.subscriptions.update(id, { ...changes, expand: [...expanded] }, options),
    async current () {
      const subscribed = await read(change, id)
      return isMade(subscribed.body) ? subscribed : null
    }
  })
}

/** The subscription's schedule with its plan, or one that plans nothing. */
async function scheduleOf (change: Change, { id, schedule }: AltprovSubscription): Promise<AltprovSchedule> {
  if (isSet(schedule)) return (await readPlanned(change, idOf(schedule))).body
  const { body } = await write(change.call, {
    read: readSchedule,
    key: [change.idempotencyKey, id, 'schedule'],
    run: (stripe, options) => stripe.subscriptionSchedules.create({ from_subscription: id }, options),
    async current () {
      const { schedule } = (await read(change, id)).body
      return isSet(schedule) ? await readPlanned(change, idOf(schedule)) : null
    }
  })
  return body
}

async function readPlanned ({ call }: Change, id: string): Promise<ProviderResponse<AltprovSchedule>> {
  return await call(readSchedule, (stripe) => stripe.subscriptionSchedules.retrieve(id))
}

/** While a schedule controls a subscription, its cancellation cannot be changed, and a change of its price would not last. */
async function release (change: Change, { schedule }: AltprovSubscription): Promise<void> {
  if (!isSet(schedule)) return
  const id = idOf(schedule)
  await write(change.call, {
    read: readSchedule,
    key: [change.idempotencyKey, id, 'release'],
    run: (stripe, options) => stripe.subscriptionSchedules.release(id, {}, options),
    async current () {
      const released = await readPlanned(change, id)
      return released.body.current_phase === null ? released : null
    }
  })
}

function isGoingOn (subscription: AltprovSubscription): boolean {
  return !isCanceling(subscription)
}

/** The parameter that withdraws a cancellation: the provider accepts only one of the two. */
function goingOn (subscription: AltprovSubscription): Pick<Stripe.SubscriptionUpdateParams, 'cancel_at' | 'cancel_at_period_end'> {
  if (subscription.cancel_at_period_end) return { cancel_at_period_end: false }
  return isCanceling(subscription) ? { cancel_at: '' } : {}
}

/** The only item of the subscription. With several, added by hand, the one of the plan is unknown. */
function onlyItem ({ items: { data: [item, ...others] } }: AltprovSubscription): AltprovItem {
  if (item !== undefined && others.length === 0) return item
  throw failure('providerRefused', { message: 'The subscription has several items: ask the platform to change it' })
}

/** A phase for an update, which replaces it as a whole. */
function asItIs (phase: AltprovPhase): Stripe.SubscriptionScheduleUpdateParams.Phase {
  const { start_date: start, end_date: end, trial_end: trialEnd, items } = phase
  return {
    ...carriedOn(phase),
    start_date: start,
    end_date: end,
    ...trialEnd === null ? {} : { trial_end: trialEnd },
    items: items.map(({ price, quantity, discounts, tax_rates: taxRates }) => ({
      price: idOf(price),
      ...quantity === undefined ? {} : { quantity },
      ...discountsOf(discounts),
      ...isSome(taxRates) ? { tax_rates: taxRates.map(idOf) } : {}
    }))
  }
}

/** The common parts of a phase and the next. */
function carriedOn (
  { discounts, default_tax_rates: taxRates, automatic_tax: tax }: AltprovPhase
): Omit<Stripe.SubscriptionScheduleUpdateParams.Phase, 'items'> {
  return {
    ...discountsOf(discounts),
    ...isSome(taxRates) ? { default_tax_rates: taxRates.map(idOf) } : {},
    ...tax === null || tax === undefined ? {} : { automatic_tax: { enabled: tax.enabled } }
  }
}

function discountsOf (discounts: AltprovDiscounts | undefined): { discounts?: Stripe.SubscriptionScheduleUpdateParams.Phase.Discount[] } {
  if (!isSome(discounts)) return {}
  return {
    discounts: discounts.map(({ discount, promotion_code: code, coupon }) => {
      if (discount !== null && discount !== undefined) return { discount: idOf(discount) }
      if (code !== null && code !== undefined) return { promotion_code: idOf(code) }
      return coupon === null || coupon === undefined ? {} : { coupon: idOf(coupon) }
    })
  }
}

function isSet<T> (value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

function isSome<T> (list: T[] | null | undefined): list is T[] {
  return list !== null && list !== undefined && list.length > 0
}

function onePeriod ({ recurring }: AltprovPrice): { interval: 'day' | 'week' | 'month' | 'year', interval_count: number } {
  if (recurring === null) throw failure('providerFailed', { cause: new Error('ALTPROV_PRODUCT_MAP names a price that is not recurring') })
  return recurring
}

/**
 * The price of that id, or of the product of that id: its default price, else its only active recurring one. Throws `notFound` if neither
 * exists, `providerFailed` if the product's price is ambiguous.
 */
export async function priceOf (call: AltprovCall, product: string): Promise<AltprovPrice> {
  checkId(product)
  if (/^(price|plan)_/.test(product)) return (await call(readPrice, (stripe) => stripe.prices.retrieve(product))).body
  const { body: { default_price: standard } } = await call(readProduct, (stripe) =>
    stripe.products.retrieve(product, { expand: ['default_price'] }))
  if (standard?.recurring) return standard
  const { body: { data: [only, ...others] } } = await call(readPrices, (stripe) =>
    stripe.prices.list({ product, active: true, type: 'recurring', limit: 2 }))
  if (only !== undefined && others.length === 0) return only
  throw failure('providerFailed', {
    cause: new Error(
      `ALTPROV_PRODUCT_MAP names the product ${product}, which has ${
        only === undefined ? 'no' : 'more than one'
      } active recurring price and no default one: name the price`
    )
  })
}
