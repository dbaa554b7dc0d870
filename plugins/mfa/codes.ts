/** The codes that users type: one-time passwords, and backup codes, each of which works once. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { createHash, randomBytes } from 'node:crypto'

/** The number of a user's backup codes. */
export const backupCodeCount = 10
const groups = 3
const groupLength = 4 // characters of 5 bits: 60 bits a code
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ' // Crockford's base32, without look-alikes

/** Of one-time passwords, as apps show them: `123456` or `123 456`. */
export const totpPattern = '^[0-9]{3} ?[0-9]{3}$'
/** Of backup codes: `XXXX-XXXX-XXXX`, in any case, with dashes, spaces or neither. */
export const backupCodePattern = `^[0-9A-TV-Za-tv-z]{${groupLength}}(?:[ -]?[0-9A-TV-Za-tv-z]{${groupLength}}){${groups - 1}}$`
/** Of either. */
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
export function grouped (text: string, between: string): string {
  return text.match(/.{1,4}/g)?.join(between) ?? ''
}

/** Look-alike characters are read as Crockford's base32 defines. */
function canonical (typed: string): string {
  return typed.replaceAll(/[ -]/g, '').toUpperCase().replaceAll(/[IL]/g, '1').replaceAll('O', '0')
}
