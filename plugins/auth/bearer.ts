/** The token of the Authorization header. */
import type { FastifyRequest } from 'fastify'
import { tokenMissing } from './access.js'
import { tokenInvalid } from './errors.js'

/** Returns null without the header. Refuses other schemes than Bearer, so that a caller with credentials is not served as one without. */
export function bearerToken ({ headers: { authorization } }: Pick<FastifyRequest, 'headers'>): string | null {
  if (authorization === undefined) return null
  if (authorization.startsWith('Bearer ') && !authorization.includes(' ', 7)) return authorization.slice(7)
  const [scheme = '', token, ...rest] = authorization.trim().split(/ +/)
  if (scheme !== '' && scheme.toLowerCase() !== 'bearer') {
    throw tokenMissing('The Authorization header has another scheme: expected the scheme Bearer')
  }
  if (token === undefined) throw tokenMissing()
  if (rest.length > 0) throw tokenInvalid()
  return token
}
