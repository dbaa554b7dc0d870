/**
 * Checks values by JSON Schemas of callers and other programs. Both may be hostile: references and combined schemas could multiply the
 * work without a bound, so the check counts its steps. It generates no code: ajv takes half a millisecond per field to compile.
 */
import type { ErrorObject } from 'ajv'
import { isRecord } from '../json/plain-value.js'
import { membersInFragment, pointerTo } from '../schema/faults.js'
import { shortened } from './detail.js'
import { compilePattern, type LinearPattern } from './linear-pattern.js'
import { rules, type Schema, type SchemaWalk } from './schema-rules.js'

const maxSteps = 1_000_000 // about 50 ms
const maxDepth = 400 // nested schemas, with references
const maxErrors = 50
const maxPatternWeight = 2000 // of a schema's patterns, which take some 20 ms to compile; further ones are not checked
const patternWeight = 20 // minimum for each pattern
const notChecked = 'its patterns are too large'

/** The steps of a check, in addition to one for each keyword. */
const steps = { schema: 8, error: 10, pattern: 30, charactersPerStep: 8 } as const

/** The errors of a value, none for a valid one; `unfinished` if the check would take too long. */
export type BoundedCheck = (value: unknown) => readonly ErrorObject[] | 'unfinished'

/**
 * Creates the check of a schema in the dialects from draft 7 to 2020-12. Keywords that it does not know, or whose values are invalid, are
 * ignored. So are `uniqueItems`, `patternProperties`, `unevaluatedProperties`, `unevaluatedItems`, and references outside the schema.
 */
export function createBoundedCheck (schema: Schema): BoundedCheck {
  const patterns = new Patterns()
  return (value) => {
    const walk = new Walk(schema, patterns)
    try {
      return walk.check(schema, value) ? [] : walk.errors
    } catch (error) {
      if (error instanceof Unfinished) return 'unfinished'
      throw error
    }
  }
}

class Unfinished extends Error {}

/** The keys and indexes that lead to a value. */
type Way = readonly (string | number)[]

/** The compiled patterns of one schema. */
class Patterns {
  readonly #known = new Map<string, LinearPattern | string>()
  #weight = 0

  /** A text for a pattern that cannot be checked. */
  get (source: string): LinearPattern | string {
    const known = this.#known.get(source)
    if (known !== undefined) return known
    const pattern = this.#weight > maxPatternWeight ? notChecked : compilePattern(source)
    this.#weight += patternWeight + (typeof pattern === 'string' ? 0 : pattern.weight)
    this.#known.set(source, pattern)
    return pattern
  }
}

class Walk implements SchemaWalk {
  readonly #root: Schema
  readonly #patterns: Patterns
  /** The schemas of the references so far. */
  readonly #resolved = new Map<string, unknown>()
  /** Most errors of combined schemas are dropped again, and a name can be as long as the value: so their paths are no pointers yet. */
  readonly #errors: (Omit<ErrorObject, 'instancePath'> & { readonly way: Way })[] = []
  /** The way to the current value. */
  readonly #way: (string | number)[] = []
  #depth = 0
  #left = maxSteps

  constructor (root: Schema, patterns: Patterns) {
    this.#root = root
    this.#patterns = patterns
  }

  get errors (): ErrorObject[] {
    return this.#errors.map(({ way, ...error }) => ({ ...error, instancePath: pointerOf(way) }))
  }

  check (schema: unknown, value: unknown): boolean {
    this.spend(steps.schema)
    if (schema === false) return this.fail('false schema', {}, {})
    // A nested `$id` gives references another base.
    if (!isRecord(schema) || (typeof schema['$id'] === 'string' && schema !== this.#root)) return true
    if (++this.#depth > maxDepth) throw new Unfinished()
    let isValid = true
    for (const name of this.namesOf(schema)) {
      const rule = rules.get(name)
      isValid = rule === undefined || rule(this, schema[name], value, schema)
      if (!isValid) break
    }
    this.#depth--
    return isValid
  }

  inside (name: string | number, schema: unknown, value: unknown): boolean {
    this.#way.push(name)
    const isValid = this.check(schema, value)
    this.#way.pop()
    return isValid
  }

  matches (schema: unknown, value: unknown): boolean {
    const before = this.#errors.length
    const isValid = this.check(schema, value)
    this.#errors.length = before
    return isValid
  }

  matching (schemas: readonly unknown[], value: unknown, most: number): number {
    const before = this.#errors.length
    let count = 0
    for (const schema of schemas) {
      if (this.check(schema, value)) count++
      if (count === most) break
    }
    if (count > 0) this.#errors.length = before
    return count
  }

  fits (source: string, text: string, otherwise: boolean): boolean {
    const pattern = this.#patterns.get(source)
    if (typeof pattern === 'string') return otherwise
    this.spend(steps.pattern + pattern.stepsOn(text))
    return pattern.test(text)
  }

  resolve (reference: string): unknown {
    this.spend(1)
    if (!this.#resolved.has(reference)) this.#resolved.set(reference, this.#find(reference))
    return this.#resolved.get(reference)
  }

  #find (reference: string): unknown {
    if (reference !== '#' && !reference.startsWith('#/')) return true
    let found: unknown = this.#root
    for (const name of membersInFragment(reference.slice(1))) {
      if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return true
      found = Reflect.get(found, name)
    }
    return found
  }

  equal (one: unknown, other: unknown): boolean {
    this.spend(1)
    if (typeof one === 'string' && typeof other === 'string' && one.length === other.length) this.spendOn(one)
    if (one === other) return true
    if (Array.isArray(one)) {
      return Array.isArray(other) && one.length === other.length && one.every((item, index) => this.equal(item, other[index]))
    }
    if (!isRecord(one) || !isRecord(other)) return false
    const names = this.namesOf(one)
    return names.length === this.namesOf(other).length &&
      names.every((name) => Object.hasOwn(other, name) && this.equal(one[name], other[name]))
  }

  namesOf (value: Schema): string[] {
    const names = Object.keys(value)
    this.spend(names.length)
    return names
  }

  spendOn (text: string): void {
    this.spend(text.length / steps.charactersPerStep)
  }

  spend (count: number): void {
    this.#left -= count
    if (this.#left < 0) throw new Unfinished()
  }

  fail (keyword: string, params: Readonly<Record<string, unknown>>, parentSchema: Schema, message?: string): false {
    this.spend(steps.error + this.#way.length)
    if (this.#errors.length >= maxErrors) return false
    this.#errors.push({ keyword, way: [...this.#way], schemaPath: '', params, parentSchema, ...message !== undefined && { message } })
    return false
  }
}

function pointerOf (way: Way): string {
  return pointerTo('', ...way.map((name) => typeof name === 'string' ? shortened(name) : name))
}
