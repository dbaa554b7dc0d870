/** What a token that does not hold is answered with: 401, with the challenge of RFC 6750, 3.1. */
import { failure, type TenantryError } from '../../lib/errors.js'

const invalidToken = { 'www-authenticate': 'Bearer error="invalid_token"' }

export function tokenInvalid (cause?: unknown): TenantryError {
  return failure('tokenInvalid', { headers: invalidToken, cause })
}

export function tokenExpired (): TenantryError {
  return failure('tokenExpired', { headers: invalidToken })
}
