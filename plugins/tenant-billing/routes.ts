/** The endpoints of tenants' billing and their schemas. */
import type { FastifyRequest } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { IdempotencyHeaders } from '../../lib/http/idempotency-key.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { actorOf } from '../auth/actor.js'
import { idempotencyKeyOf } from '../billing/idempotency.js'
import { errorResponses } from '../conventions/index.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import { Id, NewCheckout, NewProduct } from './input.js'
import { maxItems } from './pages.js'
import { Checkout, Customer, CustomerState, Product, Subscription } from './records.js'
import type { Request, TenantBilling } from './service.js'

const ListQuery = ClosedObject({
  cursor: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      expected: 'the `nextCursor` of a response of this list',
      description: 'The `nextCursor` of the previous response. Default: the first page.'
    })
  )
})
const ListOf = <Item extends TSchema>(item: Item) =>
  Type.Object({
    items: Type.Array(item, { maxItems, description: 'The records, oldest first.' }),
    nextCursor: Type.Optional(Type.String({ description: 'The value for `cursor` of the next page; absent on the last page.' }))
  })

const CancelQuery = ClosedObject({
  atPeriodEnd: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'If true, the subscription ends at the end of its current period. Default: false, it ends immediately.'
    })
  )
})
const CancelHeaders = IdempotencyHeaders(
  'A key that is the same for all attempts of one request. It is sent to the payment provider. Default: each request is a new one.'
)
const Canceled = Type.Object({
  success: Type.Boolean(),
  subscription: Subscription,
  cancelAtPeriodEnd: Type.Boolean({ description: 'True if the subscription ends at `current_period_end`.' })
})

const CustomerParams = Type.Object({ id: Id('The id of a customer.') })
const SubscriptionParams = Type.Object({ id: Id('The id of a subscription.') })

const tags = ['Tenant billing']
const config = { access: 'tenant-admin', permission: 'billing:write' } as const
const refusals = [400, 401, 403, 404, 424, 429, 500, 502, 503, 504] as const
const page = `Returns up to ${maxItems} records per response.`

export function tenantBillingRoutes (app: FastifyGroup, service: TenantBilling): void {
  app.get('/billing/tenant/products', {
    config,
    schema: {
      tags,
      summary: 'List products of the tenant',
      description: `${page} Archived products and prices are omitted.`,
      querystring: ListQuery,
      response: { 200: ListOf(Product), ...errorResponses(...refusals) }
    }
  }, async (request) => await service.products(tenantOf(request), request.query.cursor))

  app.post('/billing/tenant/products', {
    config: { ...config, idempotency: 'plain' },
    schema: { tags, summary: 'Create a product', body: NewProduct, response: { 201: Product, ...errorResponses(...refusals, 413) } }
  }, async (request, reply) => {
    const tenant = tenantOf(request)
    return reply.code(201).send(await service.createProduct(tenant, request.body, requestOf(request, tenant)))
  })

  app.post('/billing/tenant/checkout', {
    config: { ...config, idempotency: 'plain' },
    schema: {
      tags,
      summary: 'Create a checkout for a customer',
      body: NewCheckout,
      response: { 200: Checkout, ...errorResponses(...refusals, 413) }
    }
  }, async (request) => {
    const tenant = tenantOf(request)
    return await service.createCheckout(tenant, request.body, requestOf(request, tenant))
  })

  app.get('/billing/tenant/customers', {
    config,
    schema: {
      tags,
      summary: 'List customers of the tenant',
      description: page,
      querystring: ListQuery,
      response: { 200: ListOf(Customer), ...errorResponses(...refusals) }
    }
  }, async (request) => await service.customers(tenantOf(request), request.query.cursor))

  app.get('/billing/tenant/customers/:id/state', {
    config,
    schema: {
      tags,
      summary: 'Retrieve the subscriptions of a customer',
      params: CustomerParams,
      response: { 200: CustomerState, ...errorResponses(...refusals) }
    }
  }, async (request) => await service.customerState(tenantOf(request), request.params.id))

  app.get('/billing/tenant/subscriptions', {
    config,
    schema: {
      tags,
      summary: 'List subscriptions of the customers',
      description: `${page} Ended subscriptions are included.`,
      querystring: ListQuery,
      response: { 200: ListOf(Subscription), ...errorResponses(...refusals) }
    }
  }, async (request) => await service.subscriptions(tenantOf(request), request.query.cursor))

  app.delete('/billing/tenant/subscriptions/:id', {
    config,
    schema: {
      tags,
      summary: 'Cancel a subscription',
      description: 'Canceling a canceled subscription has the same response.',
      headers: CancelHeaders,
      params: SubscriptionParams,
      querystring: CancelQuery,
      response: { 200: Canceled, ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const tenant = tenantOf(request)
    const { subscription, cancelAtPeriodEnd } = await service.cancel(
      tenant,
      request.params.id,
      request.query.atPeriodEnd ?? false,
      requestOf(request, tenant)
    )
    return { success: true, subscription, cancelAtPeriodEnd }
  })
}

function requestOf (request: FastifyRequest, tenant: Owner): Request {
  return { actor: actorOf(request), life: requiredTenant(request).life, ...idempotencyKeyOf(request, tenant) }
}
