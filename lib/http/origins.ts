/** Origins that a document lists, and the `Origin` header that names one. */

/** The text before and after the first label of the host, which is a wildcard. */
const hostOfSeveralLabels = /^(https?:\/\/)[a-z0-9_-]+(\..+)$/
const wildcard = /^(https?:\/\/)\*\.(.+)$/
const address = /^(?:\d+\.){3}\d+$/

/** `"*"`, or exact origins and patterns such as `https://*.example.com`. */
export type Origins = '*' | readonly string[]

/** The fault of a member of a list. */
export function faultOfOrigin (text: string): string | undefined {
  if (text === '*') return 'write `"origins": "*"` for any origin'
  const [, scheme, rest] = wildcard.exec(text) ?? []
  const isMisplaced = text.includes('*') && (rest === undefined || rest.includes('*'))
  if (isMisplaced) return 'expected "*" in place of the first label of the host only, such as "https://*.example.com"'
  const origin = originOf(rest === undefined ? text : `${scheme}x.${rest}`)
  if (origin === null) return 'expected an origin as sent by browsers, such as "https://app.example.com"'
  const written = rest === undefined ? origin : origin.replace('//x.', '//*.')
  if (written !== text) return `expected an origin as sent by browsers, without a path or default port and in lower case: "${written}"`
  const isTooShort = rest !== undefined && !isNamed(new URL(`${scheme}${rest}`).hostname)
  return isTooShort ? 'expected at least two labels after "*.", such as "https://*.example.com"' : undefined
}

/** The key of the pattern that matches the origin; undefined if no pattern can. */
export function patternOf (origin: string): string | undefined {
  const [, scheme, rest] = hostOfSeveralLabels.exec(origin) ?? []
  return scheme === undefined || rest === undefined ? undefined : `${scheme}*${rest}`
}

/** Whether the header `Origin` is in a list. Browsers send it in lower case; other spellings match nothing. */
export function createOriginMatch (origins: Origins): (origin: string) => boolean {
  if (origins === '*') return () => true
  const listed = new Set(origins)
  return (origin) => listed.has(origin) || listed.has(patternOf(origin) ?? origin)
}

function originOf (text: string): string | null {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return null
  const { origin, username, password } = new URL(text)
  return username === '' && password === '' ? origin : null
}

function isNamed (host: string): boolean {
  return host.includes('.') && !host.endsWith('.') && !address.test(host)
}
