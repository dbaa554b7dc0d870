/** One-time passwords of authenticator apps: TOTP (RFC 6238) with SHA-1, six digits and steps of 30 seconds, what all of them know. */
import { timingSafeEqual } from 'node:crypto'
import { createRequire } from 'node:module'

const load = createRequire(import.meta.url)

/** Loaded with the first code: most servers have no user with an authenticator app. */
function otplib (): typeof import('otplib/functional') {
  return load('otplib/functional')
}

export const digits = 6
export const stepSeconds = 30
const tolerance = 1 // steps before and after the current one, for clocks that differ and codes that are typed slowly

/** 160 random bits in base32, as apps take them. */
export function createSecret (): string {
  return otplib().generateSecret()
}

/** The code of a time step: of the 30 seconds from `step * 30` seconds after 1970 on. */
export function codeOf (secret: string, step: number): string {
  return otplib().generateSync({ secret, epoch: step * stepSeconds, period: stepSeconds, digits, algorithm: 'sha1' })
}

/**
 * The step that the code is of: the last one of those accepted at this time, so that a code that two of them share is
 * used up for both. 0 where there is none. Takes the same time for every code.
 *
 * @param code six digits
 * @param time milliseconds since 1970
 */
export function stepOf (secret: string, code: string, time: number): number {
  const current = Math.floor(time / 1000 / stepSeconds)
  const given = Buffer.from(code)
  let found = 0
  for (let step = current - tolerance; step <= current + tolerance; step++) {
    if (step > 0 && timingSafeEqual(given, Buffer.from(codeOf(secret, step)))) found = step
  }
  return found
}
