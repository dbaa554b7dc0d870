/** Numbers of JSON that JavaScript's `number` cannot hold. */

/** A decimal that a double cannot represent: its text as JSON writes it. It has no own members, so paths and loops find nothing in it. */
export class ExactNumber {
  readonly #text: string

  constructor (text: string) {
    this.#text = text
    Object.freeze(this)
  }

  toString (): string {
    return this.#text
  }

  /** The nearest double, for arithmetic and comparisons: `+exact`. */
  valueOf (): number {
    return Number(this.#text)
  }

  /** As for a bigint: only `stringifyJson` writes the digits. */
  toJSON (): never {
    throw new TypeError('JSON.stringify cannot write an ExactNumber: use stringifyJson')
  }
}

/** A number that only lib/json reads and writes. */
export type Exact = bigint | ExactNumber

export function isExact (value: unknown): value is Exact {
  return typeof value === 'bigint' || value instanceof ExactNumber
}

/** Whether a value is a number of JSON, of any size. */
export function isNumber (value: unknown): value is number | Exact {
  return typeof value === 'number' || isExact(value)
}

export function isInteger (value: unknown): value is number | bigint {
  return typeof value === 'bigint' || Number.isInteger(value)
}

/** Whether PostgreSQL's `bigint` can store it. */
export function fitsInt64 (value: bigint): boolean {
  return BigInt.asIntN(64, value) === value
}

/** Characters of a number in a request; the longest `numeric` that a column can declare has 1000 digits. */
export const maxNumberLength = 1010

/** The value of a number as JSON writes it; leading zeros are accepted too. */
export function numberOf (text: string): number | Exact {
  const number = Number(text)
  if (!/[.e]/i.test(text)) {
    if (Number.isSafeInteger(number)) return number
    // The time that BigInt takes grows with the square of the length.
    return text.length <= maxNumberLength ? BigInt(text) : new ExactNumber(text)
  }
  const shortest = String(number)
  return text === shortest || isSame(text, shortest) ? number : new ExactNumber(text)
}

const decimal = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i

/** The number in a text of a URL, in JSON's form: no blank, no `0x10`. undefined for other texts, and for `1e999`. */
export function numberIn (text: string): number | Exact | undefined {
  if (text.length > maxNumberLength || !decimal.test(text)) return undefined
  const number = numberOf(text)
  return Number.isFinite(Number(number)) ? number : undefined
}

/** The sign of `left - right`. A bound is a double; an integer is compared exactly, and a decimal by the text of both. */
export function compareNumbers (left: number | Exact, right: number): number {
  if (!(left instanceof ExactNumber)) return left < right ? -1 : left > right ? 1 : 0
  const near = Number(left)
  if (near !== right) return near < right ? -1 : 1
  return Number.isFinite(right) ? compareDecimals(decimalOf(String(left)), decimalOf(String(right))) : 0
}

/** Whether two decimals are equal in value: 1.10 and 1.1. */
export function equalNumbers (left: ExactNumber, right: ExactNumber): boolean {
  return isSame(String(left), String(right))
}

/** A text that only equal numbers share: 10, 10.0 and 1e1. */
export function numberKey (value: number | Exact): string {
  // A number within these bounds equals no exact number.
  if (typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER) return JSON.stringify(value)
  const { negative, digits, exponent } = decimalOf(String(value))
  return `${negative ? '-' : ''}${digits}e${exponent}`
}

interface Decimal {
  readonly negative: boolean
  /** The digits without zeros at either end; empty for zero. */
  readonly digits: string
  /** The value is 0.digits times ten to this power. */
  readonly exponent: number
}

const form = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

function decimalOf (text: string): Decimal {
  const [, sign = '', whole = '', fraction = '', power = '0'] = form.exec(text) ?? []
  const all = whole + fraction
  let start = 0
  while (start < all.length && all.charCodeAt(start) === zero) start++
  let end = all.length
  while (end > start && all.charCodeAt(end - 1) === zero) end--
  const digits = all.slice(start, end)
  return { negative: sign === '-' && digits !== '', digits, exponent: digits === '' ? 0 : whole.length - start + Number(power) }
}

const zero = 0x30

function isSame (left: string, right: string): boolean {
  // Infinity, and the double of a too small number, share no digits with the text.
  if (!form.test(right)) return false
  const [one, other] = [decimalOf(left), decimalOf(right)]
  return one.digits === other.digits && one.exponent === other.exponent && one.negative === other.negative
}

function compareDecimals (left: Decimal, right: Decimal): number {
  if (left.negative !== right.negative) return left.negative ? -1 : 1
  const sign = left.negative ? -1 : 1
  if (left.exponent !== right.exponent && left.digits !== '' && right.digits !== '') return left.exponent < right.exponent ? -sign : sign
  return left.digits < right.digits ? -sign : left.digits > right.digits ? sign : 0
}
