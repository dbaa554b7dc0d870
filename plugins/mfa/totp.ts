/** One-time passwords of authenticator apps: TOTP (RFC 6238) with SHA-1, six digits and steps of 30 seconds, which all apps support. */
import { timingSafeEqual } from 'node:crypto'
import { createRequire } from 'node:module'

const load = createRequire(import.meta.url)

/** Loaded with the first code: most servers have no user with an authenticator app. */
function otplib (): typeof import('otplib/functional') {
  return load('otplib/functional')
}

export const digits = 6
export const stepSeconds = 30
const tolerance = 1 // steps before and after the current one, for differing clocks and slow typing

/** 160 random bits in base32, the apps' format. */
export function createSecret (): string {
  return otplib().generateSecret()
}

/** The code of a time step: the 30 seconds from `step * 30` seconds after 1970 on. */
export function codeOf (secret: string, step: number): string {
  return otplib().generateSync({ secret, epoch: step * stepSeconds, period: stepSeconds, digits, algorithm: 'sha1' })
}

/**
 * The step of the code: the last accepted one, so that a code shared by two steps is used up for both. 0 for a wrong code. Takes the same
 * time for every code.
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
