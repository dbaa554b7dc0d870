/**
 * The session sequence (DESIGN 5): what tells a token of before a logout of everywhere from one of afterwards, of the same
 * second and on servers whose clocks differ too. It is the time of the last such logout, and stands in every token that
 * `app.sessions` opens; the tokens of one sequence are exactly those that were opened between two of them.
 */
import type { Claims } from '../../lib/compiler/types.js'
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

/** What a user is known by in the table and in memory, of one length whatever the `sub` is. As UTF-8 halves of characters would all be one. */
export function subjectOf (sub: string, form: 'base64'): string
export function subjectOf (sub: string, form: 'buffer'): Buffer
export function subjectOf (sub: string, form: 'base64' | 'buffer'): string | Buffer {
  return hash('sha256', Buffer.from(sub, 'utf16le'), form)
}
