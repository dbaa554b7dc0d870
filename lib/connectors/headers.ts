/** Headers of calls to other services. A value cannot end its header and begin another one. */
import { failure } from '../errors.js'
import { invalidInput } from '../validation/detail.js'

const maxValue = 8192 // characters

/** They describe the connection. The server writes them itself. */
export const connectionHeaders: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade'
])

/** Why a text is not the name of a header that a call may have; null where it is. */
export function faultOfName (name: string): string | null {
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/.test(name)) return 'expected the name of a header'
  return connectionHeaders.has(name.toLowerCase()) ? 'the server writes this header itself' : null
}

/** Why a text is not the value of a header; null where it is. */
export function faultOfHeader (value: string): string | null {
  if (value.length > maxValue) return `a header has at most ${maxValue} characters`
  return /^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value)
    ? null
    : 'a header holds no line breaks, other control characters, or characters past U+00FF'
}

/** Sets a header from the params; throws `validationFailed`. */
export function setHeader (headers: Record<string, string>, name: string, value: string): void {
  const wrong = faultOfName(name) ?? faultOfHeader(value)
  if (wrong !== null) throw invalidInput('/params', `the header "${name.slice(0, 64)}" cannot be sent: ${wrong}`, 'header')
  headers[name.toLowerCase()] = value
}

/** Sets a header with a credential, which no message shows. */
export function setSecretHeader (headers: Record<string, string>, name: string, value: string): void {
  if (faultOfHeader(value) !== null) {
    throw failure('credentialsRequired', { message: 'A credential of the integration holds characters that no header can have' })
  }
  headers[name.toLowerCase()] = value
}
