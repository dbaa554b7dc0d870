/** The error of an invalid token: 401, with the challenge of RFC 6750, 3.1. */
import { failure, type TenantryError } from '../../lib/errors.js'

const invalidToken = { 'www-authenticate': 'Bearer error="invalid_token"' }

/** @param message only for a token with a valid signature: a forged one gets no hint */
export function tokenInvalid (message?: string, cause?: unknown): TenantryError {
  return failure('tokenInvalid', { headers: invalidToken, cause, ...message !== undefined && { message } })
}

export function apiKeyUnknown (): TenantryError {
  return failure('tokenInvalid', { headers: invalidToken, message: 'API key not recognized' })
}

export function tokenExpired (): TenantryError {
  return failure('tokenExpired', { headers: invalidToken })
}
