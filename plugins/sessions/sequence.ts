/**
 * The session sequence: it distinguishes tokens from before and after a logout of all sessions, also within one second and on
 * servers whose clocks differ. It is the time of the last such logout, and part of every token that `app.sessions` opens.
 */
import type { Claims } from '../../lib/expressions/types.js'
import { hash } from 'node:crypto'

/** The claim that holds it: milliseconds since 1970, 0 where there was no logout. */
export const sequenceClaim = 'session_seq'

const maxAhead = 60_000 // ms that a sequence may be in the future: more than clocks of servers differ

/**
 * The token is later than the logout that began the sequence; its own one may be of a logout after that, of which this server
 * has not heard yet. One that was made elsewhere, without a sequence or with one that no server gives, is judged by its
 * `iat`, in whole seconds: of the second of the logout none counts as later, and none that does not say when it was issued.
 */
export function isAfter ({ iat, [sequenceClaim]: own }: Claims, sequence: number, time: number): boolean {
  if (typeof own === 'number' && own <= time + maxAhead) return own >= sequence
  return typeof iat === 'number' && iat * 1000 > sequence
}

/** The claim that names the session of a token, if it has one. Refresh tokens of the session give further tokens with it. */
export const sessionClaim = 'session_id'

const uuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/

export function isUuid (text: unknown): text is string {
  return typeof text === 'string' && uuid.test(text)
}

/** The session of the token; null where the token names none. */
export function sessionOf (claims: Claims): string | null {
  const session = claims[sessionClaim]
  return isUuid(session) ? session : null
}

/** The mark that ends all tokens of a session, among the marks that end one token each. */
export function sessionMark (sub: string, session: string, form: 'base64url'): string
export function sessionMark (sub: string, session: string, form: 'buffer'): Buffer
export function sessionMark (sub: string, session: string, form: 'base64url' | 'buffer'): string | Buffer {
  return hash('sha256', `session ${session} ${subjectOf(sub, 'base64')}`, form)
}

/** The mark of a session that goes on when all others of the user end, at the sequence that begins then. */
export function keptMark (sub: string, session: string, sequence: number, form: 'base64url'): string
export function keptMark (sub: string, session: string, sequence: number, form: 'buffer'): Buffer
export function keptMark (sub: string, session: string, sequence: number, form: 'base64url' | 'buffer'): string | Buffer {
  return hash('sha256', `kept ${session} ${sequence} ${subjectOf(sub, 'base64')}`, form)
}

/**
 * What a user is known by in the table and in memory, of one length whatever the `sub` is. As UTF-8 halves of characters would
 * all be one.
 */
export function subjectOf (sub: string, form: 'base64'): string
export function subjectOf (sub: string, form: 'buffer'): Buffer
export function subjectOf (sub: string, form: 'base64' | 'buffer'): string | Buffer {
  return hash('sha256', Buffer.from(sub, 'utf16le'), form)
}
