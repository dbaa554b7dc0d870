/** JSON values in JavaScript. */
import { ExactNumber } from './exact-number.js'

/** Whether a value is a JSON object. */
export function isRecord (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)
}

/** Freezes a value deeply, and returns it. Frozen parts are assumed to be frozen deeply. */
export function deepFreeze<Value> (value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const member of Object.values(value)) deepFreeze(member)
  return value
}
