/** The limits of routes with `callerLimit`, such as those that revoke a stolen token: a flood with that token must not block them. */
import type { Claims } from '../../lib/expressions/types.js'
import type { TenantId } from '../../lib/identity/tenant-ref.js'
import { boundedKey, createLimit, type Limit } from './rules.js'

const windowMs = 60_000
const leastTotal = 300
const callersOfTotal = 10 // callers that use up a total

/**
 * The limit of the caller, and the total of such callers of the tenant: the plan's requests a minute, at least 300. A caller has a tenth of
 * it, or the rule of the route.
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
    boundedKey(`caller ${bucket} ${caller?.sub ?? ''}`),
    { owner: tenant }
  )
  return [own, createLimit({ max: total, windowMs }, `callers ${kindOf(caller)}`)]
}

/** Separate, since in some tenants anyone can register, with as many users as the total has callers. */
function kindOf (caller: Claims | null | undefined): string {
  if (caller === null || caller === undefined) return 'others'
  if ('api_key' in caller) return 'keys'
  return caller.role === 'admin' ? 'administrators' : 'others'
}
