/** The used part of Polar's API, as documented: paths, parameters, bodies and pages. */
import type { TSchema } from 'typebox'
import { Type } from 'typebox'
import { compileValidator, type PartValidator } from '../../../lib/validation/validator.js'
import { Account, type CheckoutInput, type Update } from './account.js'
import { iso } from './records.js'
import { invalid, notFound } from './refusal.js'

export interface Asked {
  readonly account: Account
  readonly id: string
  readonly query: URLSearchParams
  readonly body: unknown
  /** The address of the server. */
  readonly address: string
}

export interface Route {
  readonly method: string
  readonly path: RegExp
  readonly status?: number
  readonly run: (asked: Asked) => object
}

const Uuid = Type.String({ format: 'uuid' })
const Url = Type.String({ pattern: '^https?://[^\\s]+$', maxLength: 2083 })
const Metadata = Type.Record(
  Type.String({ maxLength: 40 }),
  Type.Union([Type.String({ minLength: 1, maxLength: 500 }), Type.Number(), Type.Boolean()]),
  { maxProperties: 50 }
)
const closed = { additionalProperties: false }
const Interval = Type.Enum(['day', 'week', 'month', 'year'])
const minimumAmounts: Readonly<Record<string, number>> = { usd: 50, eur: 50, gbp: 40 }

const body = {
  checkout: reader<CheckoutInput>(Type.Object({
    products: Type.Array(Uuid, { minItems: 1 }),
    external_customer_id: Type.Optional(Type.String({ minLength: 1 })),
    customer_email: Type.Optional(Type.String({ format: 'email' })),
    currency: Type.Optional(Type.Union([Type.String({ pattern: '^[a-z]{3}$' }), Type.Null()])),
    metadata: Type.Optional(Metadata),
    success_url: Type.Optional(Url),
    return_url: Type.Optional(Url)
  }, closed)),
  update: reader<Update>(Type.Union([
    Type.Object({
      cancel_at_period_end: Type.Boolean(),
      customer_cancellation_reason: Type.Optional(Type.String()),
      customer_cancellation_comment: Type.Optional(Type.String())
    }, closed),
    Type.Object({ revoke: Type.Literal(true) }, closed),
    Type.Object({ pending_update: Type.Null() }, closed),
    Type.Object({ product_id: Uuid, proration_behavior: Type.Optional(Type.Enum(['invoice', 'prorate', 'next_period', 'reset'])) }, closed)
  ])),
  product: reader<
    {
      name: string,
      description?: string | null,
      recurring_interval?: 'day' | 'week' | 'month' | 'year' | null,
      prices: Array<{ price_amount?: number, price_currency?: string }>,
      metadata?: Record<string, string | number | boolean>
    }
  >(Type.Object({
    name: Type.String({ minLength: 3, maxLength: 64 }),
    description: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    metadata: Type.Optional(Metadata),
    recurring_interval: Type.Optional(Type.Union([Interval, Type.Null()])),
    recurring_interval_count: Type.Optional(Type.Integer({ minimum: 1 })),
    prices: Type.Array(
      Type.Object({
        amount_type: Type.Literal('fixed'),
        price_amount: Type.Integer({ minimum: 0 }),
        price_currency: Type.Optional(Type.String({ pattern: '^[a-z]{3}$' }))
      }, closed),
      { minItems: 1 }
    )
  }, closed))
}

const uuid = '([0-9A-Za-z-]+)'

export const routes: readonly Route[] = [
  { method: 'GET', path: /^\/v1\/products\/$/, run: listProducts },
  { method: 'POST', path: /^\/v1\/products\/$/, status: 201, run: createProduct },
  { method: 'GET', path: one('products'), run: ({ account, id }) => account.product(id) },
  {
    method: 'POST',
    path: /^\/v1\/checkouts\/$/,
    status: 201,
    run: (asked) => asked.account.checkout(body.checkout(asked.body), asked.address)
  },
  { method: 'GET', path: one('checkouts'), run: ({ account, id }) => there(account.checkouts.get(id)) },
  { method: 'GET', path: /^\/v1\/customers\/$/, run: listCustomers },
  { method: 'GET', path: one('customers'), run: ({ account, id }) => there(account.customers.get(id)) },
  { method: 'GET', path: one('customers', '/state'), run: ({ account, id }) => account.state(id) },
  { method: 'GET', path: one('customers', '/payment-methods'), run: listMethods },
  { method: 'GET', path: /^\/v1\/subscriptions\/$/, run: listSubscriptions },
  { method: 'GET', path: one('subscriptions'), run: ({ account, id }) => account.subscription(id) },
  { method: 'PATCH', path: one('subscriptions'), run: (asked) => asked.account.update(asked.id, body.update(asked.body)) },
  { method: 'DELETE', path: one('subscriptions'), run: ({ account, id }) => account.update(id, { revoke: true }) }
]

function one (resource: string, rest = ''): RegExp {
  return new RegExp(`^/v1/${resource}/${uuid}${rest}$`)
}

function there<T> (record: T | undefined): T {
  if (record === undefined) throw notFound()
  return record
}

function reader<T> (schema: TSchema): (value: unknown) => T {
  const validate = compileValidator(schema, 'body')
  return (value) => {
    if (isRight<T>(value, validate)) return value
    const [error] = validate(value) ?? []
    throw invalid(
      'body',
      (error?.instancePath ?? '').slice(1).replaceAll('/', '.'),
      `${error?.message ?? ''} ${JSON.stringify(error?.params ?? {})}`
    )
  }
}

function isRight<T> (value: unknown, validate: PartValidator): value is T {
  return validate(value) === null
}

function createProduct ({ account, body: given }: Asked): object {
  const { name, description = null, recurring_interval: interval = null, prices, metadata = {} } = body.product(given)
  for (const [index, { price_amount: amount = 0, price_currency: currency = 'usd' }] of prices.entries()) {
    if (amount > 0 && amount < (minimumAmounts[currency] ?? 50)) {
      throw invalid('body', `prices.${index}.price_amount`, 'Amount is below the minimum of the currency.')
    }
  }
  return account.addProduct({
    name,
    description,
    interval,
    metadata,
    prices: prices.map(({ price_amount: amount = 0, price_currency: currency = 'usd' }) => ({ amount, currency }))
  })
}

function listProducts ({ account, query }: Asked): object {
  const [ids, archived, metadata] = [query.getAll('id'), query.get('is_archived'), metadataOf(query)]
  return page(
    [...account.products.values()]
      .filter((product) =>
        (ids.length === 0 || ids.includes(product.id)) && (archived === null || product.is_archived === (archived === 'true')) &&
        metadata.every(([key, value]) => String(product.metadata[key]) === value)
      ),
    query,
    ['id', 'is_archived', ...metadata.map(([key]) => `metadata[${key}]`)],
    { created_at: (product) => product.created_at, name: (product) => product.name }
  )
}

function metadataOf (query: URLSearchParams): [key: string, value: string][] {
  return [...query].flatMap(([name, value]) => /^metadata\[(.+)\]$/.exec(name)?.slice(1).map((key): [string, string] => [key, value]) ?? [])
}

function listCustomers ({ account, query }: Asked): object {
  const email = query.get('email')
  return page([...account.customers.values()].filter((customer) => email === null || customer.email === email), query, ['email'], {
    created_at: (customer) => customer.created_at,
    email: (customer) => customer.email
  })
}

function listMethods ({ account, id, query }: Asked): object {
  const customer = there(account.customers.get(id))
  const method = {
    id: customer.default_payment_method_id,
    created_at: customer.created_at,
    modified_at: null,
    processor: 'stripe',
    customer_id: id,
    type: 'card',
    method_metadata: { brand: 'visa', last4: '4242', exp_month: 12, exp_year: 2030 },
    is_default: true
  }
  return page(typeof method.id === 'string' ? [method] : [], query, [], { created_at: ({ created_at: at }) => at })
}

function listSubscriptions ({ account, query }: Asked): object {
  const one = (name: string, value: string | null | undefined) =>
    query.getAll(name).length === 0 || query.getAll(name).includes(value ?? '')
  const metadata = metadataOf(query)
  return page(
    [...account.subscriptions.values()].filter((subscription) =>
      one('external_customer_id', subscription.customer.external_id) && one('customer_id', subscription.customer_id) &&
      one('product_id', subscription.product_id) && one('status', subscription.status) &&
      metadata.every(([key, value]) => String(subscription.metadata[key]) === value)
    ),
    query,
    ['external_customer_id', 'customer_id', 'product_id', 'status', ...metadata.map(([key]) => `metadata[${key}]`)],
    { started_at: (subscription) => subscription.started_at ?? '', status: (subscription) => subscription.status }
  )
}

/** A page as documented: `page` from 1, `limit` up to 100, `sorting`, and the number of pages. */
function page<T extends object> (
  items: T[],
  query: URLSearchParams,
  filters: readonly string[],
  sortable: Readonly<Record<string, (item: T) => string>>
): object {
  for (const name of query.keys()) {
    if (!['page', 'limit', 'sorting', ...filters].includes(name)) throw invalid('query', name, 'is not known to this server')
  }
  const [number, limit] = [count(query, 'page', 1, Infinity), count(query, 'limit', 10, 100)]
  const sorted = [...items]
  for (const by of query.getAll('sorting').reverse()) {
    const keyOf = sortable[by.replace(/^-/, '')]
    if (keyOf === undefined) throw invalid('query', 'sorting', `Input should be one of ${Object.keys(sortable).join(', ')}`)
    const direction = by.startsWith('-') ? -1 : 1
    sorted.sort((first, second) => direction * (keyOf(first) < keyOf(second) ? -1 : keyOf(first) > keyOf(second) ? 1 : 0))
  }
  return {
    items: sorted.slice((number - 1) * limit, number * limit),
    pagination: { total_count: items.length, max_page: Math.ceil(items.length / limit) }
  }
}

function count (query: URLSearchParams, name: string, byDefault: number, max: number): number {
  const value = Number(query.get(name) ?? byDefault)
  if (!Number.isInteger(value) || value < 1 || value > max) throw invalid('query', name, `Input should be a whole number from 1 to ${max}`)
  return value
}

/** The text of an event's body. */
export function eventText (type: string, data: object, at: number): string {
  return JSON.stringify({ type, timestamp: iso(at), api_version: '2026-04', data })
}
