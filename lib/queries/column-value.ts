/** Values of columns: converts JSON values, detects values that do not fit, and says which types have an order and a text form. */
import type { Column } from '../database/catalogue.js'
import { ExactNumber, fitsInt64, isExact, isNumber, maxNumberLength } from '../json/exact-number.js'
import { isStorable, isStorableJson } from '../json/storable.js'
import { stringifyJson } from '../json/stringify.js'
import { splitList } from './request-value.js'

/** The value does not fit the column. */
export const unfit = Symbol('unfit')

/** The kinds of column types, as far as JSON distinguishes them. */
type Kind = 'text' | 'integer' | 'decimal' | 'boolean' | 'json' | 'array' | 'vector'

const kinds: Readonly<Record<string, Kind>> = {
  smallint: 'integer',
  integer: 'integer',
  bigint: 'integer',
  numeric: 'decimal',
  real: 'decimal',
  'double precision': 'decimal',
  boolean: 'boolean',
  json: 'json',
  jsonb: 'json',
  vector: 'vector',
  halfvec: 'vector'
}

const integerBounds: Readonly<Record<string, number>> = { smallint: 32_767, integer: 2_147_483_647, bigint: Number.MAX_SAFE_INTEGER }

/** PostgreSQL's limit of array dimensions. */
const maxDimensions = 6

/** The kind of a column type; unknown types are written and read as text. */
export function kindOf (type: string): Kind {
  if (type.endsWith('[]')) return 'array'
  return Object.hasOwn(kinds, type) ? kinds[type]! : 'text'
}

export function itemType (type: string): string {
  return type.slice(0, -2)
}

/** The type of a column's values. */
export type ColumnType = Pick<Column, 'type' | 'valueType' | 'labels'>

/** The type of the items of an array. */
export function itemOf ({ type, valueType = type, labels }: ColumnType): ColumnType {
  return { type: itemType(valueType), ...labels !== undefined && { labels } }
}

export function isJsonArray (column: ColumnType): boolean {
  return kindOf(column.type) === 'array' && kindOf(itemOf(column).type) === 'json'
}

/** Converts a JSON value other than null to the bound value; `unfit` if it does not fit. */
export type Encoder = (value: unknown) => unknown

export function encoderOf (column: ColumnType): Encoder {
  const { type, labels } = column
  switch (kindOf(type)) {
    case 'json':
      return encodeJson
    case 'boolean':
      return encodeBoolean
    case 'decimal':
      return encodeDecimal
    case 'integer':
      return integerEncoder(integerBounds[type] ?? Number.MAX_SAFE_INTEGER)
    case 'vector':
      return (value) => Array.isArray(value) && value.every(isNumber) ? stringifyJson(value) : unfit
    case 'array':
      return arrayEncoder(encoderOf(itemOf(column)), isJsonArray(column) ? 0 : maxDimensions - 1)
    case 'text':
      return textEncoder(type, labels)
  }
}

/** The encoder of a list of a column's values: an array, or a comma-separated string. */
export function listEncoder (column: ColumnType): Encoder {
  const encodeItems = arrayEncoder(encoderOf(column))
  return (value) => {
    if (typeof value === 'string') return encodeItems(splitList(value))
    return encodeItems(Array.isArray(value) ? value.filter((item) => item !== null) : [value])
  }
}

// PostgreSQL recurses at each `%` of a pattern, and at each level of JSON. Thousands overflow the small stack of the embedded engine.
const maxWildcards = 100

/** For messages. */
export const patternExpectation = `a string with at most ${maxWildcards} \`%\`, which cannot end in a single backslash`

/**
 * The encoder of `like` patterns. A pattern that ends in its escape character fails only at a row that matches the rest of it.
 * PostgreSQL may test another tenant's row before it checks the tenant, so the error would reveal that row.
 */
export const encodePattern: Encoder = (value) => {
  const text = encodeText(value)
  if (typeof text !== 'string') return text
  if (text.split('%', maxWildcards + 2).length > maxWildcards + 1) return unfit
  let end = text.length
  while (text[end - 1] === '\\') end--
  return (text.length - end) % 2 === 1 ? unfit : text
}

/** The accepted values of a column, for messages: "an integer". */
export function describeType ({ type, labels }: Pick<Column, 'type' | 'labels'>): string {
  if (labels !== undefined && !type.endsWith('[]')) return `one of ${labels.map((label) => `"${label}"`).join(', ')}`
  switch (kindOf(type)) {
    case 'integer':
      return `an integer (${type})`
    case 'decimal':
      return 'a number'
    case 'boolean':
      return 'true or false'
    case 'array':
      return `an array (${type})`
    case 'vector':
      return 'an array of numbers'
    case 'json':
      return 'any JSON value'
    case 'text':
      return type === 'text' ? 'a string' : formOf(type)?.description ?? `a string (${type})`
  }
}

/** Other types whose text form differs from every number and boolean. */
const formedTypes = /^(time|interval)\b/

function textEncoder (type: string, labels: readonly string[] | undefined): Encoder {
  if (labels !== undefined) {
    const known = new Set(labels)
    return textThat((text) => known.has(text))
  }
  const form = formOf(type)
  if (form !== undefined) return textThat(form.fits)
  return formedTypes.test(type) ? textThat(() => true) : encodeText
}

function textThat (fits: (text: string) => boolean): Encoder {
  return (value) => typeof value === 'string' && fits(value) ? value : unfit
}

/** PostgreSQL stores other texts in `json` too, but cannot read them: functions such as `json_each` then fail. */
function encodeJson (value: unknown): unknown {
  const text = stringifyJson(value)
  return isStorableJson(text) ? text : unfit
}

function encodeText (value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return isStorable(value) ? value : unfit
    case 'number':
    case 'boolean':
    case 'bigint':
      return String(value)
    default:
      return value instanceof ExactNumber ? String(value) : unfit
  }
}

function encodeBoolean (value: unknown): unknown {
  if (typeof value === 'boolean') return value
  return value === 'true' || value === 'false' ? value === 'true' : unfit
}

function encodeDecimal (value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : unfit
  const text = isExact(value) ? String(value) : value
  return typeof text === 'string' && text.length <= maxNumberLength && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i.test(text) ? text : unfit
}

function integerEncoder (bound: number): Encoder {
  // An integer beyond 2^53 may also be a string.
  const fits = bound === Number.MAX_SAFE_INTEGER
    ? (text: string) => text.length < 19 || fitsInt64(BigInt(text))
    : (text: string) => isBetween(Number(text), bound)
  return (value) => {
    if (typeof value === 'number') return Number.isInteger(value) && isBetween(value, bound) ? value : unfit
    if (typeof value === 'bigint') return bound === Number.MAX_SAFE_INTEGER && fitsInt64(value) ? String(value) : unfit
    return typeof value === 'string' && /^[+-]?\d{1,19}$/.test(value) && fits(value) ? value : unfit
  }
}

function isBetween (value: number, bound: number): boolean {
  return value <= bound && value >= -bound - 1
}

/** The items of an array. Up to `depth` further levels of nested arrays are accepted, because PostgreSQL gives them the same type. */
function arrayEncoder (encode: Encoder, depth = 0): Encoder {
  const encodeNested = depth === 0 ? encode : arrayEncoder(encode, depth - 1)
  return (value) => {
    if (!Array.isArray(value)) return unfit
    const items = new Array<unknown>(value.length)
    for (let index = 0; index < value.length; index++) {
      const item: unknown = value[index]
      const encoded = item === null ? null : Array.isArray(item) ? encodeNested(item) : encode(item)
      if (encoded === unfit) return unfit
      items[index] = encoded
    }
    return items
  }
}

/** PostgreSQL's built-in types without an order; statements that order by them fail. */
const unordered: ReadonlySet<string> = new Set([
  'json', 'jsonpath', 'xml', 'point', 'line', 'lseg', 'box', 'path', 'polygon', 'circle', 'xid', 'cid', 'aclitem',
  'pg_snapshot', 'txid_snapshot'
])

/** Arrays are ordered by their items. */
export function isOrdered (type: string): boolean {
  return !unordered.has(kindOf(type) === 'array' ? itemType(type) : type)
}

/** The remedy, for the end of a message. */
export function orderedInstead (type: string): string {
  return type === 'json' ? ': make it jsonb' : ''
}

// The text form of other types. Texts that PostgreSQL accepts always pass. Most others are rejected here, so that the response can name
// the field, which the database's error does not.

/** The expected form of a type's texts. */
interface TextForm {
  readonly fits: (text: string) => boolean
  /** For messages. */
  readonly description: string
}

const moment: TextForm = { fits: isMoment, description: 'a date and time, such as 2026-01-31T12:00:00Z' }

const range: TextForm = {
  fits: (text) => /^\s*(?:empty|[[(].*,.*[\])])\s*$/is.test(text),
  description: 'a range, such as [1,5) or [2026-01-01,2026-02-01)'
}
const ranges: TextForm = { fits: (text) => /^\s*\{.*\}\s*$/s.test(text), description: 'a list of ranges, such as {[1,5),[7,9)}' }
const network: TextForm = { fits: isNetwork, description: 'an IP address, such as 192.0.2.1 or 192.0.2.0/24' }

const forms: Readonly<Record<string, TextForm>> = {
  inet: network,
  cidr: network,
  ...Object.fromEntries(['int4', 'int8', 'num', 'ts', 'tstz', 'date'].flatMap((of) => [[`${of}range`, range], [`${of}multirange`, ranges]])),
  uuid: { fits: (text) => uuid.test(text), description: 'a UUID' },
  date: { fits: isMoment, description: 'a date, such as 2026-01-31' },
  'timestamp with time zone': moment,
  'timestamp without time zone': moment
}

/** The form of a type's texts; undefined if any text is allowed. */
export function formOf (type: string): TextForm | undefined {
  return Object.hasOwn(forms, type) ? forms[type] : undefined
}

/** PostgreSQL accepts hyphens between any groups of four digits, no hyphens, and braces around the whole. */
const uuid = /^(?:\{(?:[\da-f]{4}-?){7}[\da-f]{4}\}|(?:[\da-f]{4}-?){7}[\da-f]{4})$/i

/** PostgreSQL accepts fewer than four numbers in networks. */
function isNetwork (text: string): boolean {
  const [, address] = /^([\da-f.:]+)(?:\/\d{1,3})?$/i.exec(text) ?? []
  if (address === undefined) return false
  return address.includes(':') || address.split('.').every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255)
}

/** PostgreSQL's special date and time values. */
const words = /^\s*(?:[+-]?infinity|epoch|now|today|tomorrow|yesterday)\b/i
const calendar = /^\s*(\d{4})-(\d\d?)-(\d\d?)(?:[t\s]+(\d\d?):(\d\d)(?::(\d\d))?)?/i

/** Whether the calendar date exists. PostgreSQL accepts other notations too; all of them have digits. */
function isMoment (text: string): boolean {
  const match = calendar.exec(text)
  if (match === null) return /\d/.test(text) || words.test(text)
  const [year, month, date, hour = 0, minute = 0, second = 0] = match.slice(1).map((part) => part === undefined ? undefined : Number(part))
  // 24:00 is the end of the day, and second 60 a leap second.
  return hour <= 24 && minute <= 59 && second <= 60 && month! >= 1 && month! <= 12 && date! >= 1 &&
    date! <= daysOf(year!, month!, /bc/i.test(text))
}

function daysOf (year: number, month: number, beforeChrist: boolean): number {
  const last = new Date(0)
  last.setUTCFullYear(beforeChrist ? 1 - year : year, month, 0)
  return last.getUTCDate()
}
