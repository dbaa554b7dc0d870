/** `+`, `-`, `*`, `/`, `%` and the unary minus. */
import { Duration, UnsignedInt } from '@marcbachmann/cel-js/evaluator'
import { ExactNumber } from '../../json/exact-number.js'
import type { Budget } from './frame.js'
import { doubleOf, isList, kindOf, NotComputable } from './values.js'

export const maxInt = 9_223_372_036_854_775_807n
export const minInt = -9_223_372_036_854_775_808n

type Operator = '+' | '-' | '*' | '/' | '%'

/** An int of 64 bits; longer ones, such as a `numeric` of the database, are refused. */
function checkedInt (value: bigint): bigint {
  if (value > maxInt || value < minInt) throw new NotComputable('integer overflow')
  return value
}

export function calculate (operator: Operator, left: unknown, right: unknown, budget: Budget): unknown {
  budget.spend(1)
  if (typeof left === 'number') {
    if (typeof right === 'number') return ofDoubles(operator, left, right)
    if (typeof right === 'bigint') return ofDoubles(operator, left, Number(right))
  } else if (typeof left === 'bigint') {
    if (typeof right === 'bigint') return checkedInt(ofInts(operator, checkedInt(left), checkedInt(right)))
    if (typeof right === 'number') return ofDoubles(operator, Number(left), right)
  } else if (left instanceof UnsignedInt && right instanceof UnsignedInt) {
    return unsigned(ofInts(operator, left.value, right.value))
  } else if (left instanceof ExactNumber) {
    return calculate(operator, doubleOf(left, budget), right, budget)
  } else if (operator === '+') {
    return joined(left, right, budget) ?? ofTimes(operator, left, right)
  } else if (operator === '-') {
    return ofTimes(operator, left, right)
  }
  if (right instanceof ExactNumber) return calculate(operator, left, doubleOf(right, budget), budget)
  return refuse(operator, left, right)
}

export function negate (value: unknown, budget: Budget): unknown {
  if (value instanceof ExactNumber) return -doubleOf(value, budget)
  if (typeof value === 'number') return -value
  if (typeof value === 'bigint') return checkedInt(-value)
  throw new NotComputable(`-${kindOf(value)}`)
}

export function unsigned (value: bigint): UnsignedInt {
  if (value < 0n || value > 18_446_744_073_709_551_615n) throw new NotComputable('unsigned integer overflow')
  return new UnsignedInt(value)
}

function refuse (operator: Operator, left: unknown, right: unknown): never {
  throw new NotComputable(`${kindOf(left)} ${operator} ${kindOf(right)}`)
}

function ofDoubles (operator: Operator, left: number, right: number): number {
  switch (operator) {
    case '+':
      return left + right
    case '-':
      return left - right
    case '*':
      return left * right
    case '/':
      return left / right
    case '%':
      return left % right
  }
}

function ofInts (operator: Operator, left: bigint, right: bigint): bigint {
  switch (operator) {
    case '+':
      return left + right
    case '-':
      return left - right
    case '*':
      return left * right
    case '/':
    case '%':
      if (right === 0n) throw new NotComputable('division by zero')
      return operator === '/' ? left / right : left % right
  }
}

/** The concatenation of texts, lists or bytes; undefined for other values. */
function joined (left: unknown, right: unknown, budget: Budget): unknown {
  if (typeof left === 'string' && typeof right === 'string') {
    budget.allocateText(left.length + right.length)
    return left + right
  }
  if (isList(left) && isList(right)) {
    const length = left.length + right.length
    budget.allocate(16 + 8 * length)
    budget.spend(length >>> 2)
    return left.concat(right)
  }
  if (left instanceof Uint8Array && right instanceof Uint8Array) {
    budget.allocateText(left.length + right.length)
    return Buffer.concat([left, right])
  }
  return undefined
}

/** The sum of more than two values, from left to right. A growing text is charged once: the engine does not copy intermediate texts. */
export function sum (values: readonly unknown[], budget: Budget): unknown {
  let total = values[0]
  let grown = false
  for (let index = 1; index < values.length; index++) {
    const next = values[index]
    if (typeof total === 'string' && typeof next === 'string') {
      grown = true
      total += next
      budget.allocate(32)
      if (2 * total.length > budget.bytes) break
    } else {
      total = calculate('+', total, next, budget)
    }
  }
  if (grown && typeof total === 'string') budget.allocateText(total.length)
  return total
}

function ofTimes (operator: '+' | '-', left: unknown, right: unknown): unknown {
  if (left instanceof Duration && right instanceof Duration) {
    return operator === '+'
      ? left.addDuration(right)
      : left.subtractDuration(right)
  }
  if (left instanceof Date && right instanceof Duration) {
    return operator === '+'
      ? right.extendTimestamp(left)
      : right.subtractTimestamp(left)
  }
  if (operator === '+' && left instanceof Duration && right instanceof Date) return left.extendTimestamp(right)
  if (operator === '-' && left instanceof Date && right instanceof Date) {
    const milliseconds = left.getTime() - right.getTime()
    if (Number.isNaN(milliseconds)) throw new NotComputable('the timestamp is out of range')
    return Duration.fromMilliseconds(milliseconds)
  }
  return refuse(operator, left, right)
}
