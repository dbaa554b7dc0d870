/** The tenant of a request, for endpoints that need one. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import type { TenantId } from '../../lib/identity/tenant-ref.js'
import type { Tenant } from './tenant.js'

/** The tenant of the request; throws `tenantRequired` without one. */
export function requiredTenant ({ tenant }: FastifyRequest): Tenant {
  if (tenant === null || tenant === undefined) throw failure('tenantRequired')
  return tenant
}

/** The id of the request's tenant; throws `tenantRequired` without one. */
export function tenantOf (request: FastifyRequest): TenantId {
  return requiredTenant(request).id
}
