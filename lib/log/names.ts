/** Names of members, headers and parameters that hold secrets. */

/** How such a name ends, in small letters and without what stands between its words: `X-Api-Key` is `xapikey`. */
const secretEnd =
  /(?:password|passwd|passphrase|passcode|pwd|secret|token|jwt|cookie|authorization|credential|otp|(?:api|access|private|secret|signing|master|encryption)key|(?:backup|recovery|mfa|verification)code)(s?)$/

/** The bytes of a whole request, as Node puts them beside the error of one that could not be read. */
const rawPacket = 'rawpacket'

const maxName = 64 // characters; a name that is longer is judged by its end
const maxRemembered = 1000 // names

/** Lines name the same few members again and again. */
const remembered = new Map<string, NameKind>()

/** `secrets`: several, where a number is how many there are. `code`: a one-time password, or what an error is called. */
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
 * An error's: `ECONNREFUSED`, `TENANTRY_NOT_FOUND`, `card_declined`, PostgreSQL's `23505` and `42P01`, and a signal's or a
 * process's number.
 */
const errorCode = /^(?:"E[A-Z]{2,15}"|"[a-z]+(?:_[a-z]+)+"|"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"|"[0-9A-Z]{5}"|-?\d{1,5})$/

/** Whether the value of a member, as JSON, tells a secret: what is missing or only true does not. */
export function tellsSecret (kind: NameKind, value: string): boolean {
  if (
    kind === 'plain' || value === 'null' || value === 'true' || value === 'false' || value === '""' || value === '[]' || value === '{}'
  ) { return false }
  if (kind === 'code') return !errorCode.test(value)
  return kind === 'secret' || !/^-?\d/.test(value)
}
