/** The account whose share of the process a request uses. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { tenantAccount } from '../concurrency/event-loop-yielder.js'
import { addressKey } from './address-key.js'
import { tenantIdOf } from '../identity/tenant-ref.js'

/** The tenant of the token. Otherwise the address, so that a stranger who names a tenant cannot use up its share. */
export function accountOf ({ auth, tenant, ip }: FastifyRequest, trustsHeader: boolean): string {
  const id = auth?.tenant_id ?? (trustsHeader ? tenant?.id : undefined)
  return id === undefined ? `address ${addressKey(ip)}` : tenantAccount(tenantIdOf(id))
}

/** A header names the tenant of a request, and the server trusts it. */
export function trustsTenantHeader (app: FastifyInstance): boolean {
  return app.hasDecorator('tenancy') && app.tenancy.trustHeader
}
