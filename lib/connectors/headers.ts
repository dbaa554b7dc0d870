/** Headers of calls to other services. A value cannot end its header and begin another one. */
import { failure } from '../errors.js'
import { invalidInput } from '../validation/detail.js'

const maxValue = 8192 // characters

/** Headers of the connection, which the server sets itself. */
export const connectionHeaders: ReadonlySet<string> = new Set([
  'connection', 'content-length', 'expect', 'host', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'te',
  'trailer', 'transfer-encoding', 'upgrade'
])

/** The fault of a header's name; null if it is valid. */
export function faultOfName (name: string): string | null {
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/.test(name)) return 'expected the name of a header'
  return connectionHeaders.has(name.toLowerCase()) ? 'the server writes this header itself' : null
}

/** The fault of a header's value; null if it is valid. */
export function faultOfHeader (value: string): string | null {
  if (value.length > maxValue) return `a header can have at most ${maxValue} characters`
  return /^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value)
    ? null
    : 'a header cannot contain line breaks, other control characters, or characters past U+00FF'
}

/** Sets a header from the params; throws `validationFailed`. */
export function setHeader (headers: Record<string, string>, name: string, value: string): void {
  const wrong = faultOfName(name) ?? faultOfHeader(value)
  if (wrong !== null) throw invalidInput('/params', `the header "${name.slice(0, 64)}" cannot be sent: ${wrong}`, 'header')
  headers[name.toLowerCase()] = value
}

/** Sets a header with a credential, which messages never show. */
export function setSecretHeader (headers: Record<string, string>, name: string, value: string): void {
  if (faultOfHeader(value) !== null) {
    throw failure('credentialsRequired', { message: 'A credential of the integration contains characters that are not allowed in headers' })
  }
  headers[name.toLowerCase()] = value
}
