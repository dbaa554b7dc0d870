/** The actor of a request, for the audit log. */
import type { Actor } from '../../lib/database/audit.js'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf } from '../../lib/identity/api-key-claims.js'
import { callerOf, type CallerRequest, holdings, isPlatformAdmin } from './access.js'
import type { PermissionSet } from './permissions.js'

/** The parts of a request that identify its actor. */
export interface ActingRequest {
  readonly auth: Claims | null
  readonly ip: string
  readonly tenant?: { readonly id: string } | null
  /** Absent without the plugin idempotency. */
  readonly idempotency?: IdempotencyClaim | null
}

/** The caller of the request. Omits the address of platform administrators who act on a tenant, since the tenant must not see it. */
export function actorOf ({ auth, ip, tenant, idempotency }: ActingRequest): Actor {
  // Undefined, not null, without the plugins auth and tenancy.
  const caller = auth ?? null
  const claimed = (idempotency ?? null) !== null && { claim: idempotency ?? undefined }
  if (caller === null) return { userId: null, address: ip, ...claimed }
  const hidden = (tenant ?? null) !== null && isPlatformAdmin(caller)
  const apiKey = apiKeyIdOf(caller)
  return { userId: caller.sub, address: hidden ? null : ip, ...apiKey !== undefined && { apiKey }, ...claimed }
}

/** A caller without a token. */
export function anonymousActor ({ ip }: Pick<ActingRequest, 'ip'>): Actor {
  return { userId: null, address: ip }
}

/** A caller who grants permissions, but none that it does not hold. */
export interface Author {
  readonly claims: Claims
  readonly held: PermissionSet
  readonly actor: Actor
}

/** Throws `tokenMissing` without credentials. */
export async function authorOf (request: ActingRequest & CallerRequest): Promise<Author> {
  return { claims: callerOf(request), held: await holdings(request), actor: actorOf(request) }
}
