/** Times in the claims of a token. */
import type { Claims } from '../../lib/expressions/types.js'

// Milliseconds that a token may be accepted after its end: the tolerance of verification and differing clocks.
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
