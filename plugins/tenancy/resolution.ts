/** The two steps that set `request.tenant`. */
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Claims } from '../../lib/expressions/types.js'
import type { ActingRequest } from '../auth/actor.js'
import type { Provision } from './provisioning.js'
import { failure } from '../../lib/errors.js'
import { isTenantId, tenantIdOf, type TenantId } from '../../lib/identity/tenant-ref.js'
import { hookWhenKnown } from '../../lib/concurrency/when-known.js'
import { isPlatformAdmin, tokenMissing } from '../auth/access.js'
import { keyOf } from '../auth/callers.js'
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

/** The tenant that a known caller or a gateway names. For other callers, only the id's form is checked here; the look-up follows later. */
export function createCallerStep ({ provision, lookup, trustHeader }: ResolutionOptions, publicTenant: boolean): onRequestHookHandler {
  return (request, _reply, done) => {
    const { auth } = request
    const claimed = auth?.tenant_id
    const header = tenantHeader(request)
    if (auth !== null && claimed !== undefined) {
      if (header !== undefined && header !== claimed) throw failure('tenantMismatch')
      return enter(request, provision(tenantIdOf(claimed), issuedAt(auth), request), done)
    }
    if (header === undefined) return done()
    // The platform's administrators only name existing tenants, also through a gateway, so that a typing error creates no tenant.
    if (trustHeader && (auth === null || !isPlatformAdmin(auth))) return enter(request, provision(header, null, request), done)
    if (auth === null) {
      if (!publicTenant) throw tokenMissing()
      return done()
    }
    if (!isPlatformAdmin(auth)) throw failure('tenantMismatch', { message: nameless })
    enter(request, lookup(header), done)
  }
}

/**
 * The tenant that a caller without a token names. It runs after the rate limit, which limits look-ups of unverified ids.
 *
 * @param inQuery allows the parameter `tenant` of a `post` without the header, since services that send webhooks set no headers
 */
export function createUnauthenticatedStep ({ lookup }: ResolutionOptions, inQuery: boolean): onRequestHookHandler {
  return (request, _reply, done) => {
    if (request.auth !== null || request.tenant !== null) return done()
    const id = request.headers['x-tenant-id'] ?? (inQuery && request.method === 'POST' ? inQueryOf(request) : undefined)
    if (id === undefined) return done()
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

/** The active tenant of a caller that another plugin has identified. Throws, or rejects with, the errors of the route's steps. */
export type Admission = (request: ActingRequest & Pick<FastifyRequest, 'headers'>, auth: Claims) => Promise<Tenant>

export function createAdmission ({ provision, lookup, trustHeader }: ResolutionOptions): Admission {
  return async (request, auth) => {
    const claimed = auth.tenant_id
    const header = tenantHeader(request)
    if (claimed !== undefined && header !== undefined && header !== claimed) throw failure('tenantMismatch')
    if (claimed === undefined && header === undefined) throw failure('tenantRequired')
    const byPlatform = isPlatformAdmin(auth)
    if (claimed === undefined && !trustHeader && !byPlatform) throw failure('tenantMismatch', { message: nameless })
    const id = claimed ?? header ?? ''
    const tenant = await (byPlatform ? lookup(id) : provision(tenantIdOf(id), claimed === undefined ? null : issuedAt(auth), request))
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
  requireActive(tenant, request.auth !== null && request.auth.tenant_id === undefined && isPlatformAdmin(request.auth))
  request.tenant = tenant
}

/** Milliseconds since 1970. A token without an issue time counts as older than any deletion. A key ends with its tenant. */
function issuedAt (auth: Claims): number | null {
  if (keyOf(auth) !== undefined) return null
  return typeof auth['iat'] === 'number' ? auth['iat'] * 1000 : -Infinity
}
