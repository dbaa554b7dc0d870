/** Finds the tenant that a verified id names, or creates it with its first request. */
import { whenKnown } from '../../lib/cache/async-cache.js'
import { writeAudit } from '../../lib/database/audit.js'
import type { Events } from '../../lib/database/events.js'
import { catalogue, TenantryError } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf } from '../../lib/identity/api-key-claims.js'
import { platformRef, type TenantId, tenantIdOf } from '../../lib/identity/tenant-ref.js'
import { type ActingRequest, actorOf } from '../auth/actor.js'
import type { Erasure } from './erasure.js'
import type { TenantMemory } from './memory.js'
import type { TenantStore } from './store.js'
import type { Tenant, TenantLookup } from './tenant.js'

/** Milliseconds since 1970. A token without an issue time counts as older than any deletion. A key ends with its tenant. */
function issuedAtOf (auth: Claims): number | null {
  if (apiKeyIdOf(auth) !== undefined) return null
  return typeof auth['iat'] === 'number' ? auth['iat'] * 1000 : -Infinity
}

/**
 * Finds or creates the tenant; null if it does not exist and is not created. Throws, or rejects with, `tenantUnknown` if the token was
 * issued before a tenant with the id was deleted. Synchronous if the tenant is cached. `by`: the request that names the tenant.
 */
export type Provision = (id: string, auth: Claims | null, by: ActingRequest) => Tenant | null | Promise<Tenant | null>

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
