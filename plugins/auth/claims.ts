/** The claims of a verified token: which are demanded, which types they have, and when they hold. */
import type { Claims } from '../../lib/compiler/types.js'
import { deepFreeze } from '../../lib/plain-value.js'
import { isTenantId } from '../../lib/tenant-id.js'
import { tokenExpired, tokenInvalid } from './errors.js'

const clockTolerance = 5_000 // ms that the clocks of issuer and server may differ

/** Throws for a payload that nobody should sign: no server of ours would take the token. */
export function requireForm (payload: object): void {
  if (!isClaims(payload)) throw new Error('a claim has a wrong form: see `Claims`')
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

/** Claims that hold. */
export interface Held {
  /** Deeply frozen, since requests share them. */
  readonly claims: Claims
  /** The payload of the token as it was signed. Deeply frozen. */
  readonly payload: object
  /** Until when, in milliseconds since 1970. */
  readonly until: number
}

/**
 * The claims of a payload that holds at this time; throws `tokenExpired` after it, and `tokenInvalid` before it and for
 * one with a wrong form, without `exp`, with an `exp` that never comes, or with times that are not numbers.
 */
export function heldAt (time: number, payload: unknown): Held {
  if (!isClaims(payload)) throw tokenInvalid()
  const { exp, nbf = -Infinity, iat = -Infinity } = payload
  if (typeof exp !== 'number' || !Number.isFinite(exp) || typeof nbf !== 'number' || typeof iat !== 'number') throw tokenInvalid()
  const until = exp * 1000 + clockTolerance
  if (time >= until) throw tokenExpired()
  if (time < Math.max(nbf, iat) * 1000 - clockTolerance) throw tokenInvalid()
  const claims = deepFreeze(payload)
  return { claims, payload: claims, until }
}
