/** The limits in a column's type: `varchar(20)`, `numeric(5, 2)`. They apply to written values, not to values in comparisons. */
import type { Column } from '../database/catalogue.js'
import { isExact } from '../json/exact-number.js'

export type BoundedColumn = Pick<Column, 'maxLength' | 'precision' | 'scale'>

/** A limit of a column, with the JSON Schema keyword for its message. */
export interface ColumnBound {
  readonly fits: (encoded: unknown) => boolean
  readonly description: string
  readonly keyword: string
}

/** undefined for a column without limits. In arrays, the limit applies to each item. */
export function boundOf ({ maxLength, precision, scale = 0 }: BoundedColumn): ColumnBound | undefined {
  if (maxLength !== undefined) {
    return {
      fits: itemsFit((value) => typeof value !== 'string' || isWithin(value, maxLength)),
      description: `a string of at most ${maxLength} characters`,
      keyword: 'maxLength'
    }
  }
  if (precision === undefined) return undefined
  const fits = (value: unknown): boolean =>
    (typeof value !== 'number' && typeof value !== 'string' && !isExact(value)) || fitsNumeric(String(value), precision, scale)
  return {
    fits: itemsFit(fits),
    description: `a number whose absolute value, rounded to ${scale} decimal places, is less than 10^${precision - scale}`,
    keyword: 'maximum'
  }
}

function itemsFit (fits: (value: unknown) => boolean): (encoded: unknown) => boolean {
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
