/**
 * What looks like a secret within a text. The texts are those of JSON: quotes and backslashes have a backslash before them,
 * and no pattern takes a character away that ends a string. Each is bounded, so that none takes more than a few steps for a character.
 */
import { kindOfName } from './names.js'

const redacted = '[Redacted]'

/** One character of a text, as JSON has it, which is no white space. */
const visible = String.raw`(?:\\[^nrtu]|[^"\\\s])`

interface Pattern {
  readonly form: RegExp
  readonly replace: string | ((...match: string[]) => string)
}

const patterns: readonly Pattern[] = [
  // JSON Web Tokens, and what is encrypted in their form.
  { form: /eyJ[\w-]{4,}(?:\.[\w-]*){1,4}/g, replace: redacted },
  // `Authorization` wherever it is told. Prose has no digit, capital or `=` behind "basic".
  { form: /\b([Bb]earer|BEARER) {1,4}(?!tokens?\b|error=|\[)[^\s"\\,;]+/g, replace: `$1 ${redacted}` },
  { form: /\b([Bb]asic|BASIC) {1,4}(?=[a-z+/]{0,256}[A-Z0-9=])[\w+/=-]{6,}/g, replace: `$1 ${redacted}` },
  // The user and password of an address. A number behind the colon is a port.
  { form: new RegExp(String.raw`://([^\s"\\/@:?#]{0,256}):(?!\d{1,5}(?:[/?#\s"\\,]|$))${visible}{1,512}@`, 'g'), replace: `://$1:${redacted}@` },
  // Keys that say what they are: of webhooks, payment providers, this server, code hosts, chats.
  { form: /\b(whsec_|tnt_|github_pat_|gh[opsur]_|[sr]k[-_](?:live_|test_|proj-)?|xox[abeoprs]-)[\w+/=-]{8,}/g, replace: `$1${redacted}` },
  { form: /(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^"-]*/g, replace: `$1${redacted}` },
  // Parameters of addresses, forms and connections.
  { form: /([?&]|\b)([\w.%-]{1,64})=([^&\s"\\;,#]+)/g, replace: (whole, before = '', name = '', value = '') => isParameter(name, before !== '', value) ? `${before}${name}=${redacted}` : whole },
  // Headers as they travel.
  { form: /\b((?:set-)?cookie2?|(?:proxy-)?authorization|x-api-key): ?(?!\[Redacted\])(?:\\[^nr]|[^"\\])+/gi, replace: `$1: ${redacted}` },
  { form: /"((?:set-)?cookie2?|(?:proxy-)?authorization|x-api-key)","(?:\\.|[^"\\])*"/gi, replace: `"$1","${redacted}"` },
  // Objects that stand in a text: as Node prints them, and as JSON.
  { form: /([\w.-]{1,64})('?: ')(?:\\.|[^'"\\])*'/g, replace: (whole, name = '', colon = '') => isSecret(name) ? `${name}${colon}${redacted}'` : whole },
  { form: /([\w.-]{1,64})(\\": ?\\")(?:[^"\\]|\\\\(?:\\["\\]|[^"\\]))*/g, replace: (whole, name = '', colon = '') => isSecret(name) ? `${name}${colon}${redacted}` : whole }
]

export function redactTexts (line: string): string {
  let text = line
  for (const { form, replace } of patterns) text = typeof replace === 'string' ? text.replace(form, replace) : text.replace(form, replace)
  return text
}

function isSecret (name: string): boolean {
  const kind = kindOfName(name)
  return kind === 'secret' || kind === 'secrets'
}

/** In an address a key, a code and a signature are secrets, too. */
function isParameter (written: string, inAddress: boolean, value: string): boolean {
  const name = decoded(written)
  const kind = kindOfName(name)
  if (kind === 'secret') return true
  if (kind === 'secrets') return !/^\d+$/.test(value)
  return inAddress && /^(?:key|code|sig|signature|x-amz-signature|x-amz-credential)$/i.test(name)
}

function decoded (name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
