/** Writes JSON with every digit of its numbers. */
import { randomBytes } from 'node:crypto'
import { ExactNumber, isExact } from './exact-number.js'

// The characters that a JSON string escapes: quotes, backslashes, control characters and lone surrogates.
const escaped = /["\\\u0000-\u001f\ud800-\udfff]/ // eslint-disable-line no-control-regex -- JSON has them as escapes only
const shortText = 64 // characters up to which the test is faster than JSON.stringify
const sliceLength = 65_536 // characters, so that measuring a long text takes little memory

/** Like JSON.stringify, but bigints and ExactNumbers become JSON numbers. */
export function stringifyJson (value: unknown): string
export function stringifyJson (value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // JSON.stringify throws a TypeError for a bigint, and ExactNumber does the same.
    if (!(error instanceof TypeError)) throw error
    return write(value)
  }
}

// An exact number becomes a string with this prefix. It is secret, so no text from outside can have it.
const mark = randomBytes(18).toString('base64url')
const marked = new RegExp(`"${mark}([^"]*)"`, 'g')

/** The text of a serializer that calls JSON.stringify for parts without a schema: bigints and ExactNumbers become JSON numbers there. */
export function serializeExactly (serialize: (value: unknown) => string, value: unknown): string {
  try {
    return serialize(value)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return serialize(withMarks(value)).replace(marked, '$1')
  }
}

function withMarks (value: unknown): unknown {
  if (isExact(value)) return mark + String(value)
  if (Array.isArray(value)) return value.map(withMarks)
  const isPlain = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  return isPlain ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withMarks(member)])) : value
}

/** The same as stringifyJson, and faster for values that are not objects: for texts on the way of each response. */
export function toJsonText (value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return value.length <= shortText && !escaped.test(value) ? `"${value}"` : JSON.stringify(value)
    case 'number':
      return Number.isFinite(value) ? String(value) : 'null'
    case 'boolean':
      return value ? 'true' : 'false'
    case 'bigint':
      return String(value)
    case 'undefined':
      return undefined
    default:
      return value === null ? 'null' : stringifyJson(value)
  }
}

/** The characters of a text in JSON, without its quotes. A character past U+FFFF at the end of a slice counts a few more. */
export function jsonLength (text: string): number {
  if (!escaped.test(text)) return text.length
  let length = 0
  for (let from = 0; from < text.length; from += sliceLength) length += JSON.stringify(text.slice(from, from + sliceLength)).length - 2
  return length
}

function write (value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return toJsonText(value)
  if (value instanceof ExactNumber) return String(value)
  if (Array.isArray(value)) return writeArray(value)
  return 'toJSON' in value && typeof value.toJSON === 'function' ? write(value.toJSON()) : writeObject(value)
}

function writeArray (items: readonly unknown[]): string {
  let text = '['
  for (let index = 0; index < items.length; index++) {
    if (index > 0) text += ','
    text += write(items[index]) ?? 'null'
  }
  return `${text}]`
}

function writeObject (value: object): string {
  let text = '{'
  for (const [name, member] of Object.entries(value)) {
    const written = write(member)
    if (written === undefined) continue
    if (text.length > 1) text += ','
    text += `${toJsonText(name)}:${written}`
  }
  return `${text}}`
}
