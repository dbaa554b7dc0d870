/** Values of a request's body keep their JSON type: a string is no number, and a word no date. Strings of a URL are converted. */
import type { Column } from '../database/catalogue.js'
import type { CompiledValue } from '../expressions/types.js'
import { isExact } from '../json/exact-number.js'
import { isStorable, unstorableText } from '../json/storable.js'
import { describeType, type Encoder, encoderOf, itemType, kindOf, unfit } from './column-value.js'

type Fits = (value: unknown) => boolean

/** The encoder of a written column; it also enforces the limits of the column. */
export function writtenEncoderOf (column: Column): Encoder {
  const [encode, bounds] = [encoderOf(column), boundsOf(column)]
  if (bounds.length === 0) return encode
  return (value) => {
    const encoded = encode(value)
    return bounds.every(({ fits }) => fits(encoded)) ? encoded : unfit
  }
}

/** The encoder of a column for a configured value. A value that one template reads from the body is not converted. */
export function encoderFor (column: Column, { references, within }: CompiledValue): Encoder {
  const isOfBody = within === undefined && references.length > 0 && references.every(({ source }) => source === 'body')
  return isOfBody ? jsonEncoderOf(column) : writtenEncoderOf(column)
}

export function jsonEncoderOf (column: Column): Encoder {
  const [fits, encode] = [fitsOf(column.valueType ?? column.type), writtenEncoderOf(column)]
  return (value) => fits(value) ? encode(value) : unfit
}

/** The reason why the column rejects the value, with its JSON Schema keyword. */
export function misfitOf (column: Column, value: unknown): { readonly message: string, readonly keyword: string } {
  const kind = kindOf(column.type)
  const items = Array.isArray(value) ? value.flat(Infinity) : [value]
  if (kind === 'json' || items.some((item) => typeof item === 'string' && !isStorable(item))) {
    return { message: `the column "${column.name}" ${unstorableText}`, keyword: 'pattern' }
  }
  const encoded = encoderOf(column)(value)
  const { description, keyword } = (encoded === unfit ? undefined : boundsOf(column).find(({ fits }) => !fits(encoded))) ??
    { description: describeType(column), keyword: 'type' }
  return { message: `the column "${column.name}" must be ${description}`, keyword }
}

const any: Fits = () => true
const isNoText: Fits = (value) => typeof value !== 'string'
const isText: Fits = (value) => typeof value === 'string'
const isBoolean: Fits = (value) => typeof value === 'boolean'

/** Numbers beyond the range of a double may be strings. */
const wideNumbers: ReadonlySet<string> = new Set(['bigint', 'numeric'])

/** ISO 8601, or PostgreSQL's space for the `T`. `infinity`, and years without four digits, are no `date-time` of a JSON Schema. */
const moment = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?$/i
const isMoment: Fits = (value) => typeof value === 'string' && moment.test(value)

function fitsOf (type: string): Fits {
  switch (kindOf(type)) {
    case 'integer':
    case 'decimal':
      return wideNumbers.has(type) ? any : isNoText
    case 'boolean':
      return isBoolean
    case 'text':
      return type === 'date' || type.startsWith('timestamp') ? isMoment : isText
    case 'array':
      return itemsFit(fitsOf(itemType(type)))
    case 'json':
    case 'vector':
      return any
  }
}

/** Nested arrays have the same type. */
function itemsFit (fits: Fits): Fits {
  const fitsAll: Fits = (value) =>
    !Array.isArray(value) || value.every((item: unknown) => item === null || (Array.isArray(item) ? fitsAll(item) : fits(item)))
  return fitsAll
}

// The limits in a column's type: `varchar(20)`, `numeric(5, 2)`, `text[]`. They apply to written values, not to values in comparisons.

/** A limit of a column, with the JSON Schema keyword for its message. */
interface ColumnBound {
  readonly fits: (encoded: unknown) => boolean
  readonly description: string
  readonly keyword: string
}

/** In arrays, the limits of values apply to each item. */
function boundsOf ({ type, dimensions = 1, maxLength, precision, scale = 0 }: Column): ColumnBound[] {
  const bounds: ColumnBound[] = []
  if (kindOf(type) === 'array' && dimensions === 1) {
    bounds.push({
      fits: (value) => !Array.isArray(value) || !value.some((item: unknown) => Array.isArray(item)),
      description: `an array (${type}) without arrays in it`,
      keyword: 'type'
    })
  }
  if (maxLength !== undefined) {
    bounds.push({
      fits: eachFits((value) => typeof value !== 'string' || isWithin(value, maxLength)),
      description: `a string of at most ${maxLength} characters`,
      keyword: 'maxLength'
    })
  }
  if (precision !== undefined) {
    bounds.push({
      fits: eachFits((value) =>
        (typeof value !== 'number' && typeof value !== 'string' && !isExact(value)) || fitsNumeric(String(value), precision, scale)
      ),
      description: `a number whose absolute value, rounded to ${scale} decimal places, is less than 10^${precision - scale}`,
      keyword: 'maximum'
    })
  }
  return bounds
}

function eachFits (fits: (value: unknown) => boolean): (encoded: unknown) => boolean {
  const all = (value: unknown): boolean => Array.isArray(value) ? value.every(all) : fits(value)
  return all
}

/** PostgreSQL counts code points, and silently truncates trailing spaces. */
function isWithin (text: string, max: number): boolean {
  if (text.length <= max) return true
  let count = 0
  for (const character of text) if (++count > max && character !== ' ') return false
  return true
}

const decimal = /^[+-]?(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i

/** Whether the number, rounded to `scale`, has at most `precision` digits. PostgreSQL rounds halves away from zero. */
export function fitsNumeric (text: string, precision: number, scale: number): boolean {
  const [, whole = '', fraction = '', exponent = '0'] = decimal.exec(text) ?? []
  const digits = whole + fraction
  const first = digits.search(/[1-9]/)
  if (first === -1) return true
  const size = whole.length + Number(exponent) - first // digits before the point; negative for leading zeros after it
  if (size !== precision - scale) return size < precision - scale
  const kept = digits.slice(first, first + precision)
  return kept.length < precision || /[^9]/.test(kept) || !/[5-9]/.test(digits.charAt(first + precision))
}
