/** The token that lets a caller without credentials read the status of its run. The database stores only its hash. */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { tokenHash } from '../../lib/identity/token-hash.js'

const tokenBytes = 32

export const tokenPattern = '^[A-Za-z0-9_-]{43}$'

export function createStatusToken () {
  const token = randomBytes(tokenBytes).toString('base64url')
  return { token, hash: tokenHash(token) }
}

export function isTokenOf (hash: Buffer, token: string): boolean {
  return timingSafeEqual(hash, tokenHash(token))
}
