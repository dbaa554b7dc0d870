/** Which tenant a login is for: the one that `X-Tenant-ID` names, or the platform (DESIGN 5 "Login"). */
import type { FastifyRequest } from 'fastify'
import type { Tenant } from '../tenancy/tenant.js'
import { failure } from '../../lib/errors.js'
import { isTenantId } from '../../lib/tenant-id.js'

/** null for the platform. Throws `tenantInvalid`, `tenantUnknown`, `tenantSuspended`. */
export async function namedTenant ({ headers, server: { tenants } }: FastifyRequest): Promise<Tenant | null> {
  const id = headers['x-tenant-id']
  if (id === undefined) return null
  // Node joins several headers with a comma, which no id has.
  if (!isTenantId(id)) throw failure('tenantInvalid')
  const tenant = await tenants.get(id)
  if (tenant === null) throw failure('tenantUnknown')
  if (tenant.status === 'suspended') throw failure('tenantSuspended')
  if (tenant.status === 'deleting') throw failure('tenantSuspended', { message: 'The tenant is being deleted' })
  return tenant
}
