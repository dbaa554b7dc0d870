/** What CEL computes, made into JSON values. */
import { Duration, UnsignedInt } from '@marcbachmann/cel-js/evaluator'

const maxText = 1_000_000 // characters of all strings of one result, so that repeated additions of a body stay bounded

/** Turns integers into numbers, timestamps into ISO 8601, durations into seconds ("1.5s"), bytes into base64. Throws over 1 MB of text. */
export function toJson (value: unknown): unknown {
  switch (typeof value) {
    case 'boolean': return value
    case 'number': return Number.isFinite(value) ? value : null
    case 'bigint': return Number(value)
    default: return convert(value, { left: maxText })
  }
}

function convert (value: unknown, budget: { left: number }): unknown {
  switch (typeof value) {
    case 'string':
      spend(budget, value.length)
      return value
    case 'number': return Number.isFinite(value) ? value : null
    case 'bigint': return Number(value)
    case 'boolean': return value
    case 'object': break
    default: return null
  }
  if (value === null) return null
  spend(budget, 1)
  if (Array.isArray(value)) return value.map((item) => convert(item, budget))
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (value instanceof UnsignedInt) return Number(value.valueOf())
  if (value instanceof Duration) return `${Number(value.seconds) + value.nanos / 1e9}s`
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return String(value)
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, convert(item, budget)]))
}

function spend (budget: { left: number }, amount: number): void {
  budget.left -= amount
  if (budget.left < 0) throw new RangeError('the result of an expression is too large')
}
