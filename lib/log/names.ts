/** Names of members, headers and parameters that hold secrets. */

/** The ends of such names, in lower case and without separators: `X-Api-Key` is `xapikey`. */
const secretEnd =
  /(?:password|passwd|passphrase|passcode|pwd|secret|token|jwt|cookie|authorization|credential|otp|(?:api|access|private|secret|signing|master|encryption)key|(?:backup|recovery|mfa|verification)code)(s?)$/

/** The bytes of a whole request, which Node adds to the error of an unreadable one. */
const rawPacket = 'rawpacket'

const maxName = 64 // characters; a longer name is judged by its end
const maxRemembered = 1000 // names

/** Lines repeat the same few members. */
const remembered = new Map<string, NameKind>()

/** `secrets`: a plural, whose numbers are counts. `code`: a one-time password, or an error code. */
export type NameKind = 'plain' | 'secret' | 'secrets' | 'code'

export function kindOfName (name: string): NameKind {
  const known = remembered.get(name)
  if (known !== undefined) return known
  const kind = judge(name.slice(-maxName).toLowerCase().replaceAll(/[^a-z0-9]/g, ''))
  if (remembered.size < maxRemembered && name.length <= maxName) remembered.set(name, kind)
  return kind
}

function judge (plain: string): NameKind {
  if (plain === 'code') return 'code'
  if (plain === rawPacket || plain === 'pass') return 'secret'
  const end = secretEnd.exec(plain)
  if (end === null) return 'plain'
  return end[1] === 's' ? 'secrets' : 'secret'
}

/**
 * An error code: `ECONNREFUSED`, `TENANTRY_NOT_FOUND`, `card_declined`, PostgreSQL's `23505` and `42P01`, and a signal's or a process's
 * number.
 */
const errorCode = /^(?:"E[A-Z]{2,15}"|"[a-z]+(?:_[a-z]+)+"|"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"|"[0-9A-Z]{5}"|-?\d{1,5})$/

/** Whether the value of a member, as JSON, reveals a secret: missing values and booleans do not. */
export function tellsSecret (kind: NameKind, value: string): boolean {
  if (
    kind === 'plain' || value === 'null' || value === 'true' || value === 'false' || value === '""' || value === '[]' || value === '{}'
  ) { return false }
  if (kind === 'code') return !errorCode.test(value)
  return kind === 'secret' || !/^-?\d/.test(value)
}
