/** Faults of a request that are visible before a name is resolved or a connection opened. */
import { connectionHeaders } from '../../lib/connectors/auth.js'
import { failure } from '../../lib/errors.js'
import { version } from '../../lib/version.js'

const maxUrlLength = 16_384 // characters
const maxHostLength = 253 // characters of a name in the DNS

/** The address of a call. Throws `addressRefused` if it is not an absolute address of http or https, or names a user. */
export function targetOf (text: string, base?: URL): URL {
  if (text.length > maxUrlLength) throw refused(`has more than ${maxUrlLength} characters`)
  if (!URL.canParse(text, base?.href)) throw refused('is not an absolute URL')
  const url = new URL(text, base?.href)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused('is not an http or https URL')
  if (url.username !== '' || url.password !== '') throw refused('contains a user name or a password')
  if (url.hostname === '' || url.hostname === '.') throw refused('has no host')
  if (url.hostname.length > maxHostLength) throw refused(`has a host of more than ${maxHostLength} characters`)
  // The same host, in the form of certificates.
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  return url
}

function refused (fault: string): Error {
  return failure('addressRefused', { message: `The address ${fault}` })
}

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}$/
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/

/** Headers that reveal nothing to another origin. */
const harmless: ReadonlySet<string> = new Set(['accept', 'accept-language', 'user-agent'])

const userAgent = `tenantry/${version}`

/** The headers to send, by name in lower case. Throws `badRequest` for an invalid one. */
export function headersOf (given: Readonly<Record<string, string>>): Record<string, string> {
  const headers: Record<string, string> = { 'user-agent': userAgent }
  for (const [written, value] of Object.entries(given)) {
    const name = written.toLowerCase()
    // Checked here: undici keeps a pool for each origin, even of requests that it then refuses.
    if (!token.test(name) || !headerValue.test(value)) {
      throw failure('badRequest', {
        message: 'A header of the call is invalid: its name or value has characters that are not allowed in headers'
      })
    }
    if (!connectionHeaders.has(name)) headers[name] = value
  }
  headers['accept-encoding'] = 'identity'
  return headers
}

/** Headers that may follow a redirect to another origin. */
export function harmlessOf (headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => harmless.has(name) || name === 'accept-encoding'))
}

const methodName = /^[A-Z]{1,32}$/

/** Throws `badRequest` for an invalid method, or one that is not for such requests. */
export function methodOf (text: string): string {
  const method = text.toUpperCase()
  if (!methodName.test(method) || method === 'CONNECT' || method === 'TRACE') {
    throw failure('badRequest', { message: 'The method of the call is not supported' })
  }
  return method
}
