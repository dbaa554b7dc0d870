/** Reads JSON with every digit of its numbers. */
import { randomBytes } from 'node:crypto'
import { failure } from '../errors.js'
import { endOfString, storedExcess } from './bounds.js'
import { type Exact, isExact, maxNumberLength, numberOf } from './exact-number.js'

/** Thrown by `parseSent`. */
export class NumberTooLongError extends Error {
  override readonly name = 'NumberTooLongError'
}

const longNumber = 16 // characters; 15 digits always fit a double

/** The end of a number with three or more digits of exponent. Also matches inside strings such as UUIDs. */
const exponent = /[\d.][eE][-+]?\d{3}/g
const beforeNumber = new Set(['', ':', ',', '[', ' ', '\t', '\n', '\r'])

/** Whether `parseJson` may find a number that JSON.parse changes. False positives for texts with digits only cost time. */
export function mayHoldExact (text: string): boolean {
  return hasLongNumber(text) || hasLongExponent(text)
}

/** Whether a number has an exponent of three digits. The text has no run of 16 digits. */
function hasLongExponent (text: string): boolean {
  exponent.lastIndex = 0
  for (let found = exponent.exec(text); found !== null; found = exponent.exec(text)) {
    let start = found.index
    while (start > 0 && isDigitOrDot(text.charCodeAt(start - 1))) start--
    if (beforeNumber.has(text.charAt(start - (text[start - 1] === '-' ? 2 : 1)))) return true
  }
  return false
}

/** Any run of 16 characters includes an index that is one less than a multiple of 16, so only these are tested. */
function hasLongNumber (text: string): boolean {
  for (let index = longNumber - 1; index < text.length; index += longNumber) {
    if (!isDigitOrDot(text.charCodeAt(index))) continue
    let start = index
    let end = index + 1
    while (start > 0 && isDigitOrDot(text.charCodeAt(start - 1))) start--
    while (isDigitOrDot(text.charCodeAt(end))) end++
    if (end - start >= longNumber) return true
  }
  return false
}

function isDigitOrDot (unit: number): boolean {
  return (unit >= 0x30 && unit <= 0x39) || unit === 0x2e
}

/** Like JSON.parse, but integers beyond 2^53 are bigints, and decimals that a double would change are ExactNumbers. */
export function parseJson (text: string): unknown {
  return mayHoldExact(text) ? parseExact(text, false) : JSON.parse(text)
}

/** `parseJson` for a caller's text. Throws a NumberTooLongError for more than `maxNumberLength` characters, and for 1e100000. */
export function parseSent (text: string): unknown {
  return mayHoldExact(text) ? parseExact(text, true) : JSON.parse(text)
}

// A literal becomes a string with this prefix. It is secret, so no text from outside can have it.
const mark = randomBytes(18).toString('base64url')

const literals = /-?\d[\d.]{15,}(?:[eE][+-]?\d+)?|-?\d[\d.]{0,14}[eE][+-]?\d{3,}/g
const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const colonNext = /\s*:/y

function parseExact (text: string, isSent: boolean): unknown {
  const exact: Exact[] = []
  const marked = withTexts(text, isSent, (_literal, value) => mark + String(exact.push(value) - 1))
  if (exact.length === 0) return JSON.parse(text)
  let value: unknown
  try {
    value = JSON.parse(marked)
  } catch {
    // The same error as for other texts.
    return JSON.parse(text)
  }
  return withoutMarks(value, exact)
}

/** The JSON with each number that a double would change as a string. */
export function withExactTexts (text: string): string {
  return mayHoldExact(text) ? withTexts(text, false, (literal) => literal) : text
}

/** Replaces each number that a double would change by a string. Linear: strings are skipped, literals read once. */
function withTexts (text: string, isSent: boolean, contentOf: (literal: string, value: Exact) => string): string {
  let replaced = ''
  let copied = 0
  // Not looked up for each number: the next string may be far away.
  let quote = quoteFrom(text, 0)
  literals.lastIndex = 0
  let found = literals.exec(text)
  while (found !== null) {
    if (quote < found.index) {
      const next = endOfString(text, quote) + 1
      quote = quoteFrom(text, next)
      if (found.index < next) {
        literals.lastIndex = next
        found = literals.exec(text)
      }
      continue
    }
    const [literal] = found
    const end = found.index + literal.length
    if (isSent && isTooLong(literal)) throw new NumberTooLongError()
    const value = number.test(literal) && !isName(text, end) ? numberOf(literal) : 0
    if (isExact(value)) {
      replaced += `${text.slice(copied, found.index)}"${contentOf(literal, value)}"`
      copied = end
    }
    found = literals.exec(text)
  }
  return replaced + text.slice(copied)
}

function quoteFrom (text: string, start: number): number {
  const quote = text.indexOf('"', start)
  return quote === -1 ? Infinity : quote
}

function isTooLong (literal: string): boolean {
  if (literal.length > maxNumberLength) return true
  const double = Number(literal)
  return /e/i.test(literal) && (!Number.isFinite(double) || (double === 0 && /^-?[0.]*[1-9]/.test(literal)))
}

/** A number in place of a member's name is invalid; a string there would be valid. */
function isName (text: string, end: number): boolean {
  colonNext.lastIndex = end
  return colonNext.test(text)
}

function withoutMarks (value: unknown, exact: readonly Exact[]): unknown {
  const unmarked = (text: string) => text.startsWith(mark) ? exact[Number(text.slice(mark.length))] : undefined
  if (typeof value === 'string') return unmarked(value) ?? value
  if (!isContainer(value)) return value
  exactRoots.add(value)
  const open: (Record<string, unknown> | unknown[])[] = [value]
  const read = (members: Record<string | number, unknown>, name: string | number) => {
    const member = members[name]
    if (typeof member === 'string') {
      const number = unmarked(member)
      if (number !== undefined) members[name] = number
    } else if (isContainer(member)) {
      open.push(member)
    }
  }
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const members: Record<string | number, unknown> = Object(next)
    // `Object.keys` of an array would create a string for each index.
    if (Array.isArray(next)) for (let index = 0; index < next.length; index++) read(members, index)
    else for (const name of Object.keys(next)) read(members, name)
  }
  return value
}

function isContainer (value: unknown): value is Record<string, unknown> | unknown[] {
  return typeof value === 'object' && value !== null
}

const exactRoots = new WeakSet<object>()

/** Whether a value of `parseJson` contains a bigint or an ExactNumber. */
export function holdsExact (value: unknown): boolean {
  return isContainer(value) ? isExact(value) || exactRoots.has(value) : typeof value === 'bigint'
}

/** Like `parseJson`. Throws `answerTooLarge` for a text whose keys would block the event loop. */
export function parseResult (text: string): unknown {
  const excess = storedExcess(text)
  if (excess !== null) throw failure('answerTooLarge', { message: `The JSON of the response ${excess}: request fewer records or fields` })
  return parseJson(text)
}
