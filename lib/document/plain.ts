/** A document as plain data: JSON values only. */
import { pointerTo, type FaultList } from '../schema/faults.js'

/** Nested levels; a document of routes needs about ten. */
const maxDepth = 64

/** Names that reach an object's prototype instead of a member. */
const forbiddenNames: ReadonlySet<string> = new Set(['__proto__'])

/**
 * Copies a document: objects and arrays are fresh and plain, undefined members are left out. These are refused with a fault and left out:
 * members that refer back to an object around them, are nested more than 64 levels deep or named `__proto__`, and values that JSON lacks
 * (functions, dates, NaN, ...).
 */
export function toPlain (value: unknown, faults: FaultList, pointer = '', around: object[] = []): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : refuse(pointer, `${value} is not a valid JSON number`, faults)
  if (typeof value !== 'object') {
    return refuse(pointer, `expected a JSON value, got ${value === undefined ? 'undefined' : `a ${typeof value}`}`, faults)
  }
  if (around.includes(value)) return refuse(pointer, 'the value contains itself', faults)
  if (around.length === maxDepth) return refuse(pointer, `nested more than ${maxDepth} levels deep`, faults)
  if (!Array.isArray(value) && !isPlain(value)) {
    return refuse(pointer, `expected an object, array, string, number, boolean or null, got ${describeInstance(value)}`, faults)
  }
  around.push(value)
  const copy = Array.isArray(value)
    ? Array.from(value, (item: unknown, index) => toPlain(item, faults, pointerTo(pointer, index), around))
    : plainObject(value, faults, pointer, around)
  around.pop()
  return copy
}

function plainObject (value: object, faults: FaultList, pointer: string, around: object[]): Record<string, unknown> {
  const copy: Record<string, unknown> = {}
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue
    const at = pointerTo(pointer, name)
    if (forbiddenNames.has(name)) refuse(at, `"${name}" is not allowed as the name of a member`, faults)
    else copy[name] = toPlain(member, faults, at, around)
  }
  return copy
}

/** An object made by `{}`, by JSON, or without a prototype, or a module's namespace. */
function isPlain (value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

function describeInstance (value: object): string {
  const { constructor } = value
  return typeof constructor === 'function' && constructor.name !== '' ? `an instance of ${constructor.name}` : 'an instance of a class'
}

function refuse (pointer: string, message: string, faults: FaultList): undefined {
  faults.add(pointer, message)
  return undefined
}
