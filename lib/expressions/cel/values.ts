/** The values of an expression: their kinds, their equality and their order. */
import { Duration, UnsignedInt } from '@marcbachmann/cel-js/evaluator'
import { equalNumbers, type Exact, ExactNumber } from '../../json/exact-number.js'
import type { Budget } from './frame.js'

export type Kind = 'null' | 'bool' | 'int' | 'uint' | 'double' | 'string' | 'bytes' | 'list' | 'map' | 'timestamp' | 'duration' | 'type'

/** A wrong operand: an index out of range, a wrong type. Messages contain no values. */
export class NotComputable extends Error {
  override readonly name = 'NotComputable'
}

/** A type as a value: `type(item.n) == double`. */
export class CelType {
  constructor (readonly name: string) {}
}

const typeNames = {
  null: 'null_type',
  bool: 'bool',
  int: 'int',
  uint: 'uint',
  double: 'double',
  string: 'string',
  bytes: 'bytes',
  list: 'list',
  map: 'map',
  timestamp: 'google.protobuf.Timestamp',
  duration: 'google.protobuf.Duration',
  type: 'type'
} as const satisfies Record<Kind, string>

const types: ReadonlyMap<string, CelType> = new Map(Object.values(typeNames).map((name) => [name, new CelType(name)]))

/** The names that every expression has. */
export const names: ReadonlyMap<string, unknown> = new Map<string, unknown>(types).set('google', Object.freeze({
  protobuf: Object.freeze({ Timestamp: types.get(typeNames.timestamp), Duration: types.get(typeNames.duration) })
}))

export function typeOf (value: unknown): unknown {
  return types.get(typeNames[kindOf(value)])
}

export function kindOf (value: unknown): Kind {
  switch (typeof value) {
    case 'string':
      return 'string'
    case 'number':
      return 'double'
    case 'boolean':
      return 'bool'
    case 'bigint':
      return 'int'
    case 'object':
      break
    case 'undefined':
      return 'null'
    case 'function':
    case 'symbol':
      throw new NotComputable(`a ${typeof value} is not a value of an expression`)
  }
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'list'
  if (value instanceof Date) return 'timestamp'
  if (value instanceof Uint8Array) return 'bytes'
  if (value instanceof UnsignedInt) return 'uint'
  if (value instanceof Duration) return 'duration'
  if (value instanceof ExactNumber) return 'double'
  return value instanceof CelType ? 'type' : 'map'
}

/** An object or a map, without inherited members. */
export function isMap (value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && kindOf(value) === 'map'
}

export function isList (value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

/** Whether a value is true in a condition and for `!`: every value but false, null, zero, NaN and the empty text. */
export function isTruthy (value: unknown): boolean {
  return value instanceof UnsignedInt ? value.value !== 0n : Boolean(value)
}

const digitsPerHexDigit = Math.log10(16)

/**
 * Charges reading or writing the digits of a number, which takes up to 10 ns a digit: half a step. Returns the number of characters,
 * which may be one too many.
 */
export function chargeDigits (value: Exact, budget: Budget): number {
  // Writing a bigint as a decimal takes quadratic time, unlike hexadecimal digits.
  const length = typeof value === 'bigint' ? Math.ceil(value.toString(16).length * digitsPerHexDigit) : String(value).length
  budget.spend(length >>> 1)
  return length
}

/** The nearest double of a decimal. */
export function doubleOf (value: ExactNumber, budget: Budget): number {
  chargeDigits(value, budget)
  return Number(value)
}

/** A number, for comparisons: the engine compares `number` and `bigint` by value. */
function numberOf (value: unknown, budget: Budget): number | bigint | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return value
  if (value instanceof ExactNumber) return doubleOf(value, budget)
  return value instanceof UnsignedInt ? value.value : undefined
}

/** Deep equality. Values of different kinds differ, except that numbers compare by value. */
export function isEqual (left: unknown, right: unknown, budget: Budget): boolean {
  budget.spend(1)
  if (typeof left === 'string' || typeof right === 'string') {
    if (typeof left !== 'string' || typeof right !== 'string' || left.length !== right.length) return false
    budget.scan(left.length)
    return left === right
  }
  if (typeof left !== 'object' || typeof right !== 'object') {
    // Faster than `order`, whose time grows with the digits.
    if (typeof left === 'bigint' && typeof right === 'bigint') return left === right
    const one = numberOf(left, budget)
    const other = numberOf(right, budget)
    return one === undefined || other === undefined ? (left ?? null) === (right ?? null) : order(one, other) === 0
  }
  if (left === null || right === null || left === right) return left === right
  return isEqualObject(left, right, budget)
}

function isEqualObject (left: object, right: object, budget: Budget): boolean {
  const kind = kindOf(left)
  if (kind !== kindOf(right)) return false
  if (left instanceof UnsignedInt && right instanceof UnsignedInt) return left.value === right.value
  if (left instanceof ExactNumber && right instanceof ExactNumber) {
    chargeDigits(left, budget)
    chargeDigits(right, budget)
    return equalNumbers(left, right)
  }
  if (left instanceof Date && right instanceof Date) return left.getTime() === right.getTime()
  if (left instanceof Duration && right instanceof Duration) return left.seconds === right.seconds && left.nanos === right.nanos
  if (left instanceof Uint8Array && right instanceof Uint8Array) {
    if (left.length !== right.length) return false
    budget.scan(left.length)
    return Buffer.compare(left, right) === 0
  }
  if (isList(left) && isList(right)) return left.length === right.length && left.every((item, index) => isEqual(item, right[index], budget))
  return kind === 'map' && isMap(left) && isMap(right) && isEqualMap(left, right, budget)
}

function isEqualMap (left: Readonly<Record<string, unknown>>, right: Readonly<Record<string, unknown>>, budget: Budget): boolean {
  const names = keysOf(left, budget)
  if (names.length !== keysOf(right, budget).length) return false
  return names.every((name) => Object.hasOwn(right, name) && isEqual(left[name], right[name], budget))
}

const keySteps = 5

export function keysOf (map: Readonly<Record<string, unknown>>, budget: Budget): string[] {
  const names = Object.keys(map)
  budget.allocate(16 + 8 * names.length)
  budget.spend(1 + keySteps * names.length)
  return names
}

/** Negative, zero or positive, as the first value is less than, equal to or greater than the second; NaN if one of them is NaN. */
export function compare (left: unknown, right: unknown, budget: Budget): number {
  budget.spend(1)
  if (typeof left === 'string' && typeof right === 'string') {
    budget.scan(Math.min(left.length, right.length))
    return order(left, right)
  }
  const one = numberOf(left, budget)
  const other = numberOf(right, budget)
  if (one !== undefined && other !== undefined) return order(one, other)
  if (typeof left === 'boolean' && typeof right === 'boolean') return order(left, right)
  if (left instanceof Date && right instanceof Date) return order(left.getTime(), right.getTime())
  if (left instanceof Duration && right instanceof Duration) return order(nanosecondsOf(left), nanosecondsOf(right))
  throw new NotComputable(`${kindOf(left)} and ${kindOf(right)} cannot be ordered`)
}

function nanosecondsOf ({ seconds, nanos }: Duration): bigint {
  return seconds * 1_000_000_000n + BigInt(nanos)
}

function order<Value extends string | number | bigint | boolean> (left: Value, right: Value): number {
  if (left < right) return -1
  return left > right ? 1 : left >= right ? 0 : NaN
}

/** A function of an expression. It charges its work and its result in advance. */
export type Implementation = (budget: Budget, first: unknown, second: unknown, third: unknown) => unknown

/** Functions by name and number of operands, such as `contains/2`; the first operand of a method is its receiver. */
export type Functions = Readonly<Record<string, Implementation>>

export function text (value: unknown): string {
  return typeof value === 'string' ? value : refuse(value, 'string')
}

export function bytes (value: unknown): Uint8Array {
  return value instanceof Uint8Array ? value : refuse(value, 'bytes')
}

export function int (value: unknown): bigint {
  return typeof value === 'bigint' ? value : refuse(value, 'int')
}

export function refuse (value: unknown, expected: string): never {
  throw new NotComputable(`expected ${expected}, got ${kindOf(value)}`)
}
