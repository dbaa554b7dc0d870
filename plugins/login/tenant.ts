/** Which tenant a login is for: the one that `X-Tenant-ID` names, or the platform (DESIGN 5 "Login"). */
import type { FastifyRequest } from 'fastify'
import type { Tenant } from '../tenancy/tenant.js'
import { failure } from '../../lib/errors.js'
import { isTenantId } from '../../lib/tenant-id.js'

/** Whom a login names. */
export interface NamedTenant {
  /** Empty for the platform. */
  readonly id: string
  /** Whoever logs in is not told where there is none. */
  readonly exists: boolean
}

/** Throws `tenantInvalid`, `tenantSuspended`. */
export async function namedTenant (request: FastifyRequest): Promise<NamedTenant> {
  const id = idOf(request)
  return id === undefined ? { id: '', exists: true } : { id, exists: await active(request, id) !== null }
}

/** undefined for the platform. Throws `tenantInvalid`, `tenantSuspended`, `tenantUnknown`. */
export async function existingTenant (request: FastifyRequest): Promise<Tenant | undefined> {
  const id = idOf(request)
  if (id === undefined) return undefined
  const tenant = await active(request, id)
  if (tenant === null) throw failure('tenantUnknown')
  return tenant
}

function idOf ({ headers }: FastifyRequest): string | undefined {
  const id = headers['x-tenant-id']
  // Node joins several headers with a comma, which no id has.
  if (id !== undefined && !isTenantId(id)) throw failure('tenantInvalid')
  return id
}

async function active ({ server: { tenants } }: FastifyRequest, id: string): Promise<Tenant | null> {
  const tenant = await tenants.get(id)
  if (tenant?.status === 'suspended') throw failure('tenantSuspended')
  if (tenant?.status === 'deleting') throw failure('tenantSuspended', { message: 'The tenant is being deleted' })
  return tenant
}
