/** Reads a document by its schema, the published schema.json, in one walk: settings, faults and defaults. A test compares it with Ajv. */
import type { Static, TSchema } from 'typebox'
import { oncePerObject } from '../cache/weak-memo.js'
import { acceptedTypes, type Env, isPlainText, resolveEnvironment, settingsIn } from '../expressions/environment.js'
import { hasTemplate } from '../expressions/template-parser.js'
import { ExactNumber } from '../json/exact-number.js'
import { isRecord, lengthOf } from '../json/plain-value.js'
import type { SchemaNode } from '../schema/annotations.js'
import { type Fault, type FaultList, nearest, pointerTo } from '../schema/faults.js'

/** The context of a walk beside the schema. */
export interface Reading {
  readonly faults: FaultList
  readonly env: Env
  /** Settings are resolved in members without other templates. Default: true; a tenant's document is kept as it is written. */
  readonly settings?: boolean
  /** Texts are as they should be: none is a template. Default: false. */
  readonly resolved?: boolean
}

/** The result of a value; unusable after faults. */
export function read (schema: SchemaNode, value: unknown, pointer: string, reading: Reading): unknown {
  return readNode(schema, value, pointer, { resolved: false, ...reading, definitions: new Map() })
}

/** The same with the schema's type; undefined after faults. */
export function readAs<Schema extends TSchema & SchemaNode> (
  schema: Schema,
  value: unknown,
  pointer: string,
  reading: Reading
): Static<Schema> | undefined {
  const before = reading.faults.faults.length
  const result = read(schema, value, pointer, reading)
  return isRead(result, schema, reading.faults.faults.length === before) ? result : undefined
}

/** A value that was read without a fault has the schema's type. */
function isRead<Schema extends TSchema> (value: unknown, _schema: Schema, clean: boolean): value is Static<Schema> {
  return clean && value !== undefined
}

interface Walk extends Reading {
  readonly definitions: ReadonlyMap<string, SchemaNode>
  /** The value is a setting: it is not evaluated as a template again. */
  readonly resolved: boolean
}

function readNode (written: SchemaNode, given: unknown, pointer: string, around: Walk): unknown {
  const [node, walk] = dereference(written, around)
  if (typeof given === 'string' && hasTemplate(given) && !walk.resolved && !keepsText(node)) {
    if (walk.settings !== false) return readResolved(node, given, pointer, walk)
    if (!isPlainText(given)) {
      walk.faults.add(pointer, 'a template is not allowed here')
      return undefined
    }
  }
  return readValue(node, given, pointer, walk)
}

/** A text with settings in it; a fault in their values names the settings, never the values. */
function readResolved (node: SchemaNode, text: string, pointer: string, walk: Walk): unknown {
  const value = resolveEnvironment(text, acceptedTypes(node), walk.env, pointer, walk.faults)
  const faults = walk.faults.scratch()
  const result = readValue(node, value, pointer, { ...walk, faults, resolved: true })
  for (const fault of faults.faults) walk.faults.add(fault.pointer, `${fault.message} (set by ${settingsIn(text).join(', ')})`)
  return result
}

function readValue (node: SchemaNode, value: unknown, pointer: string, walk: Walk): unknown {
  if (value === undefined) return undefined
  if (node.anyOf !== undefined) return readUnion(node, node.anyOf, value, pointer, walk)
  if (node.const !== undefined || node.enum !== undefined) return readChoice(node, value, pointer, walk)
  const { type } = node
  if (type === undefined) return readAnything(node, value, pointer, walk)
  if (type === 'object' && isRecord(value)) return readObject(node, value, pointer, walk)
  if (type === 'array' && Array.isArray(value)) return readArray(node, value, pointer, walk)
  if (type === 'string' && typeof value === 'string') return readString(node, value, pointer, walk)
  if (type === 'number' && typeof value === 'number' && !Number.isNaN(value)) return readNumber(node, value, pointer, walk)
  if (type === 'integer' && typeof value === 'number' && Number.isInteger(value)) return readNumber(node, value, pointer, walk)
  if (type === 'boolean' && typeof value === 'boolean') return value
  return mismatch(node, value, pointer, walk)
}

/** Resolves a reference; the definitions around it stay available. */
function dereference (node: SchemaNode, walk: Walk): [SchemaNode, Walk] {
  const inside = node.$defs === undefined ? walk : { ...walk, definitions: new Map([...walk.definitions, ...Object.entries(node.$defs)]) }
  if (node.$ref === undefined) return [node, inside]
  const target = inside.definitions.get(node.$ref)
  if (target === undefined) throw new Error(`the schema refers to "${node.$ref}", which is not defined`)
  return dereference(target, inside)
}

/** Its texts are kept for the request, or literally. In a union, the branch for texts decides. */
function keepsText (node: SchemaNode): boolean {
  if (node.anyOf !== undefined) return node.anyOf.some(keepsText)
  return node.text !== undefined && node.text !== 'environment'
}

/** A value of any form; settings in its texts are resolved unless they are kept for the request. */
function readAnything (node: SchemaNode, value: unknown, pointer: string, walk: Walk): unknown {
  if (keepsText(node)) return value
  if (Array.isArray(value)) return value.map((item: unknown, index) => readNode({}, item, pointerTo(pointer, index), walk))
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, readNode({}, member, pointerTo(pointer, name), walk)]))
}

/** The first branch that fits; without one, the faults of the nearest branch. */
function readUnion (node: SchemaNode, branches: readonly SchemaNode[], value: unknown, pointer: string, walk: Walk): unknown {
  let best: { readonly faults: readonly Fault[], readonly score: number } | undefined
  for (const branch of branches) {
    const [target] = dereference(branch, walk)
    if (target.const !== undefined && target.const !== value) continue
    if (!acceptedTypes(target).has(kindOf(value)) && !(kindOf(value) === 'integer' && acceptedTypes(target).has('number'))) continue
    const faults = walk.faults.scratch()
    const result = readNode(branch, value, pointer, { ...walk, faults })
    if (faults.faults.length === 0) return result
    const score = likeness(target, value)
    if (best === undefined || score > best.score || (score === best.score && faults.faults.length < best.faults.length)) {
      best = { faults: faults.faults, score }
    }
  }
  if (best === undefined) return mismatch(node, value, pointer, walk)
  walk.faults.take(best.faults)
  return undefined
}

/** How many members of the value the branch knows. One with another constant, such as another `type`, is the least alike. */
function likeness ({ properties = {} }: SchemaNode, value: unknown): number {
  if (!isRecord(value)) return 0
  const known = Object.entries(value).filter(([name]) => Object.hasOwn(properties, name))
  const differs = known.some(([name, member]) => properties[name]?.const !== undefined && properties[name].const !== member)
  return differs ? -1 : known.length
}

function readChoice (node: SchemaNode, value: unknown, pointer: string, { faults }: Walk): unknown {
  const choices = node.enum ?? [node.const]
  if (choices.includes(value)) return value
  const names = choices.filter((choice) => typeof choice === 'string')
  faults.add(pointer, `expected ${describeSchema(node)}`, typeof value === 'string' ? nearest(value, names) : undefined)
  return undefined
}

function readString (node: SchemaNode, value: string, pointer: string, { faults }: Walk): unknown {
  const { minLength = 0, maxLength = Infinity, pattern } = node
  // Characters as JSON Schema counts them: code points, of which there are never more than units.
  const length = value.length > maxLength || minLength > 1 ? lengthOf(value) : value.length
  if (length < minLength) {
    faults.add(pointer, minLength === 1 ? 'expected a string that is not empty' : `expected ${node.expected ?? `at least ${minLength} characters`}`)
  } else if (length > maxLength) faults.add(pointer, `expected at most ${maxLength} characters`)
  else if (pattern !== undefined && !compiled(pattern).test(value)) {
    faults.add(pointer, `expected ${node.expected ?? `a string that matches ${pattern}`}`)
  } else return value
  return undefined
}

function readNumber (node: SchemaNode, value: number, pointer: string, { faults }: Walk): unknown {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity } = node
  if (node.expected !== undefined && (value < minimum || value <= exclusiveMinimum || value > maximum)) {
    faults.add(pointer, `expected ${node.expected}`)
  } else if (value < minimum) faults.add(pointer, `expected at least ${minimum}`)
  else if (value <= exclusiveMinimum) faults.add(pointer, `expected more than ${exclusiveMinimum}`)
  else if (value > maximum) faults.add(pointer, `expected at most ${maximum}`)
  else return value
  return undefined
}

function readArray (node: SchemaNode, value: readonly unknown[], pointer: string, walk: Walk): unknown {
  const { minItems = 0, maxItems = Infinity, items = {} } = node
  if (value.length < minItems) {
    walk.faults.add(pointer, minItems === 1 ? 'expected an array that is not empty' : `expected at least ${minItems} items`)
  }
  if (value.length > maxItems) walk.faults.add(pointer, `expected at most ${maxItems} items`)
  if (node.uniqueItems === true) refuseRepeated(value, pointer, walk)
  return value.map((item, index) => readNode(items, item, pointerTo(pointer, index), walk))
}

function refuseRepeated (value: readonly unknown[], pointer: string, { faults }: Walk): void {
  const seen = new Set<unknown>()
  for (const [index, item] of value.entries()) {
    if (seen.has(item)) faults.add(pointerTo(pointer, index), 'duplicate value')
    seen.add(item)
  }
}

function readObject (node: SchemaNode, value: Readonly<Record<string, unknown>>, pointer: string, walk: Walk): unknown {
  const { properties = {}, minProperties = 0 } = node
  const { patterns, additionalProperties, absent } = shapeOf(node)
  const result: Record<string, unknown> = {}
  let misspelt: Set<string> | undefined
  if (minProperties > 0 && Object.keys(value).length < minProperties) {
    walk.faults.add(pointer, `expected at least ${minProperties === 1 ? 'one member' : `${minProperties} members`}`)
  }

  for (const [name, member] of Object.entries(value)) {
    const at = pointerTo(pointer, name)
    const schema = Object.hasOwn(properties, name) ? properties[name] : patterns.find(([pattern]) => pattern.test(name))?.[1]
    if (schema !== undefined) {
      result[name] = readNode(schema, member, at, walk)
    } else if (additionalProperties) {
      result[name] = readAnything(node, member, at, walk)
    } else if (patterns.length > 0) {
      walk.faults.add(at, `expected ${node.expected ?? 'a text without line breaks'} as the name`)
    } else {
      const names = Object.keys(properties)
      const suggestion = nearest(name, names)
      if (suggestion !== undefined) (misspelt ??= new Set()).add(suggestion)
      const isFar = suggestion === undefined && names.length > 0
      walk.faults.add(at, isFar ? `unknown member: expected ${oneOf(names)}` : 'unknown member', suggestion)
    }
  }
  for (const { name, schema } of absent) {
    if (Object.hasOwn(value, name)) continue
    if (schema.default !== undefined) result[name] = readNode(schema, structuredClone(schema.default), pointerTo(pointer, name), walk)
    else if (misspelt?.has(name) !== true) {
      walk.faults.add(pointerTo(pointer, name), `missing: expected ${describeSchema(dereference(schema, walk)[0])}`)
    }
  }
  return result
}

/** The members of an object, sorted out once for a schema: a document has many objects of each. */
interface Shape {
  readonly patterns: ReadonlyArray<readonly [RegExp, SchemaNode]>
  readonly additionalProperties: boolean
  /** Those that have a default or are required. */
  readonly absent: ReadonlyArray<{ readonly name: string, readonly schema: SchemaNode }>
}

const shapeOf = oncePerObject((node: SchemaNode): Shape => {
  const { properties = {}, required = [], patternProperties = {}, additionalProperties } = node
  const patterns = Object.entries(patternProperties).map(([pattern, member]) => [compiled(pattern), member] as const)
  return {
    patterns,
    additionalProperties: additionalProperties ?? patterns.length === 0,
    absent: Object.entries(properties).filter(([name, schema]) => schema.default !== undefined || required.includes(name))
      .map(([name, schema]) => ({ name, schema }))
  }
})

const patternsOfSchemas = new Map<string, RegExp>()

function compiled (pattern: string): RegExp {
  const known = patternsOfSchemas.get(pattern) ?? new RegExp(pattern, 'u')
  patternsOfSchemas.set(pattern, known)
  return known
}

function mismatch (node: SchemaNode, value: unknown, pointer: string, { faults }: Walk): undefined {
  faults.add(pointer, `expected ${describeSchema(node)}, got ${article(kindOf(value))}`)
  return undefined
}

function article (kind: string): string {
  if (kind === 'null') return kind
  return /^[aeio]/.test(kind) ? `an ${kind}` : `a ${kind}`
}

/** Such as `a string`, `an integer`, `one of "auto", "manual"`, `false or an object`. */
function describeSchema (node: SchemaNode): string {
  if (node.anyOf !== undefined) return [...new Set(node.anyOf.map(describeSchema))].join(' or ')
  if (node.const !== undefined) return JSON.stringify(node.const)
  if (node.enum !== undefined) return oneOf(node.enum)
  if (node.type === 'boolean') return 'true or false'
  if (node.type === 'string' && node.expected !== undefined) return node.expected
  return article(node.type ?? 'value')
}

function oneOf (values: readonly unknown[]): string {
  const texts = values.map((value) => JSON.stringify(value)).join(', ')
  return values.length === 1 ? texts : `one of ${texts}`
}

/** The type of a value, as JSON Schema names it. */
function kindOf (value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  if (typeof value === 'bigint') return 'integer beyond 9007199254740991'
  return value instanceof ExactNumber ? 'number with more digits than supported' : typeof value
}
