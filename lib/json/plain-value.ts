/** JSON values in JavaScript. */
import { type Exact, ExactNumber, isExact } from './exact-number.js'

/** Whether a value is a JSON object. */
export function isRecord (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)
}

/** Whether the pattern matches a text or a name anywhere in the value. */
export function mentions (value: unknown, pattern: RegExp): boolean {
  if (typeof value === 'string') return pattern.test(value)
  if (Array.isArray(value)) return value.some((item) => mentions(item, pattern))
  return isRecord(value) && Object.entries(value).some(([name, member]) => pattern.test(name) || mentions(member, pattern))
}

/** The value of a JSON text; undefined for another text. */
export function jsonIn (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The length of a text in characters (code points). */
export function lengthOf (text: string): number {
  let length = text.length
  for (let index = 0; index < text.length - 1; index++) {
    if ((text.charCodeAt(index) & 0xfc00) !== 0xd800 || (text.charCodeAt(index + 1) & 0xfc00) !== 0xdc00) continue
    length--
    index++
  }
  return length
}

/** A copy of the value with another form of the numbers that a double cannot represent. */
export function mapExact (value: unknown, convert: (number: Exact) => unknown): unknown {
  if (isExact(value)) return convert(value)
  if (Array.isArray(value)) return value.map((item) => mapExact(item, convert))
  return isRecord(value) ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapExact(member, convert)])) : value
}

/** Freezes a value deeply, and returns it. Frozen parts are assumed to be frozen deeply. */
export function deepFreeze<Value> (value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const member of Object.values(value)) deepFreeze(member)
  return value
}
