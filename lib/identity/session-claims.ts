/** The claims that tokens of this server's sessions have. A token of an identity provider may have claims of the same names. */
import { isUuid } from './uuid.js'

type Claims = Readonly<Record<string, unknown>>

/** The session sequence: milliseconds since 1970, 0 without a logout. See plugins/sessions/sequence.ts. */
export const sequenceClaim = 'session_seq'

/** The claim of a token's session, if it has one. The session's refresh tokens give further tokens with the same session. */
export const sessionClaim = 'session_id'

/** The session of the token; null without one. */
export function sessionOf (claims: Claims): string | null {
  const session = claims[sessionClaim]
  return isUuid(session) ? session : null
}

/** A login at this server opened the session. Call it for claims of the server's own key only. */
export function isOfLogin (claims: Claims): boolean {
  return isUuid(claims.sub) && sequenceClaim in claims && sessionOf(claims) !== null
}
