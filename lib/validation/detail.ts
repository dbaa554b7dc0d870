/** One error of the input, for the caller: its place and its remedy. */
import type { ErrorObject } from 'ajv'
import { failure, type TenantryError } from '../errors.js'
import { isRecord } from '../json/plain-value.js'
import { nearest } from '../schema/faults.js'

export interface ErrorDetail {
  /** JSON Pointer into the request: `/body/items/3/title`. */
  readonly path: string
  readonly message: string
  /** The violated JSON Schema keyword, or the nearest one. */
  readonly keyword: string
}

const maxNameLength = 100 // characters of a caller's name in a message
const maxTexts = 5 // details in one message
const maxNamesShown = 30 // values of an enum

const formatTexts: Readonly<Record<string, string>> = {
  email: 'must be an e-mail address',
  uuid: 'must be a UUID',
  'date-time': 'must be a date and time such as 2026-01-31T12:00:00Z',
  date: 'must be a date such as 2026-01-31',
  uri: 'must be an absolute URI'
}

const typeTexts: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  null: 'null'
}

const limitTexts: Readonly<Record<string, (limit: unknown) => string>> = {
  minLength: (limit) => `must have at least ${count(limit, 'character')}`,
  maxLength: (limit) => `must have at most ${count(limit, 'character')}`,
  minItems: (limit) => `must have at least ${count(limit, 'item')}`,
  maxItems: (limit) => `must have at most ${count(limit, 'item')}`,
  minProperties: (limit) => `must have at least ${count(limit, 'member')}`,
  maxProperties: (limit) => `must have at most ${count(limit, 'member')}`,
  minimum: (limit) => `must be at least ${String(limit)}`,
  maximum: (limit) => `must be at most ${String(limit)}`,
  exclusiveMinimum: (limit) => `must be more than ${String(limit)}`,
  exclusiveMaximum: (limit) => `must be less than ${String(limit)}`
}

/** The `validationFailed` of one part of the input, for rules beyond a schema. */
export function invalidInput (path: string, message: string, keyword: string): TenantryError {
  return failure('validationFailed', { extras: { details: [{ path, message, keyword }] } })
}

/** The message of an error with its first details, for callers that get one text. */
export function withDetails (message: string, details: unknown): string {
  if (!Array.isArray(details) || details.length === 0) return message
  const texts = details.filter(isRecord).slice(0, maxTexts).map(({ path, message }) => `${String(path)} ${String(message)}`.trim())
  return `${message}: ${texts.join('; ')}`
}

/** The detail of an error; `base` is the part: `/body`. The ajv of the error must be `verbose`. */
export function detailOf (error: ErrorObject, base: string): ErrorDetail {
  const { keyword } = error
  const params: Readonly<Record<string, unknown>> = error.params
  const path = base + error.instancePath
  switch (keyword) {
    case 'required':
      return { path: below(path, params['missingProperty']), message: 'is required', keyword }
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return unknownField(error, path, String(params['additionalProperty'] ?? params['unevaluatedProperty']))
    default:
      return { path, message: messageOf(error, params), keyword }
  }
}

function messageOf (error: ErrorObject, params: Readonly<Record<string, unknown>>): string {
  switch (error.keyword) {
    case 'type':
      return integerText(error, listOf(params['type'])) ??
        `must be ${listOf(params['type']).map((name) => typeTexts[name] ?? name).join(' or ')}`
    case 'enum':
      return enumText(error.parentSchema?.['expected'], params['allowedValues'])
    case 'const':
      return `must be ${valuesOf([params['allowedValue']])}`
    case 'format':
      return formatTexts[String(params['format'])] ?? `must be of the format ${String(params['format'])}`
    case 'pattern':
      return patternText(error.parentSchema?.['expected'], params['pattern'])
    case 'uniqueItems':
      return 'must not contain the same item twice'
    case 'false schema':
    case 'not':
      return 'is not accepted'
    default:
      return limitTexts[error.keyword]?.(params['limit']) ?? error.message ?? 'is invalid'
  }
}

/** The message for a large integer in a field that takes doubles only; undefined for other values and fields. */
function integerText ({ data, parentSchema }: ErrorObject, types: readonly unknown[]): string | undefined {
  if (typeof data !== 'bigint' || !(types.includes('integer') || types.includes('number'))) return undefined
  const [exclusive, inclusive, safe] = data > 0n
    ? ['exclusiveMaximum', 'maximum', Number.MAX_SAFE_INTEGER]
    : ['exclusiveMinimum', 'minimum', Number.MIN_SAFE_INTEGER]
  const limit: unknown = parentSchema?.[exclusive]
  return limit === undefined ? limitTexts[inclusive]?.(parentSchema?.[inclusive] ?? safe) : limitTexts[exclusive]?.(limit)
}

function enumText (expected: unknown, values: unknown): string {
  return `must be ${typeof expected === 'string' ? expected : `one of ${valuesOf(values)}`}`
}

function patternText (expected: unknown, pattern: unknown): string {
  return typeof expected === 'string' ? `must be ${expected}` : `must match the pattern ${String(pattern)}`
}

function unknownField (error: ErrorObject, path: string, name: string): ErrorDetail {
  const patterns: unknown = error.parentSchema?.['patternProperties']
  // The names of a map's members come from the caller.
  if (isRecord(patterns)) {
    return {
      path: below(path, name),
      message: `"${shortened(name)}" is not accepted as a name: it must match the pattern ${Object.keys(patterns).join(' or ')}`,
      keyword: error.keyword
    }
  }
  const known: unknown = error.parentSchema?.['properties']
  // The distance to a known name takes the product of the lengths, and the caller chose this one.
  const suggestion = name.length <= maxNameLength && isRecord(known) ? nearest(name, Object.keys(known)) : undefined
  return {
    path: below(path, name),
    message: `"${shortened(name)}" is not a known field${suggestion === undefined ? '' : `, did you mean "${suggestion}"?`}`,
    keyword: error.keyword
  }
}

function below (path: string, name: unknown): string {
  return `${path}/${shortened(String(name)).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

/** A caller's name for a message, or for the path of an error. */
export function shortened (name: string): string {
  return name.length > maxNameLength ? `${name.slice(0, maxNameLength)}…` : name
}

function listOf (value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [String(value)]
}

function valuesOf (values: unknown): string {
  const shown = Array.isArray(values) ? values : []
  const texts = shown.slice(0, maxNamesShown).map((value) => typeof value === 'string' ? value : JSON.stringify(value))
  return texts.join(', ') + (shown.length > maxNamesShown ? ', …' : '')
}

function count (limit: unknown, unit: string): string {
  return `${String(limit)} ${unit}${limit === 1 ? '' : 's'}`
}
