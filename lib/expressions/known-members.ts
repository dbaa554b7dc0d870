/** The members of the results that templates and expressions read, as far as their schemas are known. */
import { isRecord } from '../json/plain-value.js'
import { listed, nearest } from '../schema/faults.js'
import type { JsonSchema } from './types.js'

/** A result of a query. Its schema is computed when a template names a member. */
export interface KnownResult {
  readonly schema: () => JsonSchema
  /** Fields that a value may have although the schema omits them: those of callers with full access, and computed ones. */
  readonly hidden: ReadonlySet<string>
  /** Fields that only callers with full access have, at a place where the value must not depend on the caller. */
  readonly excluded: ReadonlySet<string>
}

const none: ReadonlySet<string> = new Set()

export const unknownResult: KnownResult = Object.freeze({ schema: () => ({}), hidden: none, excluded: none })

/** A result of a query within that of a step. A switch has the parts of all its targets. */
export interface StepPart {
  /** The path to it: ids of steps in `parallel`. */
  readonly at: readonly string[]
  readonly result: KnownResult
}

/** A member that no value of the result has. */
interface Unknown {
  readonly reason: string
  readonly suggestion: string | undefined
}

/** The first such member of a path. */
interface Missing {
  readonly name: string | number
  readonly isExcluded: boolean
  /** The members at its place. */
  readonly known: readonly string[]
}

const mostListed = 8 // names in a message

/** The fault of a path into a result; undefined if a value of the result may have the path. */
export function unknownMember (path: readonly (string | number)[], result: KnownResult): Unknown | undefined {
  const missing = missingMember(path, result)
  if (missing === undefined) return undefined
  const { name, isExcluded, known } = missing
  return isExcluded
    ? { reason: `${excludedReason(name)}: omit it by \`response\` instead`, suggestion: undefined }
    : { reason: reasonOf(name, known), suggestion: nearest(String(name), known) }
}

/** The fault of a path into the result of a step that reads an excluded field. Members that no result has are accepted. */
export function excludedMember (path: readonly (string | number)[], parts: readonly StepPart[]): string | undefined {
  for (const { at, result } of parts) {
    if (at.some((id, index) => id !== String(path[index]))) continue
    const missing = missingMember(path.slice(at.length), result)
    if (missing?.isExcluded === true) return `${excludedReason(missing.name)}: read it in a step that does not exclude it`
  }
  return undefined
}

function missingMember (path: readonly (string | number)[], { schema, hidden, excluded }: KnownResult): Missing | undefined {
  if (path.length === 0) return undefined
  let forms = formsOf(schema())
  for (const name of path) {
    if (excluded.has(String(name)) && forms.some(isObject) && forms.every((form) => memberOf(form, name) === undefined)) {
      return { name, isExcluded: true, known: [] }
    }
    if (!forms.every(isDescribed) || hidden.has(String(name))) return undefined
    const next = forms.flatMap((form) => formsOf(memberOf(form, name)))
    if (next.length === 0) {
      const known = [...new Set(forms.flatMap(({ properties }) => isRecord(properties) ? Object.keys(properties) : []))]
      return { name, isExcluded: false, known }
    }
    forms = next
  }
  return undefined
}

function reasonOf (name: string | number, known: readonly string[]): string {
  if (known.length === 0) return `a list has no member "${name}": write the index of an item, such as \`[0]\``
  return `the result has no member "${name}" there: expected one of ${listed(known, mostListed)}`
}

function excludedReason (name: string | number): string {
  return `callers without full access have no "${name}" here, because of \`excludeFields\``
}

/** An object with known members, or a document. `excludeFields` leaves the values of JSON columns as they are. */
function isObject ({ properties, additionalProperties }: JsonSchema): boolean {
  return isRecord(properties) || additionalProperties === true
}

/** The schemas of which a value has one. */
function formsOf (schema: unknown): JsonSchema[] {
  if (!isRecord(schema)) return []
  return Array.isArray(schema['anyOf']) ? schema['anyOf'].flatMap(formsOf) : [schema]
}

/** All members of its values are known. A value of a column may be JSON, so only objects and lists are described. */
function isDescribed ({ properties, items, additionalProperties }: JsonSchema): boolean {
  return isRecord(items) || (isRecord(properties) && additionalProperties !== true)
}

function memberOf ({ properties, items }: JsonSchema, name: string | number): unknown {
  if (isRecord(items)) return /^\d+$/.test(String(name)) ? items : undefined
  return isRecord(properties) && Object.hasOwn(properties, String(name)) ? properties[name] : undefined
}
