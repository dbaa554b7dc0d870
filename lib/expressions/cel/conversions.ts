/** Functions that convert values, and the size of values. */
import { UnsignedInt } from '@marcbachmann/cel-js/evaluator'
import { ExactNumber } from '../../json/exact-number.js'
import { parseJson } from '../../json/parse.js'
import { maxInt, minInt, unsigned } from './arithmetic.js'
import { sizeOf } from './code-points.js'
import type { Budget } from './frame.js'
import { bytes, chargeDigits, doubleOf, type Functions, int, isList, isMap, keysOf, NotComputable, refuse, text, typeOf } from './values.js'

const truths: ReadonlyMap<string, boolean> = new Map([
  ...['1', 't', 'true', 'TRUE', 'True'].map((name) => [name, true] as const),
  ...['0', 'f', 'false', 'FALSE', 'False'].map((name) => [name, false] as const)
])
const infinities: ReadonlyMap<string, number> = new Map([
  ...['inf', '+inf', 'infinity', '+infinity'].map((name) => [name, Infinity] as const),
  ...['-inf', '-infinity'].map((name) => [name, -Infinity] as const),
  ['nan', NaN]
])
const longestInt = 21 // characters: the sign and the 20 digits of the largest uint
const longestDouble = 400 // characters: more digits than a double has
const largestWritten = 10n ** 1000n // writing digits takes quadratic time

/** The most that a byte of JSON allocates: `{},` is three bytes, and an object of 56 with a reference. */
const bytesPerJsonByte = 24
/** Objects take 40 ns a byte. */
const stepsPerJsonByte = 2

export const conversions: Functions = {
  'dyn/1': (_budget, value) => value,
  'type/1': (_budget, value) => typeOf(value),
  'size/1': (budget, value) => size(value, budget),
  'bool/1': (_budget, value) => typeof value === 'boolean' ? value : truths.get(text(value)) ?? unreadable('bool'),
  'string/1': (budget, value) => toString(value, budget),
  'bytes/1': (budget, value) => typeof value === 'string' ? encode(value, budget) : bytes(value),
  'double/1': (budget, value) => toDouble(value, budget),
  'int/1': (budget, value) => toInt(value, budget),
  'uint/1': (budget, value) => value instanceof UnsignedInt ? value : unsigned(integerOf(value, budget) ?? unreadable('uint'))
}

export const bytesMethods: Functions = {
  'json/1': (budget, value) => {
    const json = decode(bytes(value), budget)
    budget.spend(stepsPerJsonByte * json.length)
    budget.allocate(json.length * bytesPerJsonByte)
    try {
      return parseJson(json)
    } catch {
      throw new NotComputable('the bytes are not JSON')
    }
  },
  'string/1': (budget, value) => decode(bytes(value), budget),
  'hex/1': (budget, value) => encoded(bytes(value), 'hex', budget),
  'base64/1': (budget, value) => encoded(bytes(value), 'base64', budget),
  'at/2': (_budget, value, index) => {
    const position = int(index)
    if (position < 0n || position >= bytes(value).length) throw new NotComputable('the index is out of range')
    return BigInt(bytes(value)[Number(position)] ?? 0)
  }
}

function size (value: unknown, budget: Budget): bigint {
  if (typeof value === 'string') return sizeOf(value, budget)
  if (isList(value) || value instanceof Uint8Array) return BigInt(value.length)
  if (isMap(value)) return BigInt(keysOf(value, budget).length)
  return refuse(value, 'string, bytes, list or map')
}

function toString (value: unknown, budget: Budget): string {
  switch (typeof value) {
    case 'string':
      return value
    case 'boolean':
      return String(value)
    case 'number':
      return Number.isFinite(value) || Number.isNaN(value) ? String(value) : value > 0 ? '+Inf' : '-Inf'
    case 'bigint':
      if (value >= largestWritten || value <= -largestWritten) throw new NotComputable('the integer has too many digits')
      budget.allocateText(chargeDigits(value, budget))
      return String(value)
    case 'object':
      break
    default:
      return refuse(value, 'a value with a text')
  }
  if (value instanceof UnsignedInt) return value.toString()
  if (value instanceof ExactNumber) {
    budget.allocateText(String(value).length)
    return String(value)
  }
  return value instanceof Uint8Array ? decode(value, budget) : refuse(value, 'a value with a text')
}

function toDouble (value: unknown, budget: Budget): number {
  if (typeof value === 'number') return value
  if (typeof value === 'bigint') return Number(value)
  if (value instanceof ExactNumber) return doubleOf(value, budget)
  if (value instanceof UnsignedInt) return Number(value.value)
  const written = text(value)
  if (written === '' || written.length > longestDouble || written !== written.trim()) return unreadable('double')
  budget.spend(written.length >>> 1) // as for the digits of a decimal
  const named = infinities.get(written.toLowerCase())
  if (named !== undefined) return named
  const parsed = Number(written)
  return Number.isNaN(parsed) ? unreadable('double') : parsed
}

function toInt (value: unknown, budget: Budget): bigint {
  if (typeof value === 'bigint') return value
  const integer = integerOf(value, budget)
  return integer === undefined || integer > maxInt || integer < minInt ? unreadable('int') : integer
}

/** The integer of a number or of a text, of any size; undefined if it has none. */
function integerOf (value: unknown, budget: Budget): bigint | undefined {
  if (typeof value === 'bigint') return value
  if (value instanceof ExactNumber) return integerOf(doubleOf(value, budget), budget)
  if (typeof value === 'number') return Number.isFinite(value) ? BigInt(Math.trunc(value)) : undefined
  const written = text(value)
  return written.length <= longestInt && /^[+-]?\d+$/.test(written) ? BigInt(written) : undefined
}

function unreadable (type: string): never {
  throw new NotComputable(`the value cannot be converted to ${type}`)
}

function encode (value: string, budget: Budget): Uint8Array {
  budget.allocateText(2 * value.length)
  return Buffer.from(value, 'utf8')
}

function decode (value: Uint8Array, budget: Budget): string {
  budget.allocateText(value.length)
  return Buffer.from(value.buffer, value.byteOffset, value.length).toString('utf8')
}

function encoded (value: Uint8Array, form: 'hex' | 'base64', budget: Budget): string {
  budget.allocateText(2 * value.length)
  return Buffer.from(value.buffer, value.byteOffset, value.length).toString(form)
}
