/** The steps that set `request.tenant`: the tenant that a caller names, which is found in memory, or created by its first request. */
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { createAsyncCache, hookWhenKnown, whenKnown } from '../../lib/cache/async-cache.js'
import { writeAudit } from '../../lib/database/audit.js'
import type { Events } from '../../lib/database/events.js'
import { catalogue, failure, isFailure, TenantryError } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf } from '../../lib/identity/api-key-claims.js'
import { isTenantId, type Owner, platformRef, type TenantId, tenantIdOf, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isPlatformAdmin, tokenMissing } from '../auth/access.js'
import { type ActingRequest, actorOf } from '../auth/actor.js'
import type { Erasure } from './erasure.js'
import type { TenantStore } from './store.js'
import { requireActive, type Tenant, type TenantLookup } from './tenant.js'

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

/** Milliseconds since 1970. A token without an issue time counts as older than any deletion. A key ends with its tenant. */
function issuedAtOf (auth: Claims): number | null {
  if (apiKeyIdOf(auth) !== undefined) return null
  return typeof auth['iat'] === 'number' ? auth['iat'] * 1000 : -Infinity
}

/**
 * Finds or creates the tenant; null if it does not exist and is not created. Throws, or rejects with, `tenantUnknown` if the token was
 * issued before a tenant with the id was deleted. Synchronous if the tenant is cached. `by`: the request that names the tenant.
 */
type Provision = (id: string, auth: Claims | null, by: ActingRequest) => Tenant | null | Promise<Tenant | null>

export interface TenancyParts {
  readonly store: TenantStore
  readonly memory: TenantMemory
  readonly events: Events
  readonly erasure: Erasure
}

/**
 * Creates the tenant, with the plan `free` and its id as its name. `issuedAt` is the token's issue time, in milliseconds since 1970. A
 * token older than a deletion of the tenant can neither create it again nor enter a later tenant with the id. `iat` has whole
 * seconds (RFC 7519, 4.1.6): a token of the second of the deletion counts as older. null means now, for a tenant's key or a
 * gateway. Neither creates a deleted tenant again, since the sender may not know of the deletion.
 *
 * @param makes whether missing tenants are created: `tenancy.provisioning` is `auto`
 */
export function createProvisioning ({ store, memory, events, erasure }: TenancyParts, makes: boolean): Provision {
  const running = new Map<string, Promise<void>>()

  function settle (
    id: string,
    auth: Claims | null,
    by: ActingRequest,
    { tenant, deletedAt }: TenantLookup
  ): Tenant | null | Promise<Tenant | null> {
    if (tenant !== null && deletedAt === null) return tenant
    const issuedAt = auth === null ? null : issuedAtOf(auth)
    if (tenant === null && (!makes || (deletedAt !== null && issuedAt === null))) return null
    refuseOlder(issuedAt, deletedAt)
    if (tenant !== null) return tenant
    return make(tenantIdOf(id), issuedAt ?? Infinity, by, deletedAt !== null)
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

const maxLookups = 1000
const lookupWeight = 16_777_216 // bytes
const lookupAge = 1000 // ms for which a missing tenant is cached
// Bytes in memory: for each character of the settings' JSON, measured with objects of many short members; and for the rest.
const [bytesPerCharacter, bytesPerTenant] = [8, 1000]
const minWeight = 67_108_864 // bytes, for any number of tenants: room for a hundred with the largest settings
const shareOfTenant = 10_000 // bytes

export type TenantMemory = ReturnType<typeof createTenantMemory>

/**
 * The cache of tenants. Unknown ids have a separate, small cache with a short lifetime, so that many of them evict only each other.
 *
 * @param max tenants at most; fewer if their settings take more than 10 KB each on average
 */
export function createTenantMemory (find: (id: Owner) => Promise<TenantLookup>, max: number, now?: () => number) {
  // All loads start here, so that concurrent loads of an id share one.
  const lookups = createAsyncCache<TenantLookup>({
    max: maxLookups,
    maxAgeMs: lookupAge,
    weight: { max: lookupWeight, of: weigh },
    load: (id) => find(tenantRef(id)).catch(unmigrated),
    ...now !== undefined && { now }
  })
  const known = createAsyncCache<TenantLookup>({
    max,
    weight: { max: Math.max(minWeight, max * shareOfTenant), of: weigh },
    async load (id) {
      const found = await lookups.get(id)
      // The tenant was deleted in this moment.
      if (found.tenant === null) throw failure('tenantUnknown')
      return found
    }
  })

  return {
    /** The tenant of any id that a caller names. Synchronous if the id is cached. */
    get: (id: string): TenantLookup | Promise<TenantLookup> =>
      known.touch(id) ?? whenKnown(lookups.get(id), (lookup) => lookup.tenant === null ? lookup : known.get(id)),
    /** Call it when the tenant of the id has changed. */
    forget (id: Owner): void {
      lookups.invalidate(id)
      known.invalidate(id)
    },
    clear (): void {
      lookups.clear()
      known.clear()
    }
  }
}

function weigh ({ characters }: TenantLookup): number {
  return bytesPerTenant + characters * bytesPerCharacter
}

/** Before its migration, the table of tenants does not exist. */
function unmigrated (error: unknown): never {
  if (isFailure(error, 'schemaChanged')) throw failure('migrationPending', { headers: { 'retry-after': '1' }, cause: error })
  throw error
}
