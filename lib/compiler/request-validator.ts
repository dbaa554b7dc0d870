/**
 * Checks the parts of a request against the rules of a tenant's route, by walking the schemas of request-field.ts. It generates
 * no code: a validator of ajv takes half a millisecond per field to compile and a kilobyte of memory to keep, at the expense of
 * other tenants. Errors and coercion are the same as with ajv.
 */
import type { ErrorObject } from 'ajv'
import { oncePerObject } from '../cache/weak-memo.js'
import type { JsonSchema } from '../expressions/types.js'
import { compareNumbers, type Exact, ExactNumber, isInteger, numberIn } from '../json/exact-number.js'
import { isRecord, lengthOf } from '../json/plain-value.js'
import { pointerTo } from '../schema/faults.js'
import { invalidInput } from '../validation/detail.js'
import type { LinearPattern } from '../validation/linear-pattern.js'
import { formatTests, isOfTypes } from '../validation/types-and-formats.js'
import { isSmall } from '../validation/validator.js'

const maxErrors = 50
const maxScanned = 16 // values of an enum; longer enums use a look-up

/** Checks one part and coerces URL strings in place; null if it is valid. Throws when the budget is used up. */
export type PartValidator = (value: unknown, budget: CheckBudget) => readonly ErrorObject[] | null

/** The compiled patterns, by their source in the schemas. */
export type Patterns = ReadonlyMap<string, LinearPattern>

interface PartOptions {
  readonly patterns: Patterns
  /** Strings are converted to the types of their schemas, as in a URL or a form. Otherwise a large part reports only its first error. */
  readonly coerces: boolean
}

export function createPartValidator (schema: JsonSchema, { patterns, coerces }: PartOptions): PartValidator {
  return (value, budget) => {
    const walk = new Walk(patterns, coerces, budget, value)
    walk.check(schema, value)
    return walk.errors
  }
}

class Walk {
  errors: ErrorObject[] | null = null
  /** The path to the current value, as keys and indexes: only an error needs it as a pointer. */
  readonly #way: (string | number)[] = []
  /** The number of errors that stops the walk. */
  #most = 1

  constructor (
    private readonly patterns: Patterns,
    private readonly coerces: boolean,
    private readonly budget: CheckBudget,
    private readonly part: unknown
  ) {}

  /** Returns the value, coerced if necessary. */
  check (schema: JsonSchema, given: unknown): unknown {
    this.budget.spend(steps.value)
    const { type, enum: values } = schema
    let value = given
    let result = given
    if (type !== undefined) {
      if (!isOfTypes(value, type)) {
        // A list of one item counts as the item, even if the item has the wrong type too.
        if (this.coerces && Array.isArray(value) && value.length === 1 && type !== 'object') value = value[0]
        const fitting = this.coerces && typeof value === 'string' ? coercedText(value, [type].flat()) : undefined
        if (fitting === undefined) this.#fail('type', { type }, schema)
        else value = result = fitting
      }
    }
    switch (typeof value) {
      case 'string':
        this.#text(schema, value)
        break
      case 'number':
      case 'bigint':
        this.#number(schema, value)
        break
      case 'object':
        if (value instanceof ExactNumber) this.#number(schema, value)
        else if (Array.isArray(value)) this.#list(schema, value)
        else if (isRecord(value)) this.#object(schema, value)
    }
    if (Array.isArray(values) && !isListed(values, value)) this.#fail('enum', { allowedValues: values }, schema)
    return result
  }

  #text (schema: JsonSchema, value: string): void {
    const { minLength, maxLength, format, then } = schema
    if (typeof minLength === 'number' && (value.length < minLength || lengthOf(value) < minLength)) {
      this.#fail('minLength', { limit: minLength }, schema)
    }
    const isTooLong = typeof maxLength === 'number' && value.length > maxLength && lengthOf(value) > maxLength
    if (isTooLong) this.#fail('maxLength', { limit: maxLength }, schema)
    if (typeof format === 'string') {
      this.budget.spend(format.startsWith('date') ? steps.date : steps.format)
      if (formatTests.get(format)?.(value) === false) this.#fail('format', { format }, schema)
    }
    const written = !isTooLong && isRecord(then) ? then['pattern'] : undefined
    if (typeof written !== 'string' || this.#done()) return
    const pattern = this.patterns.get(written)
    if (pattern === undefined) throw new Error('the pattern was not compiled')
    this.budget.spend(steps.pattern + pattern.stepsOn(value))
    if (!pattern.test(value)) this.#fail('pattern', { pattern: written }, schema)
  }

  #number (schema: JsonSchema, value: number | Exact): void {
    const { minimum, maximum } = schema
    if (typeof maximum === 'number' && compareNumbers(value, maximum) > 0) this.#fail('maximum', { limit: maximum }, schema)
    if (typeof minimum === 'number' && compareNumbers(value, minimum) < 0) this.#fail('minimum', { limit: minimum }, schema)
  }

  #list (schema: JsonSchema, value: unknown[]): void {
    const { minItems, maxItems, items } = schema
    if (typeof maxItems === 'number' && value.length > maxItems) this.#fail('maxItems', { limit: maxItems }, schema)
    if (typeof minItems === 'number' && value.length < minItems) this.#fail('minItems', { limit: minItems }, schema)
    if (!isRecord(items)) return
    for (let index = 0; index < value.length && !this.#done(); index++) {
      const item: unknown = value[index]
      this.#way.push(index)
      const checked = this.check(items, item)
      this.#way.pop()
      if (checked !== item) value[index] = checked
    }
  }

  #object (schema: JsonSchema, value: Record<string, unknown>): void {
    const { required, properties, additionalProperties } = schema
    this.budget.spend(steps.object)
    if (Array.isArray(required)) {
      this.budget.spend(steps.required * required.length)
      for (const name of required) if (!Object.hasOwn(value, name)) this.#fail('required', { missingProperty: String(name) }, schema)
    }
    if (!isRecord(properties)) return
    for (const name of Object.keys(value)) {
      if (this.#done()) return
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (isRecord(property)) {
        const member = value[name]
        this.#way.push(name)
        const checked = this.check(property, member)
        this.#way.pop()
        if (checked !== member) value[name] = checked
      } else if (additionalProperties === false) {
        this.#fail('additionalProperties', { additionalProperty: name }, schema)
      } else {
        this.budget.spend(steps.value)
      }
    }
  }

  #done (): boolean {
    return this.errors !== null && this.errors.length >= this.#most
  }

  #fail (keyword: string, params: Record<string, unknown>, parentSchema: JsonSchema): void {
    if (this.#done()) return
    // A valid part need not be measured.
    if (this.errors === null) this.#most = this.coerces || isSmall(this.part) ? maxErrors : 1
    this.errors ??= []
    this.errors.push({ keyword, instancePath: pointerTo('', ...this.#way), schemaPath: '', params, parentSchema })
  }
}

const lookupOf = oncePerObject((values: readonly unknown[]) => new Set(values))

/** The values of a tenant's enum are neither objects nor arrays. */
function isListed (values: readonly unknown[], value: unknown): boolean {
  return values.length <= maxScanned ? values.includes(value) : lookupOf(values).has(value)
}

/** The coerced text: the first type that accepts it counts; undefined if none does. */
function coercedText (text: string, types: readonly unknown[]): unknown {
  for (const type of types) {
    const value = asType(text, type)
    if (value !== undefined) return value
  }
  return undefined
}

function asType (text: string, type: unknown): unknown {
  switch (type) {
    case 'string':
      return text
    case 'number':
      return numberIn(text)
    case 'integer': {
      const number = numberIn(text)
      return isInteger(number) ? number : undefined
    }
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : undefined
    case 'array':
      return [text]
    case 'null':
      return text === '' ? null : undefined
    default:
      return undefined
  }
}

const maxSteps = 1_100_000 // about 50 ms; a step is one character in one state of a pattern, and a pattern may take a million

/** The cost of each check, in steps. */
const steps = {
  value: 4,
  /** In addition to the cost of its members. */
  object: 12,
  /** For each required member. */
  required: 1,
  format: 12,
  /** For dates and times, which need a calendar. */
  date: 40,
  /** In addition to the cost of each character. */
  pattern: 30
} as const

/** The remaining steps of one request. All parts of the request share them. */
export class CheckBudget {
  #left = maxSteps

  /** Throws `validationFailed` if fewer steps are left. */
  spend (count: number): void {
    this.#left -= count
    if (this.#left < 0) throw invalidInput('', 'the request has too much data to validate: send less at once', 'limit')
  }
}
