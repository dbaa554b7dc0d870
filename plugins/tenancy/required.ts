/** The tenant and the caller that endpoints of a tenant need. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'

/** The tenant of the request; throws `tenantRequired` where it has none. */
export function tenantOf ({ tenant }: FastifyRequest): string {
  if (tenant === null || tenant === undefined) throw failure('tenantRequired')
  return tenant.id
}
