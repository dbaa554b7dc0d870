/**
 * The tenant of a Stripe customer is in its metadata, as `tenant_id`, and is found by search. The search lags by a minute, in an outage by
 * an hour. So a customer is created under one idempotency key of its tenant, which creates no second one for a day, and subscriptions are
 * read by customer, never by search.
 */
import { failure } from '../../../../lib/errors.js'
import { isTenantId, type Owner } from '../../../../lib/identity/tenant-ref.js'
import type { CheckoutInput } from '../provider.js'
import { type AltprovCall, keyOf } from './client.js'
import { readCustomer, readCustomers, readFound } from './documented.js'
import { idOf } from './snapshot.js'
import { write } from './write.js'

const maxCustomers = 10 // of one tenant; several exist only if some were created by hand, or before a deletion

/** The tenant's first customer, created if it is missing. The metadata of a deleted tenant's customer can name the same id. */
export async function customerOf (
  call: AltprovCall,
  { tenant, deletedAt, email }: Pick<CheckoutInput, 'tenant' | 'deletedAt' | 'email'>
): Promise<string> {
  const since = deletedAt?.getTime()
  const found = (await customersOf(call, tenant)).find(({ created }) => since === undefined || created * 1000 > since)
  if (found !== undefined) return found.id
  const { body: made } = await write(call, {
    read: readCustomer,
    key: ['customer', tenant, ...since === undefined ? [] : [since]],
    // A repeated key needs equal content: the address is set afterwards.
    run: (stripe, options) => stripe.customers.create({ metadata: { tenant_id: tenant } }, options),
    async current (first) {
      if (first === null) return null
      const customer = await call(readCustomer, (stripe) => stripe.customers.retrieve(first.id))
      // A deleted one has no metadata.
      return customer.body.metadata?.tenant_id === tenant ? customer : null
    }
  })
  if (email === undefined || typeof made.email === 'string') return made.id
  await call(readCustomer, (stripe) =>
    stripe.customers.update(made.id, { email }, { idempotencyKey: keyOf('email', made.id, email) }))
  return made.id
}

/** Customers who may have the tenant's subscriptions, the known ones first: ten at most. */
export async function customersOfSubscriptions (call: AltprovCall, tenant: Owner, known: readonly string[]): Promise<string[]> {
  const query = ofTenant(tenant)
  const [customers, found] = await Promise.all([
    customersOf(call, tenant),
    call(readFound, (stripe) => stripe.subscriptions.search({ query, limit: 100 }))
  ])
  const customersOfFound = found.body.data.map(({ customer }) => idOf(customer))
  return [...new Set([...known, ...customers.map(({ id }) => id), ...customersOfFound])].slice(0, maxCustomers)
}

/** The oldest first, so that the same one is chosen each time. */
async function customersOf (call: AltprovCall, tenant: Owner) {
  const query = ofTenant(tenant)
  const { body } = await call(readCustomers, (stripe) => stripe.customers.search({ query, limit: 100 }))
  return body.data
    .filter(({ metadata }) => metadata?.tenant_id === tenant)
    .sort((one, other) => one.created - other.created || (one.id < other.id ? -1 : 1))
}

/** A query of the provider's search language; a tenant's id contains no character that ends the text. */
function ofTenant (tenant: Owner): string {
  if (!isTenantId(tenant)) throw failure('tenantInvalid')
  return `metadata['tenant_id']:'${tenant}'`
}
