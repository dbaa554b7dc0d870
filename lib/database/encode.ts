/** JavaScript values as parameters of a statement, in PostgreSQL's text format. */
import { stringifyJson } from '../json/stringify.js'

/** A parameter as it goes over the wire. */
export type Parameter = string | Buffer | null

/**
 * Encodes one value: undefined and null are NULL, dates are ISO 8601 in UTC, arrays are PostgreSQL arrays (not JSON),
 * other objects are JSON.
 */
export function encodeValue (value: unknown): Parameter {
  if (typeof value === 'string') return value
  if (value === null || value === undefined) return null
  if (typeof value !== 'object') return String(value)
  if (value instanceof Buffer) return value
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return encodeArray(value)
  return stringifyJson(value)
}

export function encodeValues (values: readonly unknown[]): Parameter[] {
  const encoded = new Array<Parameter>(values.length)
  for (let index = 0; index < values.length; index++) encoded[index] = encodeValue(values[index])
  return encoded
}

function encodeArray (items: readonly unknown[]): string {
  let text = '{'
  for (let index = 0; index < items.length; index++) {
    if (index > 0) text += ','
    text += encodeItem(items[index])
  }
  return `${text}}`
}

const escaped = /["\\]/

function encodeItem (item: unknown): string {
  if (typeof item === 'number') return String(item)
  if (Array.isArray(item)) return encodeArray(item)
  const encoded = encodeValue(item)
  if (encoded === null) return 'NULL'
  const text = typeof encoded === 'string' ? encoded : `\\x${encoded.toString('hex')}`
  return escaped.test(text) ? `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"` : `"${text}"`
}
