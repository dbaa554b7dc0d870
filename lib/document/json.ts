/** A document as plain data: JSON values only, from JSON with comments and trailing commas, or from a program. */
import type { Node, ParseError } from 'jsonc-parser'
import * as jsonc from 'jsonc-parser'
import { type Exact, ExactNumber, isExact, numberOf } from '../json/exact-number.js'
import { ConfigError, type Fault, type FaultList, pointerTo } from '../schema/faults.js'

/** The expected text at a fault, by jsonc-parser's name of the error. */
const expectations: Readonly<Record<string, string>> = {
  InvalidSymbol: 'expected a value: an object, an array, a string in double quotes, a number, true, false or null',
  InvalidNumberFormat: 'expected a number',
  PropertyNameExpected: 'expected the name of a member in double quotes',
  ValueExpected: 'expected a value',
  ColonExpected: 'expected a colon',
  CommaExpected: 'expected a comma',
  CloseBraceExpected: 'expected a closing brace `}`',
  CloseBracketExpected: 'expected a closing bracket `]`',
  EndOfFileExpected: 'expected the end of the file',
  UnexpectedEndOfComment: 'the comment is not closed: expected `*/`',
  UnexpectedEndOfString: 'the string is not closed: expected a double quote',
  UnexpectedEndOfNumber: 'the number is not complete',
  InvalidUnicode: 'expected four hexadecimal digits after `\\u`',
  InvalidEscapeCharacter: 'unknown escape: expected one of \\n \\r \\t \\b \\f \\\\ \\/ \\" and \\u',
  InvalidCharacter: 'a string cannot contain unescaped line breaks and control characters'
}

const tooPrecise = 'the number exceeds the precision of a double: write it as a string'

/**
 * Parses a text; `source` names it in faults. Throws a ConfigError with the line and column of the first fault, or of all
 * repeated members and of numbers that a double would change.
 */
export function parseJson (file: string, source: string): unknown {
  const errors: ParseError[] = []
  const text = file.charCodeAt(0) === 0xFEFF ? file.slice(1) : file
  const root = parseTree(text, errors, source)
  const at = (offset: number) => `${source}:${position(text, offset)}`
  // The parser's errors after the first one are unreliable.
  const faults: Fault[] = errors.slice(0, 1).map(({ error, offset }) => {
    const name = jsonc.printParseErrorCode(error)
    return { pointer: '', location: at(offset), message: expectations[name] ?? name }
  })
  if (root === undefined && faults.length === 0) {
    faults.push({ pointer: '', location: at(0), message: 'expected a document, but the file is empty' })
  }
  if (root === undefined || faults.length > 0) throw new ConfigError(faults)
  const value = valueOf(root, text, ({ offset }, message) => faults.push({ pointer: '', location: at(offset), message }))
  if (faults.length > 0) throw new ConfigError(faults)
  return value
}

/** The parser recurses: deep nesting would overflow the stack. */
function parseTree (text: string, errors: ParseError[], source: string): Node | undefined {
  try {
    return jsonc.parseTree(text, errors, { allowTrailingComma: true })
  } catch (error) {
    if (error instanceof RangeError) throw new ConfigError([{ pointer: '', location: source, message: 'nested too deeply' }])
    throw error
  }
}

/** Own properties only: a member `__proto__` stays one, so that the check can refuse it. */
function valueOf (node: Node, text: string, fault: (node: Node, message: string) => void): unknown {
  const { type, value, children = [], offset, length } = node
  if (type === 'array') return children.map((child) => valueOf(child, text, fault))
  if (type === 'number' && isChangedByDouble(numberOf(text.slice(offset, offset + length)))) fault(node, tooPrecise)
  if (type !== 'object') return value
  const result: Record<string, unknown> = {}
  for (const { children: [key, member] = [] } of children) {
    if (key === undefined || member === undefined) continue
    const name = String(key.value)
    if (Object.hasOwn(result, name)) fault(key, `the member "${name}" is duplicated`)
    Object.defineProperty(result, name, { value: valueOf(member, text, fault), enumerable: true, configurable: true, writable: true })
  }
  return result
}

/** Line and column of an offset. */
function position (text: string, offset: number): string {
  const before = text.slice(0, offset).split(/\r\n|\n|\r/)
  return `${before.length}:${(before.at(-1)?.length ?? 0) + 1}`
}

function isChangedByDouble (value: number | Exact): boolean {
  if (typeof value !== 'bigint') return isExact(value)
  const double = Number(value)
  return !Number.isFinite(double) || BigInt(double) !== value
}

/** Nested levels; a document of routes needs about ten. */
const maxDepth = 64

/**
 * Copies a document: objects and arrays are fresh and plain, undefined members are left out. These are refused with a fault and left out:
 * members that refer back to an object around them, are nested more than 64 levels deep or named `__proto__`, and values that JSON lacks
 * (functions, dates, NaN, ...).
 */
export function toPlain (value: unknown, faults: FaultList, pointer = '', around: object[] = []): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : refuse(pointer, `${value} is not a valid JSON number`, faults)
  // Numbers of a request that are beyond the safe integers, or have many digits.
  if (value instanceof ExactNumber || (typeof value === 'bigint' && isExact(numberOf(String(value))))) {
    return isChangedByDouble(value) ? refuse(pointer, tooPrecise, faults) : Number(value)
  }
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
    // It would reach the copy's prototype instead of a member.
    if (name === '__proto__') refuse(at, `"${name}" is not allowed as the name of a member`, faults)
    else copy[name] = toPlain(member, faults, at, around)
  }
  return copy
}

/** An object made by `{}`, by JSON, or without a prototype, or a module's namespace. */
export function isPlain (value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

function describeInstance (value: object): string {
  if (value instanceof Promise) return 'a promise: await it'
  const { constructor } = value
  return typeof constructor === 'function' && constructor.name !== '' ? `an instance of ${constructor.name}` : 'an instance of a class'
}

function refuse (pointer: string, message: string, faults: FaultList): undefined {
  faults.add(pointer, message)
  return undefined
}
