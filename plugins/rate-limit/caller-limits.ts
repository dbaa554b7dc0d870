/** The limits of routes with `callerLimit`, such as those that revoke a stolen token: a flood with that token must not block them. */
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf } from '../../lib/identity/api-key-claims.js'
import { sessionOf } from '../../lib/identity/session-claims.js'
import type { TenantId } from '../../lib/identity/tenant-ref.js'
import { boundedKey, createLimit, type Limit } from './rules.js'

const windowMs = 60_000
const leastTotal = 300
const callersOfTotal = 10 // counts of callers that use up a total
const countsOfUser = 4 // which the sessions of a user share

/**
 * The limit of the caller, and the total of such callers of the tenant: the plan's requests a minute, at least 300. A caller has a tenth of
 * it, or the rule of the route. The sessions of a user have several counts: a stolen token leaves one to its owner's other sessions, but
 * a user with many sessions cannot use up the total.
 */
export function callerLimits (
  tenant: TenantId,
  caller: Claims | null | undefined,
  { bucket, rule }: Limit,
  ceiling: Limit | null
): readonly [Limit, Limit] {
  const total = Math.max(leastTotal, ceiling?.rule.max ?? 0)
  // The tenant is the owner, so that a tenant with many users evicts only its own counts.
  const own = createLimit(
    bucket === '' ? { max: Math.floor(total / callersOfTotal), windowMs } : rule,
    boundedKey(`caller ${bucket} ${countOf(caller)} ${caller?.sub ?? ''}`),
    { owner: tenant }
  )
  return [own, createLimit({ max: total, windowMs }, `callers ${kindOf(caller)}`)]
}

/** The count of the user's session: by the last digit of its id, which is random. */
function countOf (caller: Claims | null | undefined): string {
  const session = caller === null || caller === undefined ? null : sessionOf(caller)
  return session === null ? '' : String(parseInt(session.slice(-1), 16) % countsOfUser)
}

/** Separate, since in some tenants anyone can register, with as many users as the total has callers. */
function kindOf (caller: Claims | null | undefined): string {
  if (caller === null || caller === undefined) return 'others'
  if (apiKeyIdOf(caller) !== undefined) return 'keys'
  return caller.role === 'admin' ? 'administrators' : 'others'
}
