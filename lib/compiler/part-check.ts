/**
 * Checks the parts of requests by the rules of a tenant's route, walking the schemas that request-field.ts made of them.
 * Nothing is generated: a validator of ajv takes half a millisecond a field to make and keeps a kilobyte of code for it,
 * which no tenant may cost the others. The errors are those of ajv, and so is what texts of a URL are coerced to.
 */
import type { ErrorObject } from 'ajv'
import type { Field } from '../config/schema/route.js'
import type { LinearPattern } from './linear-pattern.js'
import type { JsonSchema } from './types.js'
import formats from 'ajv-formats'
import { pointerTo } from '../config/faults.js'
import { isRecord } from '../plain-value.js'
import { isSmall } from '../validation.js'
import { steps, type CheckBudget } from './check-budget.js'
import { coercedText } from './coercion.js'

const maxErrors = 50
const maxScanned = 16 // values of an enum; in a longer one they are looked up

/** Checks one part, of which the texts of a URL are coerced in place; null when it is right. Throws where the budget ends. */
export type PartChecker = (value: unknown, budget: CheckBudget) => readonly ErrorObject[] | null

/** The patterns of the schemas, as their fields write them. */
export type Patterns = ReadonlyMap<string, LinearPattern>

/** Makes the check of a body, or of an array of bodies: a large one is told its first error. */
export function bodyChecker (schema: JsonSchema, patterns: Patterns): PartChecker {
  return (value, budget) => errorsOf(new Walk({ patterns, budget, coerces: false, most: () => isSmall(value) ? maxErrors : 1 }), schema, value)
}

/** Makes the check of path parameters or of a query string. */
export function urlChecker (schema: JsonSchema, patterns: Patterns): PartChecker {
  return (value, budget) => errorsOf(new Walk({ patterns, budget, coerces: true, most: () => maxErrors }), schema, value)
}

function errorsOf (walk: Walk, schema: JsonSchema, value: unknown): readonly ErrorObject[] | null {
  walk.check(schema, value, '')
  return walk.errors.length === 0 ? null : walk.errors
}

interface WalkOptions {
  readonly patterns: Patterns
  readonly budget: CheckBudget
  /** Texts become what their schema asks for. */
  readonly coerces: boolean
  /** With as many errors the walk ends. Asked at the first one: what is right, however large, need not be measured. */
  readonly most: () => number
}

class Walk {
  readonly errors: ErrorObject[] = []
  readonly #options: WalkOptions
  #most = 1

  constructor (options: WalkOptions) {
    this.#options = options
  }

  /** The value, or what it was coerced to. */
  check (schema: JsonSchema, given: unknown, path: string): unknown {
    this.#options.budget.spend(steps.value)
    const { type, enum: values } = schema
    let value = given
    let result = given
    if (type !== undefined) {
      const types = namesOf(type)
      if (!isOfTypes(value, types)) {
        // A list of one is the one, and is judged as such where it is not of the type either.
        if (this.#options.coerces && Array.isArray(value) && value.length === 1 && type !== 'object') value = value[0]
        const fitting = this.#options.coerces && typeof value === 'string' ? coercedText(value, types) : undefined
        if (fitting === undefined) this.#fail('type', path, { type }, schema)
        else value = result = fitting
      }
    }
    switch (typeof value) {
      case 'string': this.#text(schema, value, path); break
      case 'number': this.#number(schema, value, path); break
      case 'object':
        if (Array.isArray(value)) this.#list(schema, value, path)
        else if (isRecord(value)) this.#object(schema, value, path)
    }
    if (Array.isArray(values) && !holds(values, value)) this.#fail('enum', path, { allowedValues: values }, schema)
    return result
  }

  #text (schema: JsonSchema, value: string, path: string): void {
    const { minLength, maxLength, format, then } = schema
    if (typeof minLength === 'number' && (value.length < minLength || lengthOf(value) < minLength)) this.#fail('minLength', path, { limit: minLength }, schema)
    const isTooLong = typeof maxLength === 'number' && value.length > maxLength && lengthOf(value) > maxLength
    if (isTooLong) this.#fail('maxLength', path, { limit: maxLength }, schema)
    if (typeof format === 'string') {
      this.#options.budget.spend(format.startsWith('date') ? steps.date : steps.format)
      if (!hasFormat(value, format)) this.#fail('format', path, { format }, schema)
    }
    const written = !isTooLong && isRecord(then) ? then['pattern'] : undefined
    if (typeof written !== 'string' || this.#done()) return
    const pattern = this.#options.patterns.get(written)
    if (pattern === undefined) throw new Error('a pattern that was not compiled')
    this.#options.budget.spend(steps.pattern + pattern.stepsOn(value))
    if (!pattern.test(value)) this.#fail('pattern', path, { pattern: written }, schema)
  }

  #number (schema: JsonSchema, value: number, path: string): void {
    const { minimum, maximum } = schema
    if (typeof maximum === 'number' && value > maximum) this.#fail('maximum', path, { limit: maximum }, schema)
    if (typeof minimum === 'number' && value < minimum) this.#fail('minimum', path, { limit: minimum }, schema)
  }

  #list (schema: JsonSchema, value: unknown[], path: string): void {
    const { minItems, maxItems, items } = schema
    if (typeof maxItems === 'number' && value.length > maxItems) this.#fail('maxItems', path, { limit: maxItems }, schema)
    if (typeof minItems === 'number' && value.length < minItems) this.#fail('minItems', path, { limit: minItems }, schema)
    if (!isRecord(items)) return
    for (let index = 0; index < value.length && !this.#done(); index++) {
      const item: unknown = value[index]
      const checked = this.check(items, item, `${path}/${index}`)
      if (checked !== item) value[index] = checked
    }
  }

  #object (schema: JsonSchema, value: Record<string, unknown>, path: string): void {
    const { required, properties, additionalProperties } = schema
    this.#options.budget.spend(steps.object)
    if (Array.isArray(required)) {
      this.#options.budget.spend(steps.required * required.length)
      for (const name of required) if (!Object.hasOwn(value, name)) this.#fail('required', path, { missingProperty: String(name) }, schema)
    }
    if (!isRecord(properties)) return
    for (const name of Object.keys(value)) {
      if (this.#done()) return
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (isRecord(property)) {
        const member = value[name]
        const checked = this.check(property, member, pointerTo(path, name))
        if (checked !== member) value[name] = checked
      } else if (additionalProperties === false) {
        this.#fail('additionalProperties', path, { additionalProperty: name }, schema)
      } else {
        this.#options.budget.spend(steps.value)
      }
    }
  }

  #done (): boolean {
    return this.errors.length >= this.#most
  }

  #fail (keyword: string, instancePath: string, params: Record<string, unknown>, parentSchema: JsonSchema): void {
    if (this.errors.length === 0) this.#most = this.#options.most()
    if (!this.#done()) this.errors.push({ keyword, instancePath, schemaPath: '', params, parentSchema })
  }
}

function namesOf (type: unknown): readonly unknown[] {
  return Array.isArray(type) ? type : [type]
}

function isOfTypes (value: unknown, names: readonly unknown[]): boolean {
  for (const name of names) if (isOfType(value, name)) return true
  return false
}

const lookups = new WeakMap<readonly unknown[], ReadonlySet<unknown>>()

/** Of a tenant's enum, whose values are neither objects nor arrays. */
function holds (values: readonly unknown[], value: unknown): boolean {
  if (values.length <= maxScanned) return values.includes(value)
  let lookup = lookups.get(values)
  if (lookup === undefined) lookups.set(values, lookup = new Set(values))
  return lookup.has(value)
}

function isOfType (value: unknown, name: unknown): boolean {
  switch (name) {
    case 'null': return value === null
    case 'array': return Array.isArray(value)
    case 'object': return isRecord(value)
    case 'integer': return Number.isInteger(value)
    case 'number': return typeof value === 'number'
    case 'boolean': return typeof value === 'boolean'
    default: return typeof value === 'string'
  }
}

/** Characters, of which some are two units of a text. */
function lengthOf (text: string): number {
  let length = 0
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit >= 0xd800 && unit < 0xdc00 && index + 1 < text.length && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00) index++
    length++
  }
  return length
}

const formatNames = ['email', 'uuid', 'date-time', 'date', 'uri'] as const satisfies readonly Field['format'][]
const known = new Map<string, (text: string) => boolean>(formatNames.map((name) => [name, testOf(formats.default.get(name))]))

function hasFormat (text: string, name: string): boolean {
  return known.get(name)?.(text) ?? true
}

function testOf (format: unknown): (text: string) => boolean {
  if (format instanceof RegExp) return (text) => format.test(text)
  const { validate = format }: { validate?: unknown } = Object(format)
  if (validate instanceof RegExp) return (text) => validate.test(text)
  if (typeof validate !== 'function') throw new Error('a format without a check')
  return (text) => validate(text) === true
}
