/** Values that JSON has no type for, as objects of one member: `{"$timestamp": "…"}`. docs/guides/firestore.md lists them. */
import { isNumber } from './exact-number.js'
import { isRecord } from './plain-value.js'

/** The canonical form of a value, so that equal values have equal JSON; undefined for an invalid one. */
type Normalise = (value: unknown) => unknown

interface TypedForm {
  readonly normalise: Normalise
  /** For messages. */
  readonly expected: string
}

const maxReference = 6144 // characters of a path; Firestore's limit
const maxVector = 2048 // numbers

const forms = {
  $timestamp: { normalise: timestamp, expected: 'a date and time of the years 1 to 9999, such as "2026-01-31T12:00:00Z"' },
  $reference: { normalise: reference, expected: 'the collection and the id of a document, such as "notes/n1"' },
  $geoPoint: { normalise: geoPoint, expected: 'an object with a `latitude` from -90 to 90 and a `longitude` from -180 to 180' },
  $bytes: { normalise: bytes, expected: 'a Base64 string' },
  $number: {
    normalise: (value) => value === 'NaN' || value === 'Infinity' || value === '-Infinity' ? value : undefined,
    expected: '"NaN", "Infinity" or "-Infinity"'
  },
  $vector: { normalise: vector, expected: 'an array of 1 to 2,048 numbers' }
} as const satisfies Record<string, TypedForm>

export type TypedName = keyof typeof forms

export const typedNames: readonly string[] = Object.keys(forms)

/** The name of the form; undefined for other objects. */
export function typedNameOf (value: Readonly<Record<string, unknown>>): TypedName | undefined {
  let only: string | undefined
  for (const name in value) {
    if (only !== undefined) return undefined
    only = name
  }
  return isTypedName(only) ? only : undefined
}

function isTypedName (name: string | undefined): name is TypedName {
  return name !== undefined && Object.hasOwn(forms, name)
}

/** Whether the value is the form of NaN. */
export function isNaNForm (value: unknown): boolean {
  return isRecord(value) && typedNameOf(value) === '$number' && value['$number'] === 'NaN'
}

/** Whether a JSON text may contain such a value. False positives only cost time. */
export function mayHoldTyped (text: string): boolean {
  return text.includes('{"$')
}

/** A malformed typed value, by its path. */
export interface TypedFault {
  readonly path: readonly (string | number)[]
  readonly expected: string
}

/** The value with each typed value in its canonical form; faults go to the list. */
export function withNormalTypes (value: unknown, faults: TypedFault[], path: readonly (string | number)[] = []): unknown {
  if (Array.isArray(value)) return value.map((item: unknown, index) => withNormalTypes(item, faults, [...path, index]))
  if (!isRecord(value)) return value
  const name = typedNameOf(value)
  if (name === undefined) {
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withNormalTypes(member, faults, [...path, key])]))
  }
  const { normalise, expected } = forms[name]
  const normal = normalise(value[name])
  if (normal === undefined) faults.push({ path: [...path, name], expected })
  return { [name]: normal ?? null }
}

const moment = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/i

/** UTC, to the microsecond, so that these texts sort by time. */
function timestamp (value: unknown): string | undefined {
  const match = typeof value === 'string' ? moment.exec(value) : null
  if (match === null) return undefined
  const [, day = '', time = '', fraction = '', zone = ''] = match
  const ms = Date.parse(`${day}T${time}${zone.toUpperCase()}`)
  return isCalendarDay(day) && ms >= firstMoment && ms <= lastMoment ? timestampText(ms / 1000, Number(fraction.padEnd(9, '0'))) : undefined
}

/** Whether a text such as `2026-01-31` is a day of the calendar. `Date` reads the 30th of February as the 2nd of March. */
export function isCalendarDay (text: string): boolean {
  const midnight = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(text)
}

const firstMoment = Date.parse('0001-01-01T00:00:00Z') // ms
const lastMoment = Date.parse('9999-12-31T23:59:59Z') // ms

/** The text of a time: seconds since 1970, and nanoseconds, which are cut to microseconds. */
export function timestampText (seconds: number, nanoseconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, -4)}${String(Math.floor(nanoseconds / 1000)).padStart(6, '0')}Z`
}

function reference (value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > maxReference) return undefined
  const segments = value.split('/')
  return segments.length % 2 === 0 &&
      segments.every((segment) => segment !== '' && segment !== '.' && segment !== '..' && !/^__.*__$/su.test(segment))
    ? value
    : undefined
}

function geoPoint (value: unknown): unknown {
  if (!isRecord(value) || Object.keys(value).length !== 2) return undefined
  const { latitude, longitude } = value
  return isWithin(latitude, 90) && isWithin(longitude, 180) ? { latitude, longitude } : undefined
}

function isWithin (value: unknown, most: number): value is number {
  return typeof value === 'number' && Math.abs(value) <= most
}

const base64 = /^[A-Za-z0-9+/_-]*={0,2}$/

function bytes (value: unknown): string | undefined {
  return typeof value === 'string' && base64.test(value) ? Buffer.from(value, 'base64').toString('base64') : undefined
}

function vector (value: unknown): unknown {
  return Array.isArray(value) && value.length >= 1 && value.length <= maxVector &&
      value.every((item) => isNumber(item) && Number.isFinite(Number(item)))
    ? value.map(Number)
    : undefined
}
