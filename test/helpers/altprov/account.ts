/** A Stripe account: its objects, and their changes by its dashboard, its customers and the end of periods. */
import { randomBytes } from 'node:crypto'
import type { Cycle } from '../../../plugins/billing/providers/provider.js'
import type { Change, Sold } from '../payment-world.js'
import { Refusal } from './form.js'
import type { Customer, PaymentMethod, Phase, Price, Product, Schedule, Session, StoredObject, Subscription } from './objects.js'

const day = 86_400 // s

export class Account {
  readonly objects = new Map<string, StoredObject>()
  /** The ids of deleted customers. */
  readonly deleted = new Set<string>()
  readonly #charges = new Map<string, number>()
  #milliseconds = Math.floor(Date.now() / 1000) * 1000
  /** Milliseconds until a search finds new objects. */
  searchLag = 0
  /** Whether payments are declined. */
  declines = false

  now (): number {
    return this.#milliseconds
  }

  seconds (): number {
    return Math.floor(this.#milliseconds / 1000)
  }

  advance (milliseconds: number): void {
    this.#milliseconds += milliseconds
  }

  newId (prefix: string): string {
    return `${prefix}_${randomBytes(12).toString('hex')}`
  }

  all<T extends StoredObject['object']> (object: T): Extract<StoredObject, { object: T }>[] {
    const isOne = (stored: StoredObject): stored is Extract<StoredObject, { object: T }> => stored.object === object
    return [...this.objects.values()].filter(isOne)
  }

  one<T extends StoredObject['object']> (object: T, id: string, param?: string): Extract<StoredObject, { object: T }> {
    const found = this.all(object).find((stored) => stored.id === id)
    if (found === undefined) {
      throw new Refusal(param === undefined ? 404 : 400, `No such ${object.replaceAll(/[_.]/g, ' ')}: '${id}'`, {
        code: 'resource_missing',
        param: param ?? 'id'
      })
    }
    return found
  }

  sell (
    { name, amount, currency, cycle }: { readonly name: string, readonly amount: number, readonly currency: string, readonly cycle: Cycle }
  ): Sold {
    const product: Product = { id: this.newId('prod'), object: 'product', active: true, name, default_price: null }
    const price = this.addPrice(product.id, { amount, currency, cycle })
    this.objects.set(product.id, { ...product, default_price: price })
    return { product: product.id, price }
  }

  addPrice (
    product: string,
    { amount, currency, cycle }: { readonly amount: number, readonly currency: string, readonly cycle: Cycle }
  ): string {
    const recurring = { interval: cycle === 'monthly' ? 'month' : 'year', interval_count: 1 } as const
    const price: Price = {
      id: this.newId('price'),
      object: 'price',
      active: true,
      currency,
      unit_amount: amount,
      product,
      type: 'recurring',
      recurring
    }
    this.objects.set(price.id, price)
    return price.id
  }

  addCustomer (metadata: Record<string, string>): Customer {
    const customer: Customer = {
      id: this.newId('cus'),
      object: 'customer',
      created: this.seconds(),
      email: null,
      metadata,
      invoice_settings: { default_payment_method: null }
    }
    this.objects.set(customer.id, customer)
    return customer
  }

  deleteCustomer (id: string): void {
    this.objects.delete(id)
    this.deleted.add(id)
  }

  /** Adds a subscription that is paid, or in its trial. */
  addSubscription (
    customer: string,
    price: Price,
    { metadata = {}, trialDays }: { metadata?: Record<string, string> | undefined, trialDays?: number | undefined } = {}
  ): Subscription {
    const id = this.newId('sub')
    const start = this.seconds()
    const trialEnd = trialDays === undefined ? null : start + trialDays * day
    const method: PaymentMethod = { id: this.newId('pm'), object: 'payment_method', type: 'card' }
    this.objects.set(method.id, method)
    const subscription: Subscription = {
      id,
      object: 'subscription',
      created: start,
      start_date: start,
      customer,
      currency: price.currency,
      status: trialEnd === null ? 'active' : 'trialing',
      metadata,
      cancel_at: null,
      cancel_at_period_end: false,
      canceled_at: null,
      ended_at: null,
      trial_end: trialEnd,
      schedule: null,
      default_payment_method: method.id,
      discounts: [],
      latest_invoice: this.newId('in'),
      items: {
        object: 'list',
        data: [{
          id: this.newId('si'),
          object: 'subscription_item',
          current_period_start: start,
          current_period_end: trialEnd ?? periodAfter(start, price),
          price,
          quantity: 1
        }],
        has_more: false,
        url: `/v1/subscription_items?subscription=${id}`
      }
    }
    this.objects.set(id, subscription)
    if (trialEnd === null) this.charge(subscription)
    return subscription
  }

  /** Charges the customer. Throws if the payment is declined. */
  charge (subscription: Subscription): void {
    if (this.declines) throw new Refusal(402, 'Your card was declined.', { type: 'card_error', code: 'card_declined' })
    this.#charges.set(subscription.id, this.charges(subscription.id) + 1)
    subscription.latest_invoice = this.newId('in')
  }

  charges (subscription: string): number {
    return this.#charges.get(subscription) ?? 0
  }

  pay (session: Session, price: Price): Subscription {
    const subscription = this.addSubscription(session.customer, price, { metadata: session.metadata })
    session.status = 'complete'
    session.url = null
    session.subscription = subscription.id
    return subscription
  }

  /** Changes the price at once, with a charge. A new interval begins a new period. */
  changePrice (subscription: Subscription, price: Price): void {
    const [item] = subscription.items.data
    if (item.price.id === price.id) return
    if (subscription.status !== 'trialing') this.charge(subscription)
    if (item.price.recurring?.interval !== price.recurring?.interval && subscription.status !== 'trialing') {
      item.current_period_start = this.seconds()
      item.current_period_end = periodAfter(this.seconds(), price)
    }
    item.price = price
  }

  change (id: string, change: Change): void {
    const subscription = this.one('subscription', id)
    switch (change) {
      case 'renew':
        return this.#renew(subscription)
      case 'pastDue':
        this.#nextPeriod(subscription)
        subscription.status = 'past_due'
        return
      case 'recover':
        this.charge(subscription)
        subscription.status = 'active'
        return
      case 'unpaid':
        subscription.status = 'unpaid'
        return
      case 'end':
        return this.#end(subscription, this.seconds())
    }
  }

  #renew (subscription: Subscription): void {
    if (subscription.cancel_at_period_end || subscription.cancel_at !== null) {
      return this.#end(subscription, subscription.items.data[0].current_period_end)
    }
    this.#nextPeriod(subscription)
    subscription.status = 'active'
    this.charge(subscription)
  }

  #end (subscription: Subscription, at: number): void {
    subscription.status = 'canceled'
    subscription.canceled_at ??= at
    subscription.ended_at = at
    if (subscription.schedule !== null) this.release(this.one('subscription_schedule', subscription.schedule))
  }

  #nextPeriod (subscription: Subscription): void {
    const [item] = subscription.items.data
    const start = item.current_period_end
    if (subscription.schedule !== null) this.#nextPhase(this.one('subscription_schedule', subscription.schedule), subscription, start)
    item.current_period_start = start
    item.current_period_end = periodAfter(start, item.price)
  }

  #nextPhase (schedule: Schedule, subscription: Subscription, at: number): void {
    const phase = schedule.phases.find(({ start_date: start, end_date: end }) => start <= at && at < end)
    if (phase === undefined) return this.release(schedule)
    schedule.current_phase = { start_date: phase.start_date, end_date: phase.end_date }
    subscription.items.data[0].price = this.one('price', phase.items[0]?.price ?? '')
  }

  release (schedule: Schedule): void {
    const subscription = this.one('subscription', schedule.subscription ?? '')
    subscription.schedule = null
    schedule.status = 'released'
    schedule.released_subscription = schedule.subscription
    schedule.subscription = null
    schedule.current_phase = null
  }

  /** A schedule with one phase: the current subscription until its period ends. */
  schedule (subscription: Subscription): Schedule {
    const [{ price, quantity, current_period_start: start, current_period_end: end }] = subscription.items.data
    const phase: Phase = {
      start_date: start,
      end_date: end,
      trial_end: subscription.trial_end !== null && subscription.trial_end > this.seconds() ? subscription.trial_end : null,
      proration_behavior: 'create_prorations',
      discounts: subscription.discounts.map((discount) => ({ coupon: null, discount, promotion_code: null })),
      default_tax_rates: [],
      automatic_tax: { enabled: false },
      items: [{ price: price.id, quantity, discounts: [], tax_rates: [] }]
    }
    const schedule: Schedule = {
      id: this.newId('sub_sched'),
      object: 'subscription_schedule',
      status: 'active',
      subscription: subscription.id,
      released_subscription: null,
      end_behavior: 'release',
      current_phase: { start_date: start, end_date: end },
      phases: [phase]
    }
    subscription.schedule = schedule.id
    this.objects.set(schedule.id, schedule)
    return schedule
  }
}

/** The end of a period of the price: the same day of a later month, or that month's last day. */
export function periodAfter (start: number, { recurring }: Pick<Price, 'recurring'>): number {
  const months = (recurring?.interval === 'year' ? 12 : 1) * (recurring?.interval_count ?? 1)
  const date = new Date(start * 1000)
  const days = date.getUTCDate()
  date.setUTCDate(1)
  date.setUTCMonth(date.getUTCMonth() + months)
  date.setUTCDate(Math.min(days, new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()))
  return date.getTime() / 1000
}
