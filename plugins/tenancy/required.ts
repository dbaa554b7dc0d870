/** The tenant and the caller that endpoints of a tenant need. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import type { TenantId } from '../../lib/identity/tenant-ref.js'

/** The tenant of the request; throws `tenantRequired` without one. */
export function tenantOf ({ tenant }: FastifyRequest): TenantId {
  if (tenant === null || tenant === undefined) throw failure('tenantRequired')
  return tenant.id
}
