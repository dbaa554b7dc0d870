/** The steps that set `request.tenant`: the tenant that a caller names, which exists or is created by its first request. */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import { Type } from 'typebox'
import { hookWhenKnown, whenKnown } from '../../lib/cache/async-cache.js'
import { writeAudit } from '../../lib/database/audit.js'
import type { Events } from '../../lib/database/events.js'
import { catalogue, failure, TenantryError } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { isTenantId, type Owner, platformRef, type TenantId, tenantIdOf, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isPlatformAdmin, tokenMissing } from '../auth/access.js'
import { type ActingRequest, actorOf } from '../auth/actor.js'
import { keyOf } from '../auth/callers.js'
import type { Erasure } from './erasure.js'
import type { TenantStore } from './store.js'
import { requireActive, type Tenant, type TenantLookup, type TenantMemory } from './tenant.js'

export interface ResolutionOptions {
  /** For verified ids: from a token, from a key, or from the gateway of `trustHeader`. */
  readonly provision: Provision
  readonly lookup: (id: string) => Tenant | null | Promise<Tenant | null>
  readonly trustHeader: boolean
}

/** The id in `X-Tenant-ID`; undefined without it. Throws `tenantInvalid`. */
function tenantHeader ({ headers }: Pick<FastifyRequest, 'headers'>): TenantId | undefined {
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
      return enter(request, provision(tenantIdOf(claimed), auth, request), done)
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
    const tenant = await (byPlatform ? lookup(id) : provision(tenantIdOf(id), claimed === undefined ? null : auth, request))
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
  requireActive(tenant, request.auth !== null && isPlatformAdmin(request.auth))
  request.tenant = tenant
}

/** Milliseconds since 1970. A token without an issue time counts as older than any deletion. A key ends with its tenant. */
function issuedAtOf (auth: Claims): number | null {
  if (keyOf(auth) !== undefined) return null
  return typeof auth['iat'] === 'number' ? auth['iat'] * 1000 : -Infinity
}

/**
 * Finds or creates the tenant; null if it does not exist and is not created. Throws, or rejects with, `tenantUnknown` if the token was
 * issued before a tenant with the id was deleted. Synchronous if the tenant is cached. `by`: the request that names the tenant.
 */
type Provision = (id: TenantId, auth: Claims | null, by: ActingRequest) => Tenant | null | Promise<Tenant | null>

export interface ProvisioningParts {
  readonly store: TenantStore
  readonly memory: TenantMemory
  readonly events: Events
  readonly erasure: Erasure
  /** Whether missing tenants are created: `tenancy.provisioning` is `auto`. */
  readonly makes: boolean
}

/**
 * Creates the tenant, with the plan `free` and its id as its name. `issuedAt` is the token's issue time, in milliseconds since 1970. A
 * token older than a deletion of the tenant can neither create it again nor enter a later tenant with the id. `iat` has whole
 * seconds (RFC 7519, 4.1.6): a token of the second of the deletion counts as older. null means now, for a tenant's key or a
 * gateway. Neither creates a deleted tenant again, since the sender may not know of the deletion.
 */
export function createProvisioning ({ store, memory, events, erasure, makes }: ProvisioningParts): Provision {
  const running = new Map<string, Promise<void>>()

  function settle (
    id: TenantId,
    auth: Claims | null,
    by: ActingRequest,
    { tenant, deletedAt }: TenantLookup
  ): Tenant | null | Promise<Tenant | null> {
    if (tenant !== null && deletedAt === null) return tenant
    const issuedAt = auth === null ? null : issuedAtOf(auth)
    if (tenant === null && (!makes || (deletedAt !== null && issuedAt === null))) return null
    refuseOlder(issuedAt, deletedAt)
    if (tenant !== null) return tenant
    return make(id, issuedAt ?? Infinity, by, deletedAt !== null)
  }

  async function make (id: TenantId, issuedAt: number, by: ActingRequest, deleted: boolean): Promise<Tenant | null> {
    for (let task = running.get(id); task !== undefined; task = running.get(id)) {
      // A refusal of another caller's older token does not apply to this one.
      if (await task.then(() => true, isUnlessOlder)) return await made(id, issuedAt)
    }
    const task = create(id, issuedAt, by, deleted).finally(() => running.delete(id))
    running.set(id, task)
    await task
    return await made(id, issuedAt)
  }

  /** The tenant after an attempt, of this or another caller. */
  async function made (id: TenantId, issuedAt: number): Promise<Tenant | null> {
    const { tenant, deletedAt } = await memory.get(id)
    refuseOlder(issuedAt, deletedAt)
    return tenant
  }

  async function create (id: TenantId, issuedAt: number, by: ActingRequest, deleted: boolean): Promise<void> {
    if (deleted) await erasure.sweep(id)
    await events.change({ topic: 'tenant', tenant: id }, async (transaction) => {
      if (await store.insert(transaction, { id, name: id, plan: 'free' }) === null) return
      // The insert has waited for a concurrent deletion, whose time is now stored.
      refuseOlder(issuedAt, await store.deletedAt(transaction, id))
      await writeAudit(transaction, {
        tenant: platformRef,
        action: 'tenant.create',
        actor: actorOf(by),
        target: id,
        details: { name: id, plan: 'free' },
        at: new Date()
      })
    })
  }

  return (id, auth, by) => whenKnown(memory.get(id), (found) => settle(id, auth, by, found))
}

class TokenOlder extends TenantryError {
  constructor (message: string) {
    super(catalogue.tenantUnknown, { message })
  }
}

function refuseOlder (issuedAt: number | null, deletedAt: Date | null): void {
  if (deletedAt === null || issuedAt === null || issuedAt > deletedAt.getTime()) return
  throw new TokenOlder(
    issuedAt === -Infinity
      ? 'A tenant with this id was deleted, and the token lacks the time of its creation: get a token with the claim "iat"'
      : 'The token is older than the deletion of a tenant with this id: get a new token'
  )
}

function isUnlessOlder (error: unknown): false {
  if (error instanceof TokenOlder) return false
  throw error
}

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
  request.namedTenant = await namedTenant(request)
}

/** Throws `tenantInvalid`, `tenantSuspended`. */
export async function namedTenant (request: FastifyRequest): Promise<NamedTenant> {
  const id = tenantHeader(request)
  return id === undefined ? { id: platformRef, exists: true } : { id, exists: await activeTenant(request, id) !== null }
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
