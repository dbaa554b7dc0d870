/**
 * The session sequence distinguishes tokens from before and after a logout of all sessions, also within one second and with
 * differing clocks. It is the time of the last such logout, and part of every token that `app.sessions` opens.
 */
import { hash } from 'node:crypto'
import type { Claims } from '../../lib/expressions/types.js'
import { sequenceClaim } from '../../lib/identity/session-claims.js'

const maxAhead = 60_000 // ms that a sequence may be after the time and the last known logout: more than the clocks of servers differ

/**
 * The token is later than the logout that began the sequence. Its own sequence may be of a later logout that this server has not
 * heard of yet. The sequence itself is in the future after a logout by a server whose clock was wrong. A token of another issuer has
 * no sequence, or an impossible one; its `iat` decides, in whole seconds. It counts as earlier if it was issued in the second of the
 * logout, or if it has no `iat`.
 */
export function isAfter ({ iat, [sequenceClaim]: own }: Claims, sequence: number, time: number): boolean {
  if (typeof own === 'number' && own <= Math.max(time, sequence) + maxAhead) return own >= sequence
  return typeof iat === 'number' && iat * 1000 > sequence
}

/** The mark that ends all tokens of a session, beside the marks that end single tokens. */
export function sessionMark (sub: string, session: string): Buffer {
  return hash('sha256', `session ${session} ${subjectOf(sub).toString('base64')}`, 'buffer')
}

/**
 * The mark of a session that stays while all others of the user end, at the sequence that begins then. It keeps the tokens with the
 * sequence of `claims` only: an earlier end may have ended other tokens of the session.
 */
export function keptMark ({ sub, [sequenceClaim]: own }: Claims, session: string, sequence: number): Buffer {
  return hash('sha256', `kept ${session} ${own} ${sequence} ${subjectOf(sub).toString('base64')}`, 'buffer')
}

/** The key of a user in the table and in memory, with one length for any `sub`. In UTF-8, all lone surrogates would be equal. */
export function subjectOf (sub: string): Buffer {
  return hash('sha256', Buffer.from(sub, 'utf16le'), 'buffer')
}

/** Milliseconds for which a token may be accepted after its end: the tolerance of verification, and differences between clocks. */
export const tolerance = 10_000
const latest = Date.UTC(9999, 11, 31)

/** The time after which the token is certainly expired. The claim may be any number. */
export function endOf ({ exp }: Claims, at: Date): Date {
  const end = (typeof exp === 'number' ? exp : Infinity) * 1000 + tolerance
  return new Date(Math.max(at.getTime(), Math.min(end, latest)))
}

/** The issue time if it is in the future; else null. Verification tolerates some seconds. */
export function futureIssue ({ iat }: Claims, at: Date): Date | null {
  return typeof iat === 'number' && iat * 1000 > at.getTime() && iat * 1000 < latest ? new Date(Math.ceil(iat * 1000)) : null
}

export function later (one: Date, other: Date | null): Date {
  return other !== null && other > one ? other : one
}
