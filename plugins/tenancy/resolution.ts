/** The steps that set `request.tenant` to the tenant that a caller names. */
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { hookWhenKnown } from '../../lib/cache/async-cache.js'
import { failure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { isTenantId, type TenantId } from '../../lib/identity/tenant-ref.js'
import { isPlatformAdmin, tokenMissing } from '../auth/access.js'
import type { ActingRequest } from '../auth/actor.js'
import type { Provision } from './provisioning.js'
import { requireActive, type Tenant } from './tenant.js'

export interface ResolutionOptions {
  /** For verified ids: from a token, from a key, or from the gateway of `trustHeader`. */
  readonly provision: Provision
  readonly lookup: (id: string) => Tenant | null | Promise<Tenant | null>
  readonly trustHeader: boolean
}

/** The id in `X-Tenant-ID`; undefined without it. Throws `tenantInvalid`. */
export function tenantHeader ({ headers }: Pick<FastifyRequest, 'headers'>): TenantId | undefined {
  const id = headers['x-tenant-id']
  // Node joins repeated headers with a comma, which ids cannot contain.
  if (id !== undefined && !isTenantId(id)) throw failure('tenantInvalid')
  return id
}

const nameless = "The caller's token must have the tenant in its claim tenant_id: only administrators of the platform can use X-Tenant-ID"

/**
 * The tenant that a known caller or a gateway names; undefined if neither names one. The platform's administrators only name existing
 * tenants, also through a gateway, so that a typing error creates no tenant.
 */
function tenantNamed (
  { provision, lookup, trustHeader }: ResolutionOptions,
  request: NamingRequest,
  auth: Claims | null
): Tenant | null | Promise<Tenant | null> | undefined {
  const claimed = auth?.tenant_id
  const header = tenantHeader(request)
  if (auth !== null && claimed !== undefined) {
    if (header !== undefined && header !== claimed) throw failure('tenantMismatch')
    return provision(claimed, auth, request)
  }
  if (header === undefined) return undefined
  if (auth !== null && isPlatformAdmin(auth)) return lookup(header)
  if (trustHeader) return provision(header, null, request)
  if (auth !== null) throw failure('tenantMismatch', { message: nameless })
  return undefined
}

/** Sets the tenant that a known caller or a gateway names. For other callers, only the id's form is checked: the look-up follows later. */
export function createCallerStep (options: ResolutionOptions, publicTenant: boolean): onRequestHookHandler {
  return (request, _reply, done) => {
    const found = tenantNamed(options, request, request.auth)
    if (found !== undefined) return enter(request, found, done)
    if (request.auth === null && !publicTenant && request.headers['x-tenant-id'] !== undefined) throw tokenMissing()
    done()
  }
}

/**
 * The tenant that a caller without a token names. It runs after the rate limit, which limits look-ups of unverified ids.
 *
 * @param inQuery allows the parameter `tenant` of a `post` without the header, since services that send webhooks set no headers
 */
export function createUnauthenticatedStep ({ lookup }: ResolutionOptions, inQuery: boolean): onRequestHookHandler {
  return (request, _reply, done) => {
    if (request.auth !== null) return done()
    const id = request.headers['x-tenant-id'] ?? (inQuery && request.method === 'POST' ? inQueryOf(request) : undefined)
    // A repeated step checks the tenant that it found.
    if (id === undefined || (request.tenant !== null && request.tenant.id !== id)) return done()
    if (!isTenantId(id)) {
      throw failure('tenantInvalid', { message: 'The parameter tenant must be an id of 1 to 64 characters of A-Z a-z 0-9 _ -' })
    }
    enter(request, lookup(id), done)
  }
}

function inQueryOf ({ query }: FastifyRequest): unknown {
  const { tenant }: { tenant?: unknown } = Object(query)
  return tenant
}

type NamingRequest = ActingRequest & Pick<FastifyRequest, 'headers'>

/** The active tenant of a caller that another plugin has identified. Throws, or rejects with, the errors of the route's steps. */
export type Admission = (request: NamingRequest, auth: Claims) => Promise<Tenant>

export function createAdmission (options: ResolutionOptions): Admission {
  return async (request, auth) => {
    const found = tenantNamed(options, request, auth)
    if (found === undefined) throw failure('tenantRequired')
    const tenant = await found
    if (tenant === null) throw failure('tenantUnknown')
    requireActive(tenant)
    return tenant
  }
}

/** Synchronous if the tenant is cached. */
function enter (request: FastifyRequest, found: Tenant | null | Promise<Tenant | null>, done: (error?: Error) => void): void {
  hookWhenKnown(found, (tenant) => admit(request, tenant), done)
}

function admit (request: FastifyRequest, tenant: Tenant | null): void {
  if (tenant === null) throw failure('tenantUnknown')
  // When the step is repeated, a later tenant may have the id.
  if (request.tenant?.id === tenant.id && request.tenant.createdAt.getTime() !== tenant.createdAt.getTime()) throw failure('tenantUnknown')
  if (tenant.status !== 'active') requireActive(tenant, { byPlatform: request.auth !== null && isPlatformAdmin(request.auth) })
  request.tenant = tenant
}
