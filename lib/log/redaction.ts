/** Keeps secrets out of the log: each written line is searched for members with names of secrets, and for texts that look like one. */

const maxLine = 262_144 // characters; longer lines are cut
const keptOfLong = 4096
const redacted = '[Redacted]'

/** Parts of the names in every line with a secret, and in few others: short, and in both cases, as the flag `i` takes twice as long. */
const words = new RegExp(
  ['auth', 'cook', 'pass', 'pwd', 'sec', 'token', 'key', 'cred', 'jwt', 'otp', 'code', 'rawp', 'sig', 'arer', 'asic '].map(inAnyCase)
    .join('|')
)
const keys = /whsec_|tnt_|pat_|[rs]k_|gh[opsur]_/

/** A line of JSON without the secrets in it. Its time is proportional to the line's length; it never throws. */
export function redactLine (line: string): string {
  if (line.length > maxLine) return shortened(line)
  return isSuspicious(line) ? redactTexts(redactMembers(line)) : line
}

/** Most lines have none: a search for one text takes a tenth of the time of a pattern with many. */
function isSuspicious (line: string): boolean {
  return words.test(line) || line.includes('eyJ') || line.includes('://') || line.includes('%') || line.includes('k-') ||
    line.includes('xox') || (line.includes('_') && keys.test(line))
}

/** It is still one line of JSON, with its level and time. */
function shortened (line: string): string {
  const head = /^\{"level":\w+,"time":\d+,/.exec(line)?.[0] ?? '{'
  const start = line.slice(0, keptOfLong)
  // A cut word may be the beginning of a secret.
  const complete = start.slice(0, Math.max(start.lastIndexOf('"'), start.lastIndexOf(' ')) + 1)
  const beginning = redactTexts(redactMembers(complete))
  return `${head}"beginning":${JSON.stringify(beginning)},"msg":"a line of ${line.length} characters, of which only the beginning is written"}\n`
}

function inAnyCase (word: string): string {
  return word.replaceAll(/[a-z]/g, (letter) => `[${letter.toUpperCase()}${letter}]`)
}

// Redacts the values of JSON members with names of secrets, in a line and in JSON within its texts, at any depth.

const backslash = 0x5c

/** The end of a value that is not a string. */
const bare = /(?:\\[^"\\nrt]|[^"\\,}\]])*/y

/** Replaces the value of each such member by `"[Redacted]"`. */
function redactMembers (line: string): string {
  let text = ''
  let kept = 0
  for (let end = line.indexOf('":'); end !== -1; end = line.indexOf('":', end + 2)) {
    const escapes = escapesOf(line, end)
    const nameEnd = end - escapes
    const kind = kindOfName(line.slice(line.lastIndexOf('"', nameEnd - 1) + 1, nameEnd))
    if (kind === 'plain') continue
    const start = line.charCodeAt(end + 2) === 0x20 ? end + 3 : end + 2
    const over = endOfValue(line, start, escapes)
    const value = line.slice(start, over)
    if (!tellsSecret(kind, escapes === 0 ? value : value.replaceAll('\\', ''))) continue
    const mark = `${'\\'.repeat(escapes)}"`
    text += `${line.slice(kept, start)}${mark}${redacted}${mark}`
    kept = over
    // Redacted values are not searched for members.
    end = over - 2
  }
  return kept === 0 ? line : text + line.slice(kept)
}

/**
 * The number of backslashes that a quote of nested JSON has: 0 in the line itself, 1, 3, 7, ... one, two, three texts deep. Other
 * backslashes before the quote belong to the text that it ends.
 */
function escapesOf (line: string, at: number): number {
  let first = at
  while (line.charCodeAt(first - 1) === backslash) first--
  const count = at - first
  // The lowest bits, as far as all are set.
  return (count ^ (count + 1)) >>> 1
}

/** The end of the value that begins there: at the latest the end of its surrounding text. */
function endOfValue (line: string, start: number, escapes: number): number {
  const code = line.charCodeAt(start)
  if (code === 0x7b || code === 0x5b) return endOfCollection(line, start, escapes)
  const open = start + escapes
  if (line.charCodeAt(open) === 0x22 && escapesOf(line, open) === escapes) return endOfString(line, open + 1, escapes)
  bare.lastIndex = start
  bare.test(line)
  return bare.lastIndex
}

function endOfCollection (line: string, start: number, escapes: number): number {
  let depth = 0
  for (let at = start; at < line.length; at++) {
    switch (line.charCodeAt(at)) {
      case 0x22: { // "
        const own = escapesOf(line, at)
        if (own < escapes) return at - own
        if (own === escapes) at = endOfString(line, at + 1, escapes) - 1
        break
      }
      case 0x7b:
      case 0x5b: // { [
        depth++
        break
      case 0x7d:
      case 0x5d: // } ]
        if (--depth === 0) return at + 1
    }
  }
  return line.length
}

/** The index behind the string whose text begins at `start`, or the end of the surrounding text if that comes first. */
function endOfString (line: string, start: number, escapes: number): number {
  for (let at = line.indexOf('"', start); at !== -1; at = line.indexOf('"', at + 1)) {
    const own = escapesOf(line, at)
    if (own === escapes) return at + 1
    if (own < escapes) return at - own
  }
  return line.length
}

const shortestToken = 20 // characters of the user of an address

interface Pattern {
  readonly form: RegExp
  readonly replace: string | ((...match: string[]) => string)
}

const patterns: readonly Pattern[] = [
  // JSON Web Tokens, and encrypted ones: whole words, so that no character is scanned twice.
  { form: /eyJ[\w.-]{4,}/g, replace: (whole) => whole.includes('.') ? redacted : whole },
  // `Authorization` anywhere. Prose has no digit, capital or `=` behind "basic".
  { form: /\b(bearer)(?:[ :]|\\t){1,4}(?!tokens?\b|error=|\[)[^\s"\\,;]+/gi, replace: `$1 ${redacted}` },
  { form: /\b([Bb]asic|BASIC) {1,4}(?=[a-z+/]{0,256}[A-Z0-9=])[\w+/=-]{6,}/g, replace: `$1 ${redacted}` },
  // Users and passwords of addresses: whole words, so that no character is scanned twice.
  {
    form: /:\/\/(?:\\[^nrtu]|[^"\\\s])+/g,
    replace: (whole) => whole.includes('@') ? whole.split('://').map(withoutUser).join('://') : whole
  },
  // Keys with a known prefix: of webhooks, payment providers, this server, code hosts, chats.
  { form: /\b(whsec_|tnt_|github_pat_|gh[opsur]_|[sr]k[-_](?:live_|test_|proj-)?|xox[abeoprs]-)[\w+/=-]{8,}/g, replace: `$1${redacted}` },
  { form: /(-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?:\\.|[^"\\-]|-(?!-))*/g, replace: `$1${redacted}` },
  // Headers in their wire format.
  { form: /: {0,2}(?<=(?:\bcookie2?|\bauthorization|[a-z\d]-(?:token|key|secret)): {0,2})(?:\\[^nr]|[^"\\])+/gi, replace: `: ${redacted}` },
  { form: /"((?:set-)?cookie2?|(?:proxy-)?authorization|x-api-key)","(?:\\.|[^"\\])*"?/gi, replace: `"$1","${redacted}"` },
  // Objects in a text, as Node prints them.
  { form: /: '(?<=([\w.-]{1,64})'?: ')(?:\\.|[^'"\\])*'?/g, replace: (whole, name = '') => isSecret(name) ? `: '${redacted}'` : whole }
]

const parameter = /=(?<=([?&]?)([\w.-]{1,64})=)/g
const parameterValue = /'(?:\\.|[^'"\\])*'?|\\"[^"\\]*\\"|(?:\\\\|[^&\s"\\])+/y

/** Texts within a line that look like secrets. */
export function redactTexts (line: string): string {
  return redactPlain(line.includes('%') ? line.replace(/[^\s"\\]+/g, redactEncoded) : line)
}

function redactPlain (line: string): string {
  let text = line
  for (const { form, replace } of patterns) text = typeof replace === 'string' ? text.replace(form, replace) : text.replace(form, replace)
  return redactParameters(text)
}

/** Parameters of addresses, forms and connections. Each `=` is tested once, with the text before it. */
function redactParameters (line: string): string {
  let text = ''
  let kept = 0
  for (const { index, 1: before, 2: name = '' } of line.matchAll(parameter)) {
    const kind = kindOfParameter(name, before !== '')
    if (index < kept || kind === 'plain') continue
    parameterValue.lastIndex = index + 1
    const value = parameterValue.exec(line)?.[0] ?? ''
    if (value === '' || (kind === 'secrets' && /^\d+[,;.]?$/.test(value))) continue
    text += `${line.slice(kept, index)}=${redacted}`
    kept = parameterValue.lastIndex
  }
  return kept === 0 ? line : text + line.slice(kept)
}

/** A word whose percent-decoded form contains a secret loses the secret, and the encoding. */
function redactEncoded (word: string): string {
  const plain = decoded(word)
  if (plain === word) return word
  const escaped = JSON.stringify(plain).slice(1, -1)
  const text = redactPlain(redactMembers(escaped))
  return text === escaped ? word : text
}

/** The text behind `://`. A number behind the colon is a port; a long name without a password is a token. */
function withoutUser (address: string): string {
  const end = address.lastIndexOf('@')
  const [, name = '', password] = /^([^:/?#@]*)(:(?!\d{1,5}(?:[/?#,]|$)))?/.exec(address) ?? []
  if (password !== undefined && end > name.length + 1) return `${name}:${redacted}${address.slice(end)}`
  return name.length === end && end >= shortestToken ? redacted + address.slice(end) : address
}

function isSecret (name: string): boolean {
  const kind = kindOfName(name)
  return kind === 'secret' || kind === 'secrets'
}

/** In an address, a key, a code and a signature are secrets too. */
function kindOfParameter (name: string, inAddress: boolean): 'plain' | 'secret' | 'secrets' {
  const kind = kindOfName(name)
  if (kind === 'secret' || kind === 'secrets') return kind
  return inAddress && /^(?:key|code|sig|signature|x-amz-signature|x-amz-credential)$/i.test(name) ? 'secret' : 'plain'
}

/** Decodes up to three times. Bytes that are not ASCII stay encoded. */
function decoded (word: string): string {
  let plain = word
  for (let times = 0; times < 3 && plain.includes('%'); times++) {
    plain = plain.replace(/%([0-7][\da-f])/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)))
  }
  return plain
}

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
type NameKind = 'plain' | 'secret' | 'secrets' | 'code'

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

/** An error code: `ECONNREFUSED`, `TENANTRY_NOT_FOUND`, `card_declined`, PostgreSQL's `42P01`, and a signal's or process's number. */
const errorCode = /^(?:"E[A-Z]{2,15}"|"[a-z]+(?:_[a-z]+)+"|"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"|"[0-9A-Z]{5}"|-?\d{1,5})$/

/** Whether the value of a member, as JSON, reveals a secret: missing values and booleans do not. */
export function tellsSecret (kind: NameKind, value: string): boolean {
  if (
    kind === 'plain' || value === 'null' || value === 'true' || value === 'false' || value === '""' || value === '[]' || value === '{}'
  ) { return false }
  if (kind === 'code') return !errorCode.test(value)
  return kind === 'secret' || !/^-?\d/.test(value)
}
