/** The tenant that calls without a token name, such as a login: the one in `X-Tenant-ID`, or the platform. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import { type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import { tenantHeader } from './resolution.js'
import { requireActive, type Tenant } from './tenant.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The tenant that a call without a token names; null on routes that do not set it. */
    namedTenant: NamedTenant | null
  }
}

/** The tenant of a login or of another call without a token: the one in `X-Tenant-ID`, or else the platform. */
export interface NamedTenant {
  readonly id: Owner
  /** A login does not reveal that a tenant does not exist. */
  readonly exists: boolean
}

/**
 * Stands for all unknown tenants. Their logins take the same path, share one turn for all ids, and find no user. The audit log has
 * no such tenant.
 */
export const unknownTenant = tenantRef('?')

/** The header for `/doc`. It is checked before validation. */
export function NamedTenantHeader (description: string) {
  return Type.Object({ 'X-Tenant-ID': Type.Optional(Type.String({ description })) })
}

/** For the context of routes that set `request.namedTenant`. */
export function decorateNamedTenant (app: FastifyInstance): void {
  app.decorateRequest('namedTenant', null)
}

/** For a route that set `request.namedTenant`. */
export function requireNamedTenant ({ namedTenant }: FastifyRequest): NamedTenant {
  if (namedTenant === null) throw new Error('the route did not look for the tenant of the request')
  return namedTenant
}

/** An `onRequest` hook. Rejects with `tenantInvalid`, `tenantSuspended`. */
export async function findNamedTenant (request: FastifyRequest): Promise<void> {
  const id = tenantHeader(request)
  request.namedTenant = id === undefined ? { id: platformRef, exists: true } : { id, exists: await activeTenant(request, id) !== null }
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
 * Whether the tenant of a one-time token exists and the header names no other one. The empty tenant is the platform. Throws
 * `tenantInvalid`, `tenantSuspended`.
 */
export async function isReachable (request: FastifyRequest, tenant: Owner): Promise<boolean> {
  const header = tenantHeader(request)
  if (header !== undefined && header !== tenant) return false
  return tenant === platformRef || await activeTenant(request, tenant) !== null
}

async function activeTenant ({ server: { tenants } }: FastifyRequest, id: string): Promise<Tenant | null> {
  const tenant = await tenants.get(id)
  if (tenant !== null) requireActive(tenant)
  return tenant
}
