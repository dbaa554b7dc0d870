/** The claims of a verified token: required ones, their types, and their validity. */
import type { Claims } from '../../lib/expressions/types.js'
import { isTenantId } from '../../lib/identity/tenant-ref.js'
import { deepFreeze } from '../../lib/json/plain-value.js'
import { tokenExpired, tokenInvalid } from './errors.js'

const clockTolerance = 5_000 // ms by which the issuer's clock may be ahead of the server's

/** The forms of claims, for the message about a wrong one. */
const forms = {
  sub: 'the id of the user, a text',
  role: 'a text',
  tenant_id: 'the id of a tenant',
  email: 'a text',
  permissions: 'an array of texts'
}

/** Throws for a payload that no server would accept. */
export function requireForm (payload: object): void {
  if (isClaims(payload)) return
  const given: Partial<Record<string, unknown>> = { ...payload }
  const [name, form] = Object.entries(forms).find(([name]) => !isClaims({ sub: 'any', [name]: given[name] })) ?? []
  const state = name === 'sub' && given['sub'] === undefined ? 'missing' : 'wrong'
  throw new Error(`the claim \`${name}\` of a token is ${state}: expected ${form}`)
}

/** Throws for invalid times of a token. `maxLifetime`: seconds. */
export function requireLifetime ({ iat, exp }: Readonly<Record<string, unknown>>, maxLifetime: number): void {
  if (maxLifetime === Infinity) return
  if (typeof iat !== 'number' || typeof exp !== 'number') {
    throw new Error('the claims `iat` and `exp` of a token must be numbers of seconds since 1970')
  }
  if (exp - iat > maxLifetime) {
    throw new Error(`the token lives ${exp - iat} seconds: expected at most ${maxLifetime}, the setting \`jwt.maxLifetime\``)
  }
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

/** Valid claims. */
export interface VerifiedClaims {
  /** Deeply frozen, since requests share them. */
  readonly claims: Claims
  /** The signed payload of the token. Deeply frozen. */
  readonly payload: object
  /** The end of validity, in milliseconds since 1970. */
  readonly until: number
}

/**
 * The claims of a payload that is valid at this time. Throws `tokenExpired` after that time. Throws `tokenInvalid` before it, and for a
 * wrong form, a missing `exp`, times that are not numbers, or a life longer than `maxLifetime`. The signature has been verified, so the
 * error may name the claim.
 *
 * @param maxLifetime seconds from `iat` to `exp`, Infinity for no bound. With a bound, a token without `iat` is refused
 */
export function requireValid (time: number, payload: unknown, maxLifetime: number): VerifiedClaims {
  if (!isClaims(payload)) throw tokenInvalid()
  const { exp, nbf = -Infinity, iat = -Infinity } = payload
  if (typeof exp !== 'number' || !Number.isFinite(exp) || typeof nbf !== 'number' || typeof iat !== 'number') throw tokenInvalid()
  const until = exp * 1000
  if (time >= until) throw tokenExpired()
  if (time < Math.max(nbf, iat) * 1000 - clockTolerance) throw tokenInvalid()
  if (iat === -Infinity && maxLifetime !== Infinity) {
    throw tokenInvalid('The token lacks the time of its creation: get a token with the claim "iat"')
  }
  if (exp - iat > maxLifetime) {
    throw tokenInvalid(
      `The token is valid for ${Math.ceil(exp - iat)} seconds, but at most ${maxLifetime} are allowed: get a token with an earlier "exp"`
    )
  }
  const claims = deepFreeze(payload)
  return { claims, payload: claims, until }
}
