/** Numbers that a double cannot represent, in values that ajv checks. ajv sees the nearest double, so their rules are checked again. */
import type { ErrorObject } from 'ajv'
import { compareNumbers, type Exact, isExact, isInteger } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { pointerTo } from '../schema/faults.js'

type Check = (value: unknown) => readonly ErrorObject[] | null

interface Place {
  readonly holder: Record<string | number, unknown>
  readonly name: string
  readonly exact: Exact
}

/** The errors of a value that may contain exact numbers; null if it is valid. The value is unchanged, except for defaults. */
export function checkExact (schema: object, value: unknown, check: Check): readonly ErrorObject[] | null {
  if (isExact(value)) return check(Number(value)) ?? errorsIn(schema, value)
  const places = exactPlaces(value)
  for (const { holder, name, exact } of places) holder[name] = Number(exact)
  let errors
  try {
    errors = check(value)
  } finally {
    for (const { holder, name, exact } of places) holder[name] = exact
  }
  return errors ?? (places.length === 0 ? null : errorsIn(schema, value))
}

/** The errors of the exact numbers in a value against the number rules of its schema; null if they are valid. */
export function errorsIn (schema: object, value: unknown): readonly ErrorObject[] | null {
  const errors: ErrorObject[] = []
  collect(schema, value, '', errors)
  return errors.length === 0 ? null : errors
}

function exactPlaces (value: unknown): Place[] {
  const places: Place[] = []
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next !== 'object' || next === null) continue
    const holder: Record<string | number, unknown> = Object(next)
    for (const name of Object.keys(next)) {
      const member = holder[name]
      if (isExact(member)) places.push({ holder, name, exact: member })
      else if (typeof member === 'object') open.push(member)
    }
  }
  return places
}

function collect (schema: object, value: unknown, pointer: string, errors: ErrorObject[]): void {
  const rules: Readonly<Record<string, unknown>> = { ...schema }
  if (isExact(value)) errors.push(...numberErrors(rules, value, pointer))
  else if (Array.isArray(value)) {
    const { items } = rules
    if (isRecord(items)) { for (const [index, item] of value.entries()) collect(items, item, pointerTo(pointer, index), errors) }
  } else if (isRecord(value)) {
    const { properties, additionalProperties } = rules
    for (const [name, member] of Object.entries(value)) {
      const property = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : additionalProperties
      if (isRecord(property)) collect(property, member, pointerTo(pointer, name), errors)
    }
  }
}

/** The bounds of a number, by the sign of its difference from the limit. */
const bounds: readonly [keyword: string, isMet: (sign: number) => boolean][] = [
  ['minimum', (sign) => sign >= 0],
  ['maximum', (sign) => sign <= 0],
  ['exclusiveMinimum', (sign) => sign > 0],
  ['exclusiveMaximum', (sign) => sign < 0]
]

function numberErrors (schema: Readonly<Record<string, unknown>>, value: Exact, instancePath: string): ErrorObject[] {
  const { type, enum: values } = schema
  const types: readonly unknown[] = type === undefined ? [] : [type].flat()
  const errors: ErrorObject[] = []
  const require = (isRight: boolean, keyword: string, params: Record<string, unknown>) => {
    if (!isRight) errors.push({ keyword, instancePath, schemaPath: '', params, parentSchema: schema })
  }
  require(!types.includes('integer') || types.includes('number') || isInteger(value), 'type', { type })
  for (const [keyword, isMet] of bounds) {
    const limit = schema[keyword]
    if (typeof limit === 'number') require(isMet(compareNumbers(value, limit)), keyword, { limit })
  }
  if (Array.isArray(values)) {
    require(values.some((each) => typeof each === 'number' && compareNumbers(value, each) === 0), 'enum', { allowedValues: values })
  }
  return errors
}
