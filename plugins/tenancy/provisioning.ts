/** Tenants that a verified caller names: existing ones, and those that are created by their first request. */
import type { Events } from '../../lib/database/events.js'
import type { Erasure } from './erasure.js'
import type { TenantMemory } from './memory.js'
import type { TenantStore } from './store.js'
import type { Found, Tenant } from './tenant.js'
import { writeAudit } from '../../lib/database/audit.js'
import { catalogue, TenantryError } from '../../lib/errors.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'
import { actorOf, type ActingRequest } from '../auth/actor.js'
import { platformRef, type TenantId } from '../../lib/identity/tenant-ref.js'

/**
 * Finds or makes the tenant; null where there is none and none is made. Throws, or rejects with, `tenantUnknown` where the
 * caller was vouched for before a tenant of the id was deleted. At once where it is remembered. `by`: the request that names it.
 */
export type Provision = (id: TenantId, issuedAt: number | null, by: ActingRequest) => Tenant | null | Promise<Tenant | null>

export interface ProvisioningParts {
  readonly store: TenantStore
  readonly memory: TenantMemory
  readonly events: Events
  readonly erasure: Erasure
  /** Whether a tenant that is not there is made: `tenancy.provisioning` is `auto`. */
  readonly makes: boolean
}

/**
 * Makes the tenant, on the plan `free` and named like its id. `issuedAt`, in milliseconds since 1970, is when the token was
 * issued. A token from before a deletion of the tenant neither makes it again nor enters one of the same id that was made
 * since. `iat` is in whole seconds (RFC 7519, 4.1.6): a token of the second of the deletion counts as older. null stands for
 * this moment: a key of the tenant or a gateway. It does not make a deleted tenant again, since its sender may not know of
 * the deletion.
 */
export function createProvisioning ({ store, memory, events, erasure, makes }: ProvisioningParts): Provision {
  const running = new Map<string, Promise<void>>()

  function settle (
    id: TenantId,
    issuedAt: number | null,
    by: ActingRequest,
    { tenant, deletedAt }: Found
  ): Tenant | null | Promise<Tenant | null> {
    if (tenant === null && (!makes || (deletedAt !== null && issuedAt === null))) return null
    refuseOlder(issuedAt, deletedAt)
    if (tenant !== null) return tenant
    return make(id, issuedAt ?? Infinity, by, deletedAt !== null)
  }

  async function make (id: TenantId, issuedAt: number, by: ActingRequest, deleted: boolean): Promise<Tenant | null> {
    for (let task = running.get(id); task !== undefined; task = running.get(id)) {
      // An attempt that was refused by the age of its caller says nothing of this one.
      if (await task.then(() => true, isUnlessOlder)) return await made(id, issuedAt)
    }
    const task = create(id, issuedAt, by, deleted).finally(() => running.delete(id))
    running.set(id, task)
    await task
    return await made(id, issuedAt)
  }

  /** The tenant after an attempt, its own or that of another caller. */
  async function made (id: TenantId, issuedAt: number): Promise<Tenant | null> {
    const { tenant, deletedAt } = await memory.get(id)
    refuseOlder(issuedAt, deletedAt)
    return tenant
  }

  async function create (id: TenantId, issuedAt: number, by: ActingRequest, deleted: boolean): Promise<void> {
    if (deleted) await erasure.sweep(id)
    await events.change({ topic: 'tenant', tenant: id }, async (transaction) => {
      if (await store.insert(transaction, { id, name: id, plan: 'free' }) === null) return
      // The insert has waited for a deletion that was about to end, whose mark is there by now.
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

  return (id, issuedAt, by) => whenKnown(memory.get(id), (found) => settle(id, issuedAt, by, found))
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
      ? 'A tenant of this id was deleted, and the token does not say when it was issued: get one with the claim "iat"'
      : 'The token is older than the deletion of this tenant: get a new one'
  )
}

function isUnlessOlder (error: unknown): false {
  if (error instanceof TokenOlder) return false
  throw error
}
