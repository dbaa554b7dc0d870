/** The endpoints of Stripe's API that the platform uses, with their documented parameters. */
import type { Account } from './account.js'
import { periodAfter } from './account.js'
import { Params, Refusal } from './form.js'
import type { Discount, Phase, Session, StoredObject, Subscription } from './objects.js'

type Endpoint = (account: Account, params: Params, id: string) => unknown

const endpoints: readonly (readonly [method: 'GET' | 'POST', path: RegExp, run: Endpoint])[] = [
  ['GET', /^\/v1\/customers\/search$/, search('customer')],
  ['GET', /^\/v1\/customers\/([^/]+)$/, (account, _params, id) =>
    account.deleted.has(id) ? { id, object: 'customer', deleted: true } : account.one('customer', id)],
  ['POST', /^\/v1\/customers$/, (account, params) => {
    const customer = account.addCustomer(params.map('metadata') ?? {})
    customer.email = params.text('email') ?? null
    return customer
  }],
  ['POST', /^\/v1\/customers\/([^/]+)$/, (account, params, id) => {
    const customer = account.one('customer', id)
    customer.email = params.text('email') ?? customer.email
    return customer
  }],
  ['GET', /^\/v1\/products\/([^/]+)$/, (account, _params, id) => account.one('product', id)],
  ['GET', /^\/v1\/prices$/, (account, params) => {
    const [product, active, type] = [params.text('product'), params.flag('active'), params.oneOf('type', ['recurring', 'one_time'])]
    return page(
      params,
      '/v1/prices',
      account.all('price').filter((price) =>
        (product === undefined || price.product === product) && (active === undefined || price.active === active) &&
        (type === undefined || price.type === type)
      )
    )
  }],
  ['GET', /^\/v1\/prices\/([^/]+)$/, (account, _params, id) => account.one('price', id)],
  ['POST', /^\/v1\/checkout\/sessions$/, checkout],
  ['GET', /^\/v1\/checkout\/sessions\/([^/]+)$/, (account, _params, id) => account.one('checkout.session', id)],
  ['GET', /^\/v1\/subscriptions\/search$/, search('subscription')],
  ['GET', /^\/v1\/subscriptions$/, (account, params) => {
    const [customer, status] = [params.text('customer'), params.oneOf('status', ['active', 'all', 'canceled', 'ended'])]
    if (customer !== undefined) account.one('customer', customer, 'customer')
    return page(
      params,
      '/v1/subscriptions',
      account.all('subscription').reverse().sort((one, other) => other.created - one.created)
        .filter((one) => (customer === undefined || one.customer === customer) && (status === 'all' || one.status !== 'canceled'))
    )
  }],
  ['GET', /^\/v1\/subscriptions\/([^/]+)$/, (account, _params, id) => account.one('subscription', id)],
  ['POST', /^\/v1\/subscriptions\/([^/]+)$/, updateSubscription],
  ['POST', /^\/v1\/subscription_schedules$/, (account, params) => {
    const subscription = account.one('subscription', params.required('from_subscription'), 'from_subscription')
    if (subscription.status === 'canceled') throw new Refusal(400, 'You cannot migrate a subscription that is already canceled.')
    if (subscription.cancel_at_period_end) {
      throw new Refusal(400, 'You cannot migrate a subscription that is set to cancel at the end of its period.')
    }
    if (subscription.schedule !== null) {
      throw new Refusal(400, `You cannot migrate a subscription that is already attached to a schedule: ${subscription.schedule}`)
    }
    return account.schedule(subscription)
  }],
  ['GET', /^\/v1\/subscription_schedules\/([^/]+)$/, (account, _params, id) => account.one('subscription_schedule', id)],
  ['POST', /^\/v1\/subscription_schedules\/([^/]+)$/, updateSchedule],
  ['POST', /^\/v1\/subscription_schedules\/([^/]+)\/release$/, (account, _params, id) => {
    const schedule = account.one('subscription_schedule', id)
    if (schedule.status !== 'active') {
      throw new Refusal(400, `You cannot release a subscription schedule that is currently in the \`${schedule.status}\` status.`)
    }
    account.release(schedule)
    return schedule
  }]
]

/** Runs the endpoint of the path, and expands its response as requested. Throws a Refusal. */
export function respond (account: Account, method: string, path: string, params: Params): unknown {
  for (const [endpointMethod, pattern, run] of endpoints) {
    const match = endpointMethod === method ? pattern.exec(path) : null
    if (match === null) continue
    const expand = params.texts('expand')
    const answered: unknown = structuredClone(run(account, params, decodeURIComponent(match[1] ?? '')))
    params.done()
    for (const name of expand) expandIn(account, answered, name)
    return answered
  }
  throw new Refusal(
    404,
    `Unrecognized request URL (${method}: ${path}). Please see https://stripe.com/docs or we can help at https://support.stripe.com/.`
  )
}

function search (object: 'customer' | 'subscription'): Endpoint {
  return (account, params) => {
    const query = params.required('query')
    const tenant = /^metadata\['tenant_id'\]:'([^'\\]*)'$/.exec(query)?.[1]
    if (tenant === undefined) throw new Refusal(400, `We were unable to parse your search query: ${query}`)
    const stored: (StoredObject & { created: number, metadata: Record<string, string> })[] = account.all(object)
    const found = stored.filter(({ created, metadata }) =>
      metadata['tenant_id'] === tenant && created * 1000 + account.searchLag <= account.now()
    )
    return {
      object: 'search_result',
      url: `/v1/${object}s/search`,
      data: found.slice(0, limitOf(params)),
      has_more: found.length > limitOf(params),
      next_page: null
    }
  }
}

function page (params: Params, url: string, all: readonly StoredObject[]) {
  const after = params.text('starting_after')
  const rest = after === undefined ? all : all.slice(all.findIndex(({ id }) => id === after) + 1)
  return { object: 'list', url, data: rest.slice(0, limitOf(params)), has_more: rest.length > limitOf(params) }
}

function limitOf (params: Params): number {
  const limit = params.integer('limit') ?? 10
  if (limit < 1 || limit > 100) throw new Refusal(400, 'Invalid integer: limit must be between 1 and 100', { param: 'limit' })
  return limit
}

function checkout (account: Account, params: Params): Session {
  const mode = params.oneOf('mode', ['subscription'])
  if (mode === undefined) throw new Refusal(400, 'Missing required param: mode.', { code: 'parameter_missing', param: 'mode' })
  const customer = account.one('customer', params.required('customer'), 'customer')
  const lines = params.list(
    'line_items',
    (line) => ({ price: account.one('price', line.required('price'), 'line_items[0][price]'), quantity: line.integer('quantity') })
  )
  const [line, ...others] = lines ?? []
  if (line?.quantity === undefined || others.length > 0) {
    throw new Refusal(400, 'Missing required param: line_items.', { code: 'parameter_missing', param: 'line_items' })
  }
  if (line.price.recurring === null) {
    throw new Refusal(400, 'You must provide at least one recurring price in `subscription` mode when using prices.')
  }
  const id = account.newId('cs_test')
  const metadata = params.object('subscription_data', (data) => data.map('metadata')) ?? {}
  const session: Session = {
    id,
    object: 'checkout.session',
    mode,
    status: 'open',
    url: `https://checkout.example/c/pay/${id}`,
    customer: customer.id,
    client_reference_id: params.text('client_reference_id') ?? null,
    metadata: { ...params.map('metadata'), ...metadata },
    subscription: null,
    amount_total: line.price.unit_amount * line.quantity,
    currency: line.price.currency,
    success_url: absolute(params.required('success_url')),
    cancel_url: absolute(params.required('cancel_url'))
  }
  account.objects.set(id, session)
  prices.set(session, line.price.id)
  return session
}

const prices = new WeakMap<Session, string>()

/** The price of a session. */
export function priceOfSession (session: Session): string {
  return prices.get(session) ?? ''
}

function absolute (url: string): string {
  if (!/^https?:\/\//.test(url)) throw new Refusal(400, 'Not a valid URL', { code: 'url_invalid' })
  return url
}

function updateSubscription (account: Account, params: Params, id: string): Subscription {
  const subscription = account.one('subscription', id)
  const [atPeriodEnd, cancelAt] = [params.flag('cancel_at_period_end'), params.text('cancel_at')]
  params.oneOf('payment_behavior', ['allow_incomplete', 'error_if_incomplete'])
  params.oneOf('proration_behavior', ['always_invoice', 'create_prorations', 'none'])
  const items = params.list(
    'items',
    (item) => ({ id: item.required('id'), price: account.one('price', item.required('price'), 'items[0][price]') })
  )
  if (subscription.status === 'canceled') {
    throw new Refusal(400, 'A canceled subscription can only update its cancellation_details and metadata.')
  }
  if (atPeriodEnd !== undefined && cancelAt !== undefined) {
    throw new Refusal(400, 'Received both cancel_at and cancel_at_period_end parameters. Please pass in only one.')
  }
  if (subscription.schedule !== null && (atPeriodEnd !== undefined || cancelAt !== undefined)) {
    throw new Refusal(
      400,
      `The subscription is managed by the subscription schedule \`${subscription.schedule}\`, and updating any cancelation behavior directly is not allowed. Please update the schedule instead.`
    )
  }
  const [item] = subscription.items.data
  for (const { id: itemId, price } of items ?? []) {
    if (itemId !== item.id) {
      throw new Refusal(400, `No such subscription item: '${itemId}'`, { code: 'resource_missing', param: 'items[0][id]' })
    }
    account.changePrice(subscription, price)
  }
  if (cancelAt !== undefined) {
    subscription.cancel_at = cancelAt === '' ? null : Number(cancelAt)
    subscription.cancel_at_period_end = false
  }
  if (atPeriodEnd !== undefined) {
    subscription.cancel_at_period_end = atPeriodEnd
    subscription.cancel_at = atPeriodEnd ? item.current_period_end : null
    subscription.canceled_at = atPeriodEnd ? account.seconds() : null
  }
  return subscription
}

function updateSchedule (account: Account, params: Params, id: string) {
  const schedule = account.one('subscription_schedule', id)
  if (schedule.status !== 'active' || schedule.subscription === null) {
    throw new Refusal(400, 'You cannot update a subscription schedule that is not active.')
  }
  schedule.end_behavior = params.oneOf('end_behavior', ['release', 'cancel']) ?? schedule.end_behavior
  params.oneOf('proration_behavior', ['always_invoice', 'create_prorations', 'none'])
  let start: number | undefined
  const phases = params.list('phases', (phase) => {
    const read = phaseOf(account, phase, start)
    start = read.end_date
    return read
  })
  if (phases === undefined) return schedule
  const now = account.seconds()
  const current = phases.find(({ start_date: from, end_date: to }) => from <= now && now < to)
  if (current === undefined || current.start_date !== schedule.current_phase?.start_date) {
    throw new Refusal(400, 'You can not modify the start date of the current phase.', { param: 'phases[0][start_date]' })
  }
  schedule.phases = phases
  schedule.current_phase = { start_date: current.start_date, end_date: current.end_date }
  return schedule
}

/** @param start the end of the phase before */
function phaseOf (account: Account, params: Params, start: number | undefined): Phase {
  const from = params.integer('start_date') ?? start
  if (from === undefined) throw new Refusal(400, 'The first phase needs a start_date.', { param: 'phases[0][start_date]' })
  const items = params.list('items', (item) => ({
    price: account.one('price', item.required('price'), 'phases[items][price]').id,
    quantity: item.integer('quantity') ?? 1,
    discounts: discountsOf(item),
    tax_rates: item.texts('tax_rates').map((id) => ({ id }))
  }))
  const [first] = items ?? []
  if (items === undefined || first === undefined) {
    throw new Refusal(400, 'Missing required param: phases[items].', { code: 'parameter_missing' })
  }
  const duration = params.object(
    'duration',
    (one) => ({
      interval: one.oneOf('interval', ['month', 'year']) ?? 'month' as const,
      interval_count: one.integer('interval_count') ?? 1
    })
  )
  const end = params.integer('end_date') ?? periodAfter(from, { recurring: duration ?? account.one('price', first.price).recurring })
  return {
    start_date: from,
    end_date: end,
    trial_end: params.integer('trial_end') ?? null,
    proration_behavior: params.oneOf('proration_behavior', ['always_invoice', 'create_prorations', 'none']) ?? 'create_prorations',
    discounts: discountsOf(params),
    default_tax_rates: params.texts('default_tax_rates').map((id) => ({ id })),
    automatic_tax: params.object('automatic_tax', (tax) => ({ enabled: tax.flag('enabled') ?? false })) ?? { enabled: false },
    items
  }
}

function discountsOf (params: Params): Discount[] {
  return params.list(
    'discounts',
    (one) => ({
      coupon: one.text('coupon') ?? null,
      discount: one.text('discount') ?? null,
      promotion_code: one.text('promotion_code') ?? null
    })
  ) ?? []
}

/** Replaces ids by their objects. A path through a list applies to each of its items. Allows at most four levels. */
function expandIn (account: Account, value: unknown, path: string): void {
  const names = path.split('.')
  if (names.length > 4) throw new Refusal(400, 'You cannot expand more than 4 levels of a property.', { param: 'expand' })
  const [name = '', ...rest] = names
  if (Array.isArray(value)) {
    for (const one of value) expandIn(account, one, path)
    return
  }
  if (value === null) return
  if (typeof value !== 'object' || !Object.hasOwn(value, name)) {
    throw new Refusal(400, `This property cannot be expanded (${path}).`, { param: 'expand' })
  }
  const member: unknown = Reflect.get(value, name)
  if (typeof member === 'string') Reflect.set(value, name, structuredClone(account.objects.get(member)))
  if (rest.length > 0) expandIn(account, Reflect.get(value, name), rest.join('.'))
}
