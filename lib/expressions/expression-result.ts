/** The result of an expression as a JSON value. */
import { Duration, UnsignedInt } from '@marcbachmann/cel-js/evaluator'
import { ExactNumber } from '../json/exact-number.js'
import { type Budget, ExpressionLimit } from './cel/frame.js'
import { CelType, chargeDigits } from './cel/values.js'

const valueBytes = 16
const memberBytes = 32
const memberSteps = 15
const maxDepth = 500 // nested lists and maps

/**
 * Converts integers to numbers if exact, timestamps to ISO 8601 text, durations to seconds ("1.5s"), bytes to base64. The result shares no
 * list or object with the value. It is charged as it is written: a list that contains one text twice counts the text twice.
 */
export function toJson (value: unknown, budget: Budget, depth = 0): unknown {
  switch (typeof value) {
    case 'boolean':
      return value
    case 'number':
      return Number.isFinite(value) ? value : null
    case 'bigint':
      return ofInt(value, budget)
    case 'string':
      budget.allocate(value.length)
      return value
    case 'object':
      return value === null ? null : ofObject(value, budget, depth)
    default:
      return null
  }
}

/** An int is a number if that is exact; otherwise it keeps its digits. */
function ofInt (value: bigint, budget: Budget): number | bigint {
  if (value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER) return Number(value)
  budget.allocate(chargeDigits(value, budget))
  return value
}

function ofObject (value: object, budget: Budget, depth: number): unknown {
  budget.spend(1)
  budget.allocate(valueBytes)
  if (depth === maxDepth) throw new ExpressionLimit('the result is nested too deeply')
  if (Array.isArray(value)) {
    budget.allocate(valueBytes * value.length)
    budget.spend(value.length)
    return value.map((item) => toJson(item, budget, depth + 1))
  }
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (value instanceof Uint8Array) {
    budget.allocateText(2 * value.length)
    return Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64')
  }
  if (value instanceof UnsignedInt) return ofInt(value.value, budget)
  if (value instanceof Duration) return `${Number(value.seconds) + value.nanos / 1e9}s`
  if (value instanceof CelType) return value.name
  if (value instanceof ExactNumber) {
    budget.allocate(String(value).length)
    return value
  }
  return ofMembers(value, budget, depth)
}

function ofMembers (value: object, budget: Budget, depth: number): Record<string, unknown> {
  const members: Readonly<Record<string, unknown>> = Object(value)
  const names = Object.keys(members)
  budget.allocate(memberBytes * names.length)
  budget.spend(memberSteps * names.length)
  return Object.fromEntries(names.map((name) => {
    budget.allocate(name.length)
    return [name, toJson(members[name], budget, depth + 1)]
  }))
}
