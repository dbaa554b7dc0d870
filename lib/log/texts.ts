/**
 * Finds text that looks like a secret. The texts are those of JSON: quotes and backslashes are escaped, and patterns keep the characters
 * that end a string. Each pattern is bounded to a few steps for a character.
 */
import { redactMembers } from './members.js'
import { kindOfName } from './names.js'

const redacted = '[Redacted]'
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
