/** Revoked tokens, as another plugin reports them. */
import type { Claims } from '../../lib/expressions/types.js'
import { hash } from 'node:crypto'

export interface RevocationList {
  /** Changes with every received revocation. A checked token is checked again only then. */
  readonly version: number
  /**
   * Whether the token was revoked. A rejection is the caller's response.
   *
   * @param id creates the token's id, see `tokenId`
   */
  refuses(claims: Claims, id: () => string): boolean | Promise<boolean>
}

/** A list without revoked tokens. */
export const noRevocations: RevocationList = { version: 0, refuses: () => false }

/** For a token: base64url of SHA-256 of the signed part, since another text can have the same signature. */
export function tokenId (token: string): string {
  return hash('sha256', token.slice(0, Math.max(0, token.lastIndexOf('.'))), 'base64url')
}
