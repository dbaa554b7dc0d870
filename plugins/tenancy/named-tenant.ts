/** Which tenant a login, or another call without a token, is for: the one that `X-Tenant-ID` names, or the platform. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import { tenantHeader } from './resolution.js'
import { requireActive, type Tenant } from './tenant.js'

/** Whom a login names. */
export interface NamedTenant {
  /** Empty for the platform. */
  readonly id: string
  /** Whoever logs in is not told where there is none. */
  readonly exists: boolean
}

/**
 * In the place of every tenant that is not there, and of none that is: their logins take the same way, wait in one turn
 * together however many ids somebody thinks of, and find no user; the audit log has no such tenant.
 */
export const unknownTenant = '?'

/** Throws `tenantInvalid`, `tenantSuspended`. */
export async function namedTenant (request: FastifyRequest): Promise<NamedTenant> {
  const id = tenantHeader(request)
  return id === undefined ? { id: '', exists: true } : { id, exists: await activeTenant(request, id) !== null }
}

/** undefined for the platform. Throws `tenantInvalid`, `tenantSuspended`, `tenantUnknown`. */
export async function existingTenant (request: FastifyRequest): Promise<Tenant | undefined> {
  const id = tenantHeader(request)
  if (id === undefined) return undefined
  const tenant = await activeTenant(request, id)
  if (tenant === null) throw failure('tenantUnknown')
  return tenant
}

/**
 * The tenant that a one-time token names is there, and no header names another one; the empty tenant is the platform.
 * Throws `tenantInvalid`, `tenantSuspended`.
 */
export async function isReachable (request: FastifyRequest, tenant: string): Promise<boolean> {
  const header = tenantHeader(request)
  if (header !== undefined && header !== tenant) return false
  return tenant === '' || await activeTenant(request, tenant) !== null
}

async function activeTenant ({ server: { tenants } }: FastifyRequest, id: string): Promise<Tenant | null> {
  const tenant = await tenants.get(id)
  if (tenant !== null) requireActive(tenant)
  return tenant
}
