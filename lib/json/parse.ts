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

/** Ends of numbers with three digits of an exponent, and parts of texts such as UUIDs. */
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

/**
 * `parseJson` for a caller's text. Throws a NumberTooLongError for a number of more than `maxNumberLength` characters, and for an exponent
 * beyond that of a double: PostgreSQL writes 1e100000 with 100,001 digits.
 */
export function parseSent (text: string): unknown {
  return mayHoldExact(text) ? parseExact(text, true) : JSON.parse(text)
}

// A literal becomes a string with this prefix. It is secret, so no text from outside can have it.
const mark = randomBytes(18).toString('base64url')

const literals = /-?\d[\d.]{15,}(?:[eE][+-]?\d+)?|-?\d[\d.]{0,14}[eE][+-]?\d{3,}/g
const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const colonNext = /\s*:/y

function parseExact (text: string, isSent: boolean): unknown {
  const marked = withMarks(text, isSent)
  if (marked === text) return JSON.parse(text)
  let value: unknown
  try {
    value = JSON.parse(marked)
  } catch {
    // The same error as for other texts.
    return JSON.parse(text)
  }
  return withoutMarks(value)
}

/** The text with each number that a double would change as a marked string. Linear: strings are skipped, literals read once. */
function withMarks (text: string, isSent: boolean): string {
  let marked = ''
  let copied = 0
  let index = 0
  literals.lastIndex = 0
  let found = literals.exec(text)
  while (found !== null) {
    const quote = text.indexOf('"', index)
    if (quote !== -1 && quote < found.index) {
      index = endOfString(text, quote) + 1
      if (found.index < index) {
        literals.lastIndex = index
        found = literals.exec(text)
      }
      continue
    }
    const [literal] = found
    const end = found.index + literal.length
    if (isSent && isTooLong(literal)) throw new NumberTooLongError()
    if (number.test(literal) && isExact(numberOf(literal)) && !isName(text, end)) {
      marked += `${text.slice(copied, found.index)}"${mark}${literal}"`
      copied = end
    }
    index = end
    found = literals.exec(text)
  }
  return copied === 0 ? text : marked + text.slice(copied)
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

function withoutMarks (value: unknown): unknown {
  if (typeof value === 'string') return unmarked(value) ?? value
  if (!isOpen(value)) return value
  exactRoots.add(value)
  const open: (Record<string, unknown> | unknown[])[] = [value]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const members: Record<string | number, unknown> = Object(next)
    for (const name of Object.keys(next)) {
      const member = members[name]
      if (typeof member === 'string') {
        const exact = unmarked(member)
        if (exact !== undefined) members[name] = exact
      } else if (isOpen(member)) {
        open.push(member)
      }
    }
  }
  return value
}

function unmarked (text: string): Exact | undefined {
  if (!text.startsWith(mark)) return undefined
  const exact = numberOf(text.slice(mark.length))
  return isExact(exact) ? exact : undefined
}

function isOpen (value: unknown): value is Record<string, unknown> | unknown[] {
  return typeof value === 'object' && value !== null
}

const exactRoots = new WeakSet<object>()

/** Whether a value of `parseJson` contains a bigint or an ExactNumber. */
export function holdsExact (value: unknown): boolean {
  return typeof value === 'object' && value !== null ? isExact(value) || exactRoots.has(value) : typeof value === 'bigint'
}

/** Like `parseJson`. Throws `answerTooLarge` for a text whose keys would block the event loop. */
export function parseResult (text: string): unknown {
  const excess = storedExcess(text)
  if (excess !== null) throw failure('answerTooLarge', { message: `The JSON of the response ${excess}: request fewer records or fields` })
  return parseJson(text)
}
