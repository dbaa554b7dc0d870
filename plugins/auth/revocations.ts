/** Tokens that ended before their time: what another plugin knows of them. */
import type { Claims } from '../../lib/expressions/types.js'
import { hash } from 'node:crypto'

export interface RevocationList {
  /** Changes with every change heard of: a token that was looked at is looked at again only then. */
  readonly version: number
  /**
   * The token was revoked. What it rejects with is what the caller is answered.
   *
   * @param id makes the token's id, see `tokenId`
   */
  refuses(claims: Claims, id: () => string): boolean | Promise<boolean>
}

/** No token was revoked. */
export const noRevocations: RevocationList = { version: 0, refuses: () => false }

/** Of a token: base64url of SHA-256 of what was signed, since another text can hold the same signature. */
export function tokenId (token: string): string {
  return hash('sha256', token.slice(0, Math.max(0, token.lastIndexOf('.'))), 'base64url')
}
