/** The error of an invalid token: 401, with the challenge of RFC 6750, 3.1. */
import { catalogue, failure, type TenantryError } from '../../lib/errors.js'

const invalidToken = { 'www-authenticate': 'Bearer error="invalid_token"' }

/** @param message only for a token with a valid signature: a forged one gets no hint */
export function tokenInvalid (message?: string, cause?: unknown): TenantryError {
  return failure('tokenInvalid', { headers: invalidToken, cause, ...message !== undefined && { message } })
}

export function apiKeyUnknown (): TenantryError {
  return failure('tokenInvalid', { headers: invalidToken, message: 'API key not recognized' })
}

/** A 401 has a challenge (RFC 9110, 15.5.2): for the token in question. */
export function credentialsInvalid (
  message: string = catalogue.credentialsInvalid.message,
  extras: Readonly<Record<string, unknown>> = {}
): TenantryError {
  return failure('credentialsInvalid', { message, extras, headers: { 'www-authenticate': 'Bearer' } })
}

export function tokenExpired (): TenantryError {
  return failure('tokenExpired', { headers: invalidToken })
}
