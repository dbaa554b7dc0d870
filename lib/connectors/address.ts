/** Addresses of calls. Values of templates are percent-encoded, so they can neither change the host nor leave their segment. */
import { failure } from '../errors.js'
import { noScope } from '../expressions/no-scope.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue, toText } from '../expressions/template.js'
import { parseOrFault, parseTemplate } from '../expressions/template-parser.js'
import type { CompiledValue, Scope } from '../expressions/types.js'
import { isNumber } from '../json/exact-number.js'
import { invalidInput } from '../validation/detail.js'

/** Characters of an address. */
export const maxAddressLength = 16_384

export type CompiledAddress = NonNullable<ReturnType<typeof compileAddress>>

type Part = string | { readonly value: CompiledValue, readonly query: boolean }

/** A `path` is appended to a base. A whole address that begins with a template is that template's text, unencoded. */
type AddressKind = 'path' | 'whole'

/** Compiles an address; null after faults. */
export function compileAddress (text: string, pointer: string, context: TemplateContext, kind: AddressKind) {
  const { faults } = context
  const before = faults.faults.length
  const parts: Part[] = []
  let query = false
  const addText = (plain: string): void => {
    const last = parts.at(-1)
    if (typeof last === 'string') parts[parts.length - 1] = last + plain
    else parts.push(plain)
    query ||= plain.includes('?')
  }
  for (const segment of parseOrFault(() => parseTemplate(text), pointer, faults) ?? []) {
    if (typeof segment === 'string') {
      addText(segment)
      continue
    }
    const value = compileValue(segment.text, pointer, context)
    // The document's author knows the text of a constant.
    if (value.constant) addText(toText(value.evaluate(noScope)))
    else parts.push({ value, query })
  }
  if (faults.faults.length > before) return null
  const [first] = parts
  const wrong = faultOfParts(parts, kind)
  if (wrong !== null) {
    faults.add(pointer, wrong)
    return null
  }
  /** The text before the first template has the scheme and the host. */
  const hostFixed = typeof first === 'string' && (/^https?:\/\/[^/?#@]+[/?]/i.test(first) || parts.length === 1)
  const references = parts.flatMap((part) => typeof part === 'string' ? [] : part.value.references)
  return Object.freeze({ references, hostFixed, evaluate: compileParts(parts, kind) })
}

/** The absolute address of a call; throws `addressRefused` for an invalid or refused one. */
export function addressOf (base: string, path: string, query: string): string {
  const start = path.startsWith('/') && base.endsWith('/') ? base.slice(0, -1) : base
  const text = start + path
  const address = query === '' ? text : `${text}${text.includes('?') ? '&' : '?'}${query}`
  if (address.length > maxAddressLength) throw addressTooLong()
  const wrong = faultOfAddress(address)
  if (wrong !== null) throw refused(wrong)
  return new URL(address).href
}

export function addressTooLong (): Error {
  return refused(`the URL is longer than ${maxAddressLength} characters`)
}

function refused (why: string): Error {
  return failure('addressRefused', { message: `The call cannot be made: ${why}` })
}

/** The fault of an absolute address without templates; null if it is valid. */
export function faultOfAddress (address: string): string | null {
  return faultOf(address) ?? faultOfUrl(address)
}

function faultOfParts (parts: readonly Part[], kind: AddressKind): string | null {
  const [first] = parts
  const isPath = first === undefined || (typeof first === 'string' && /^[/?]/.test(first))
  if (kind === 'path' && !isPath) return 'expected a path that begins with "/"'
  if (endsHost(parts)) return 'a template directly after the host would change the host: begin the path with "/" before it'
  return faultOf(parts.filter((part) => typeof part === 'string').join('x'))
}

/** The host begins in the text and ends in a template. A value such as `.example.com` could continue it. */
function endsHost ([first, ...rest]: readonly Part[]): boolean {
  if (typeof first !== 'string' || rest.length === 0 || !/^https?:\/\/[^/?#]*[^/?#:]$/i.test(first)) return false
  const next = rest.find((part) => typeof part === 'string')
  return next === undefined || /^[/?]/.test(next)
}

/** The result throws if a value of the path is missing, or would be a segment `.` or `..`. */
function compileParts (parts: readonly Part[], kind: AddressKind): (scope: Scope) => string {
  const [only] = parts
  if (only === undefined) return () => ''
  if (typeof only === 'string' && parts.length === 1) return () => only
  return (scope) => {
    let text = ''
    for (const [index, part] of parts.entries()) {
      if (typeof part === 'string') text += part
      else text += kind === 'whole' && index === 0 ? whole(part.value, scope) : encoded(part, scope)
      if (text.length > maxAddressLength) throw addressTooLong()
    }
    const wrong = faultOf(text)
    if (wrong !== null) throw refused(wrong)
    return text
  }
}

function whole (value: CompiledValue, scope: Scope): string {
  const text = value.evaluate(scope)
  if (typeof text === 'string' && text !== '') return text
  throw invalidValue(value, 'must be a URL')
}

function encoded ({ value, query }: Exclude<Part, string>, scope: Scope): string {
  const given = value.evaluate(scope)
  if (query && (given === undefined || given === null)) return ''
  // Splitting and encoding a value of megabytes would hold up all requests.
  if ((typeof given === 'string' || isNumber(given)) && String(given).length > maxAddressLength) throw addressTooLong()
  // Some servers read `%2F` as a slash.
  if (!query && typeof given === 'string' && given.split(/[/\\]/).some(isDots)) {
    throw invalidValue(value, 'must not contain "." or ".." as a path segment')
  }
  if (isNumber(given) || typeof given === 'boolean' || (typeof given === 'string' && (query || given !== ''))) {
    try {
      return encodeURIComponent(String(given))
    } catch {
      throw invalidValue(value, 'must not contain half of a surrogate pair')
    }
  }
  throw invalidValue(value, 'must be a string, a number or a boolean that is not empty, because it is part of the URL')
}

/** The message contains the caller's value. */
function invalidValue ({ references }: CompiledValue, message: string): Error {
  const [reference] = references
  if (reference === undefined || reference.source === 'secret' || reference.source === 'credentials') {
    return failure('credentialsRequired', { message: 'A credential that is part of the URL is missing' })
  }
  return invalidInput(`/${[reference.source, ...reference.path].join('/')}`, message, 'type')
}

const unwritable = /[\u0000-\u0020\u007f\\]/ // eslint-disable-line no-control-regex -- a URL parser removes some of them, or reads a slash

function faultOf (text: string): string | null {
  if (unwritable.test(text)) return 'a URL cannot contain white space, control characters or backslashes'
  if (text.includes('#')) return 'a URL cannot have a fragment'
  const [path = ''] = text.split('?', 1)
  return path.split('/').some(isDots) ? 'a URL cannot contain the segments "." or ".."' : null
}

function isDots (segment: string): boolean {
  return /^(?:\.|%2e){1,2}$/i.test(segment)
}

function faultOfUrl (text: string): string | null {
  if (!URL.canParse(text)) return 'expected an absolute URL with http: or https:'
  const { protocol, username, password } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') return 'expected a URL with http: or https:'
  return username !== '' || password !== '' ? 'a URL cannot contain a user name or password' : null
}
