/** JSON with comments and trailing commas, as plain data. */
import type { Node, ParseError } from 'jsonc-parser'
import * as jsonc from 'jsonc-parser'
import { ConfigError, type Fault } from '../schema/faults.js'

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

/**
 * Parses a text; `source` is its name in faults. Throws a ConfigError with line and column, both from 1, of the first fault, or of the
 * repeated members.
 */
export function parseJson (text: string, source: string): unknown {
  const errors: ParseError[] = []
  const root = parseTree(text.charCodeAt(0) === 0xFEFF ? text.slice(1) : text, errors, source)
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
  const value = valueOf(
    root,
    (node, name) => faults.push({ pointer: '', location: at(node.offset), message: `the member "${name}" is duplicated` })
  )
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
function valueOf (node: Node, repeated: (node: Node, name: string) => void): unknown {
  const { type, value, children = [] } = node
  if (type === 'array') return children.map((child) => valueOf(child, repeated))
  if (type !== 'object') return value
  const result: Record<string, unknown> = {}
  for (const { children: [key, member] = [] } of children) {
    if (key === undefined || member === undefined) continue
    const name = String(key.value)
    if (Object.hasOwn(result, name)) repeated(key, name)
    Object.defineProperty(result, name, { value: valueOf(member, repeated), enumerable: true, configurable: true, writable: true })
  }
  return result
}

/** Line and column of an offset. */
function position (text: string, offset: number): string {
  const before = text.slice(0, offset).split(/\r\n|\n|\r/)
  return `${before.length}:${(before.at(-1)?.length ?? 0) + 1}`
}
