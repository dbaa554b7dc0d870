/** The claims of a verified token: which are demanded, which types they have, and when they hold. */
import type { Claims } from '../../lib/compiler/types.js'
import { deepFreeze } from '../../lib/plain-value.js'
import { isTenantId } from '../../lib/tenant-id.js'

const clockTolerance = 5_000 // ms that the clocks of issuer and server may differ

/** The payload as claims, frozen throughout since it is shared by requests; null where a claim has the wrong form. */
export function claimsOf (payload: unknown): Claims | null {
  if (!isClaims(payload)) return null
  return deepFreeze(payload)
}

function isClaims (payload: unknown): payload is Claims {
  if (typeof payload !== 'object' || payload === null) return false
  const { sub, role, tenant_id: tenantId, email, permissions }: Partial<Record<string, unknown>> = { ...payload }
  return typeof sub === 'string' && sub !== '' &&
    (role === undefined || typeof role === 'string') &&
    (tenantId === undefined || isTenantId(tenantId)) &&
    (email === undefined || typeof email === 'string') &&
    (permissions === undefined || (Array.isArray(permissions) && permissions.every((permission) => typeof permission === 'string')))
}

/** From when until when a token holds, in milliseconds since 1970. */
export interface Validity {
  readonly from: number
  readonly until: number
}

/** null for a token without `exp` or with one that never comes, and for times that are not numbers. */
export function validityOf ({ exp, nbf = -Infinity, iat = -Infinity }: Claims): Validity | null {
  if (typeof exp !== 'number' || !Number.isFinite(exp) || typeof nbf !== 'number' || typeof iat !== 'number') return null
  return { from: Math.max(nbf, iat) * 1000 - clockTolerance, until: exp * 1000 + clockTolerance }
}
