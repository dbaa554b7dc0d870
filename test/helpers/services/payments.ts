/** Stripe and Polar: the endpoints that the connectors `payment` and `payprov` call. */
import type { Test } from 'tap'
import type { Remote } from '../remote.js'
import { type Call, formBody, jsonBody, objectSchema, Refusal, type Reply, requireHeader, requireQuery, service } from './service.js'

/** https://docs.stripe.com/api: forms in, errors as `{error: {type, message}}`. */
export async function stripe (t: Test, key: string): Promise<Remote> {
  const refuse = (message: string): Reply => ({ status: 400, json: { error: { type: 'invalid_request_error', message } } })
  const authorized = (call: Call) =>
    requireHeader(call, 'authorization', `Bearer ${key}`, {
      status: 401,
      json: { error: { type: 'invalid_request_error', message: `Invalid API Key provided: ${key.slice(0, 7)}****` } }
    })
  const metadata = (form: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(form).flatMap(([name, value]) => name.startsWith('metadata[') ? [[name.slice(9, -1), value]] : []))
  return await service(t, {
    'POST /v1/payment_intents': (call) => {
      authorized(call)
      const form = formBody(call, {
        amount: 'required',
        currency: 'required',
        customer: 'optional',
        payment_method: 'optional',
        confirm: 'optional',
        'automatic_payment_methods[enabled]': 'optional',
        description: 'optional',
        receipt_email: 'optional',
        'metadata[]': 'optional'
      }, refuse)
      if (!/^\d+$/.test(form['amount'] ?? '')) throw new Refusal(refuse('Invalid integer: amount'))
      return {
        status: 200,
        json: {
          id: 'pi_1',
          object: 'payment_intent',
          amount: Number(form['amount']),
          currency: form['currency'],
          metadata: metadata(form),
          status: 'requires_payment_method'
        }
      }
    },
    'POST /v1/customers': (call) => {
      authorized(call)
      const form = formBody(call, {
        email: 'optional',
        name: 'optional',
        phone: 'optional',
        description: 'optional',
        payment_method: 'optional',
        'metadata[]': 'optional'
      }, refuse)
      return {
        status: 200,
        json: { id: 'cus_1', object: 'customer', email: form['email'] ?? null, name: form['name'] ?? null, metadata: metadata(form) }
      }
    },
    'POST /v1/subscriptions': (call) => {
      authorized(call)
      const form = formBody(call, {
        customer: 'required',
        'items[0][price]': 'required',
        'items[0][quantity]': 'optional',
        trial_period_days: 'optional',
        default_payment_method: 'optional',
        payment_behavior: 'optional',
        'metadata[]': 'optional'
      }, refuse)
      return {
        status: 200,
        json: {
          id: 'sub_1',
          object: 'subscription',
          customer: form['customer'],
          items: { data: [{ price: { id: form['items[0][price]'] }, quantity: Number(form['items[0][quantity]'] ?? 1) }] },
          status: 'active'
        }
      }
    },
    'DELETE /v1/subscriptions/:id': (call) => {
      authorized(call)
      requireQuery(call, ['invoice_now', 'prorate'], refuse)
      return { status: 200, json: { id: call.params['id'], object: 'subscription', status: 'canceled' } }
    }
  })
}

const text = { type: 'string', minLength: 1 }
const id = { type: 'string', pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' }

/** https://docs.polar.sh/api-reference, version 2026-04: errors as `{error, detail}`. */
export async function polar (t: Test, token: string): Promise<Remote> {
  const refuse = (detail: string): Reply => ({ status: 422, json: { error: 'RequestValidationError', detail } })
  const authorized = (call: Call) => {
    requireHeader(call, 'authorization', `Bearer ${token}`, { status: 401, json: { error: 'invalid_token' } })
    requireHeader(call, 'polar-version', '2026-04', refuse('Polar-Version'))
  }
  const list = (items: readonly object[]) => ({ status: 200, json: { items, pagination: { total_count: items.length, max_page: 1 } } })
  const one = (name: string) => (call: Call): Reply => {
    authorized(call)
    return { status: 200, json: { id: call.params['id'], name } }
  }
  const paging = ['page', 'limit']
  return await service(t, {
    'POST /v1/checkouts/': (call) => {
      authorized(call)
      const body = jsonBody(
        call,
        objectSchema({
          products: { type: 'array', items: id, minItems: 1 },
          customer_id: id,
          external_customer_id: text,
          customer_email: text,
          customer_name: text,
          amount: { type: 'integer' },
          discount_id: id,
          allow_discount_codes: { type: 'boolean' },
          success_url: text,
          return_url: text,
          metadata: { type: 'object' }
        }, ['products']),
        refuse
      )
      return {
        status: 201,
        json: {
          id: 'checkout',
          url: 'https://polar.example/checkout',
          products: body['products'],
          customer_email: body['customer_email'] ?? null
        }
      }
    },
    'GET /v1/checkouts/:id': one('checkout'),
    'GET /v1/subscriptions/': (call) => {
      authorized(call)
      requireQuery(call, ['customer_id', 'external_customer_id', 'product_id', 'active', ...paging], refuse)
      return list([{ id: 's', active: call.query['active'] }])
    },
    'GET /v1/subscriptions/:id': one('subscription'),
    'PATCH /v1/subscriptions/:id': (call) => {
      authorized(call)
      jsonBody(call, objectSchema({ cancel_at_period_end: { const: true } }, ['cancel_at_period_end']), refuse)
      return { status: 200, json: { id: call.params['id'], cancel_at_period_end: true } }
    },
    'POST /v1/customers/': (call) => {
      authorized(call)
      return {
        status: 201,
        json: {
          id: 'customer',
          ...jsonBody(call, objectSchema({ email: text, name: text, external_id: text, metadata: { type: 'object' } }, ['email']), refuse)
        }
      }
    },
    'GET /v1/customers/': (call) => {
      authorized(call)
      requireQuery(call, ['email', 'query', ...paging], refuse)
      return list([{ id: 'c', email: call.query['email'] }])
    },
    'GET /v1/customers/:id': one('customer'),
    'GET /v1/products/': (call) => {
      authorized(call)
      requireQuery(call, ['is_archived', 'is_recurring', ...paging], refuse)
      return list([{ id: 'p', limit: call.query['limit'] }])
    }
  })
}
