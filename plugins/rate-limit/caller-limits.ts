/** The limits of routes with `callerLimit`, such as those that revoke a stolen token: a flood with that token must not block them. */
import type { Claims } from '../../lib/expressions/types.js'
import type { TenantId } from '../../lib/identity/tenant-ref.js'
import { boundedKey, createLimit, type Limit, type RateLimitRule } from './rules.js'

const windowMs = 60_000
const perCaller: RateLimitRule = { max: 30, windowMs }
const total: RateLimitRule = { max: 10 * perCaller.max, windowMs }
/** Separate, since in some tenants anyone can register, with as many users as the total has callers. */
const ofAdministrators = createLimit(total, 'callers administrators')
const ofOthers = createLimit(total, 'callers others')

/** The limit of the caller, and the total of the tenant. A rule of the route replaces the 30 requests of each caller. */
export function callerLimits (tenant: TenantId, caller: Claims | null | undefined, { bucket, rule }: Limit): readonly [Limit, Limit] {
  // The tenant is the owner, so that a tenant with many users evicts only its own counts.
  const own = createLimit(
    bucket === '' ? perCaller : rule,
    boundedKey(`caller ${bucket} ${caller?.sub ?? ''}`),
    { owner: tenant }
  )
  return [own, caller?.role === 'admin' ? ofAdministrators : ofOthers]
}
