/** Checks the types of functions' operands. */
import type { Budget } from './budget.js'
import { kindOf, NotComputable } from './values.js'

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
