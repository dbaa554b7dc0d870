/** The keywords of JSON Schema that check a value. Each ignores values of other types, and its own value if that is invalid. */
import { isRecord, lengthOf } from '../json/plain-value.js'
import { formatTests, isOfTypes } from './types-and-formats.js'

export type Schema = Readonly<Record<string, unknown>>

/** One check of a value by a schema and its subschemas. */
export interface SchemaWalk {
  check(schema: unknown, value: unknown): boolean
  /** Checks a member or an item. */
  inside(name: string | number, schema: unknown, value: unknown): boolean
  /** Checks without errors. */
  matches(schema: unknown, value: unknown): boolean
  /** The number of schemas that match, at most `most`. If none does, the errors of all stay. */
  matching(schemas: readonly unknown[], value: unknown, most: number): number
  /** The schema of a local reference; `true` for others. */
  resolve(reference: string): unknown
  /** Whether a pattern fits the text. `otherwise`: the result for a pattern that cannot be checked in time. */
  fits(pattern: string, text: string, otherwise: boolean): boolean
  equal(one: unknown, other: unknown): boolean
  namesOf(value: Schema): string[]
  /** Counts steps. */
  spend(count: number): void
  spendOn(text: string): void
  /** Adds an error, and returns false. */
  fail(keyword: string, params: Readonly<Record<string, unknown>>, schema: Schema, message?: string): false
}

type Rule = (walk: SchemaWalk, limit: unknown, value: unknown, schema: Schema) => boolean
/** null for a value of another type. */
type Measure = (walk: SchemaWalk, value: unknown) => number | null
type Comparison = (value: number, limit: number) => boolean

const formatSteps = 12

const isAtLeast: Comparison = (value, limit) => value >= limit
const isAtMost: Comparison = (value, limit) => value <= limit

const numberOf: Measure = (_, value) => typeof value === 'number' ? value : null
const itemsOf: Measure = (_, value) => Array.isArray(value) ? value.length : null
const membersOf: Measure = (walk, value) => isRecord(value) ? walk.namesOf(value).length : null
const charactersOf: Measure = (walk, value) => {
  if (typeof value !== 'string') return null
  walk.spendOn(value)
  return lengthOf(value)
}

const limits = {
  minimum: [numberOf, isAtLeast],
  maximum: [numberOf, isAtMost],
  exclusiveMinimum: [numberOf, (value, limit) => value > limit],
  exclusiveMaximum: [numberOf, (value, limit) => value < limit],
  minLength: [charactersOf, isAtLeast],
  maxLength: [charactersOf, isAtMost],
  minItems: [itemsOf, isAtLeast],
  maxItems: [itemsOf, isAtMost],
  minProperties: [membersOf, isAtLeast],
  maxProperties: [membersOf, isAtMost]
} as const satisfies Readonly<Record<string, readonly [Measure, Comparison]>>

const ofValues = {
  $ref: (walk, reference, value) => typeof reference !== 'string' || walk.check(walk.resolve(reference), value),
  type (walk, type, value, schema) {
    if (Array.isArray(type)) walk.spend(type.length)
    return isOfTypes(value, type) || (value === null && schema['nullable'] === true) || walk.fail('type', { type }, schema)
  },
  enum: (walk, values, value, schema) =>
    !Array.isArray(values) || values.some((each) => walk.equal(each, value)) || walk.fail('enum', { allowedValues: values }, schema),
  const: (walk, allowedValue, value, schema) => walk.equal(allowedValue, value) || walk.fail('const', { allowedValue }, schema),
  multipleOf: (walk, divisor, value, schema) =>
    typeof divisor !== 'number' || typeof value !== 'number' || Number.isInteger(value / divisor) ||
    walk.fail('multipleOf', { multipleOf: divisor }, schema, `must be a multiple of ${divisor}`),
  pattern: (walk, pattern, value, schema) =>
    typeof pattern !== 'string' || typeof value !== 'string' || walk.fits(pattern, value, true) ||
    walk.fail('pattern', { pattern }, schema),
  format (walk, format, value, schema) {
    const test = formatTests.get(format)
    if (test === undefined || typeof value !== 'string') return true
    walk.spend(formatSteps)
    walk.spendOn(value)
    return test(value) || walk.fail('format', { format }, schema)
  }
} satisfies Record<string, Rule>

const ofCombinations = {
  allOf: (walk, schemas, value) => !Array.isArray(schemas) || schemas.every((schema) => walk.check(schema, value)),
  anyOf: (walk, schemas, value, parent) =>
    !Array.isArray(schemas) || walk.matching(schemas, value, 1) === 1 || walk.fail('anyOf', {}, parent, 'must match one of several schemas'),
  oneOf: (walk, schemas, value, parent) =>
    !Array.isArray(schemas) || walk.matching(schemas, value, 2) === 1 ||
    walk.fail('oneOf', {}, parent, 'must match exactly one of several schemas'),
  not: (walk, schema, value, parent) => !walk.matches(schema, value) || walk.fail('not', {}, parent),
  if (walk, condition, value, { then = true, else: otherwise = true }) {
    return walk.check(walk.matches(condition, value) ? then : otherwise, value)
  }
} satisfies Record<string, Rule>

const ofArrays = {
  prefixItems: checkTuple,
  items (walk, schema, value, { prefixItems }) {
    if (Array.isArray(schema)) return checkTuple(walk, schema, value)
    return checkItems(walk, schema, value, Array.isArray(prefixItems) ? prefixItems.length : 0)
  },
  additionalItems: (walk, schema, value, { items }) => !Array.isArray(items) || checkItems(walk, schema, value, items.length),
  contains (walk, schema, value, parent) {
    if (!Array.isArray(value)) return true
    const { minContains: least, maxContains: most } = parent
    const count = value.filter((item) => walk.matches(schema, item)).length
    return (count >= numberOr(least, 1) && count <= numberOr(most, Infinity)) ||
      walk.fail('contains', {}, parent, 'does not contain the required number of items of one schema')
  }
} satisfies Record<string, Rule>

const ofObjects = {
  required: (walk, names, value, schema) => !isRecord(value) || hasAll(walk, names, value, schema),
  properties (walk, map, value) {
    if (!isRecord(map) || !isRecord(value)) return true
    return walk.namesOf(map).every((name) => !Object.hasOwn(value, name) || walk.inside(name, map[name], value[name]))
  },
  additionalProperties (walk, schema, value, parent) {
    if (!isRecord(value)) return true
    const { properties, patternProperties } = parent
    const patterns = isRecord(patternProperties) ? walk.namesOf(patternProperties) : []
    return walk.namesOf(value).every((name) => {
      if (isRecord(properties) && Object.hasOwn(properties, name)) return true
      if (patterns.some((pattern) => walk.fits(pattern, name, true))) return true
      if (schema === false) return walk.fail('additionalProperties', { additionalProperty: name }, parent)
      return walk.inside(name, schema, value[name])
    })
  },
  propertyNames (walk, schema, value, parent) {
    if (!isRecord(value)) return true
    return walk.namesOf(value).every((name) => walk.matches(schema, name)) ||
      walk.fail('propertyNames', {}, parent, 'has a member whose name is not accepted')
  },
  dependentRequired: checkDependencies,
  dependentSchemas: checkDependencies,
  dependencies: checkDependencies
} satisfies Record<string, Rule>

/** The rules by their keywords. */
export const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...Object.entries(limits).map(([keyword, [measure, isMet]]) => [keyword, limitRule(keyword, measure, isMet)] as const),
  ...Object.entries({ ...ofValues, ...ofCombinations, ...ofArrays, ...ofObjects })
])

function limitRule (keyword: string, measure: Measure, isMet: Comparison): Rule {
  return (walk, limit, value, schema) => {
    const size = typeof limit === 'number' ? measure(walk, value) : null
    return size === null || isMet(size, Number(limit)) || walk.fail(keyword, { limit }, schema)
  }
}

function checkTuple (walk: SchemaWalk, schemas: unknown, value: unknown): boolean {
  if (!Array.isArray(schemas) || !Array.isArray(value)) return true
  const length = Math.min(schemas.length, value.length)
  for (let index = 0; index < length; index++) if (!walk.inside(index, schemas[index], value[index])) return false
  return true
}

function checkItems (walk: SchemaWalk, schema: unknown, value: unknown, from: number): boolean {
  if (!Array.isArray(value)) return true
  for (let index = from; index < value.length; index++) if (!walk.inside(index, schema, value[index])) return false
  return true
}

function hasAll (walk: SchemaWalk, names: unknown, value: Schema, schema: Schema): boolean {
  if (!Array.isArray(names)) return true
  walk.spend(names.length)
  const missing: unknown = names.find((name) => typeof name === 'string' && !Object.hasOwn(value, name))
  return missing === undefined || walk.fail('required', { missingProperty: missing }, schema)
}

function numberOr (value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

/** The value of a member is a list of names, or a schema. */
function checkDependencies (walk: SchemaWalk, map: unknown, value: unknown, schema: Schema): boolean {
  if (!isRecord(map) || !isRecord(value)) return true
  return walk.namesOf(map).every((name) => {
    if (!Object.hasOwn(value, name)) return true
    const needed = map[name]
    return Array.isArray(needed) ? hasAll(walk, needed, value, schema) : walk.check(needed, value)
  })
}
