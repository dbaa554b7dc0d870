/** The codes that users type: one-time passwords, and backup codes, each of which works once. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { createRequire } from 'node:module'
import type { Owner } from '../../lib/identity/tenant-ref.js'

/** The number of a user's backup codes. */
export const backupCodeCount = 10
const groups = 3
const groupLength = 4 // characters of 5 bits: 60 bits a code
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ' // Crockford's base32, without look-alikes

/** The form of one-time passwords, as apps show them: `123456` or `123 456`. */
export const totpPattern = '^[0-9]{3} ?[0-9]{3}$'
/** The form of backup codes: `XXXX-XXXX-XXXX`, in any case, with dashes, spaces or neither. */
export const backupCodePattern = `^[0-9A-TV-Za-tv-z]{${groupLength}}(?:[ -]?[0-9A-TV-Za-tv-z]{${groupLength}}){${groups - 1}}$`
/** The form of either. */
export const codePattern = `${totpPattern}|${backupCodePattern}`

const totp = new RegExp(totpPattern)
const backupCode = new RegExp(backupCodePattern)

/** A typed code in canonical form. */
export interface Code {
  readonly method: 'totp' | 'backup_code'
  readonly text: string
}

/** null for an invalid code. */
export function readCode (typed: string): Code | null {
  if (totp.test(typed)) return { method: 'totp', text: typed.replace(' ', '') }
  if (backupCode.test(typed)) return { method: 'backup_code', text: canonical(typed) }
  return null
}

export function createBackupCodes (): string[] {
  return Array.from({ length: backupCodeCount }, () => {
    const text = Array.from(randomBytes(groups * groupLength), (byte) => alphabet.charAt(byte % alphabet.length)).join('')
    return grouped(text, '-')
  })
}

/** SHA-256 in hexadecimal, of the code and its user, so that a guess at one user's codes does not test another's. */
export function hashOf (tenant: Owner, userId: string, code: string): string {
  return createHash('sha256').update(`${tenant}\0${userId}\0${canonical(code)}`).digest('hex')
}

/** In groups of four, for reading and typing. */
function grouped (text: string, between: string): string {
  return text.match(/.{1,4}/g)?.join(between) ?? ''
}

/** Look-alike characters are read as Crockford's base32 defines. */
function canonical (typed: string): string {
  return typed.replaceAll(/[ -]/g, '').toUpperCase().replaceAll(/[IL]/g, '1').replaceAll('O', '0')
}

const load = createRequire(import.meta.url)

/** Loaded with the first code: most servers have no user with an authenticator app. */
function otplib (): typeof import('otplib/functional') {
  return load('otplib/functional')
}

// TOTP (RFC 6238) with SHA-1, six digits and steps of 30 seconds, which all authenticator apps support.
const digits = 6
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

// Encoded characters. With both at their longest, the QR code is of version 17, which phones can read from a screen.
const maxIssuer = 96
const maxAccount = 192

export interface Enrolment {
  /** Base32. */
  readonly secret: string
  /** The QR code of the URI: a PNG as a data URL. */
  readonly qrCode: string
  /** The secret in groups of four, for apps that cannot scan. */
  readonly manualEntry: string
}

/** @param account the displayed name of the user */
export async function enrolmentOf (secret: string, issuer: string, account: string): Promise<Enrolment> {
  // Few servers ever draw one, and each would slow the start.
  const { default: qr } = await import('qrcode')
  const png = await qr.toBuffer(uriOf(secret, issuer, account), {
    type: 'png',
    errorCorrectionLevel: 'M',
    rendererOpts: { deflateLevel: 6 }
  })
  return { secret, qrCode: `data:image/png;base64,${png.toString('base64')}`, manualEntry: grouped(secret, ' ') }
}

/** The URI in the form that apps expect: the issuer in the label and as a parameter, a space as `%20`. */
export function uriOf (secret: string, issuer: string, account: string): string {
  const name = encoded(issuer, maxIssuer)
  return `otpauth://totp/${name}:${encoded(account, maxAccount)}?secret=${secret}&issuer=${name}&algorithm=SHA1&digits=${digits}&period=${stepSeconds}`
}

/** Percent-encoded, as many characters as fit. Apps take the text before a colon for the issuer, encoded or not. */
function encoded (text: string, max: number): string {
  let done = ''
  for (const character of text.replaceAll(/[:\p{Cc}]/gu, '-')) {
    // A lone surrogate has no encoding.
    const next = /\p{Cs}/u.test(character) ? '-' : encodeURIComponent(character)
    if (done.length + next.length > max) break
    done += next
  }
  return done
}
