/**
 * A response schema as a filter: members that it does not name do not leave. It is no generated code, since a tenant
 * may have written the schema, and it changes no value: null stays null, a number stays a number.
 */
import type { JsonSchema } from './types.js'
import { nearest, pointerTo, type FaultList } from '../config/faults.js'
import { isRecord } from './answer.js'

/** Gives the part of a value that a schema names. */
export type Projection = (value: unknown) => unknown

const typeNames: readonly unknown[] = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']
const maxDepth = 32

/** What a response schema may say; what only validates is for the documentation. */
const keywords: ReadonlySet<string> = new Set([
  'type', 'properties', 'items', 'additionalProperties', 'required', 'nullable', 'enum', 'const', 'format', 'pattern', 'title', 'description',
  'default', 'example', 'examples', 'deprecated', 'readOnly', 'minLength', 'maxLength', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum',
  'multipleOf', 'minItems', 'maxItems', 'uniqueItems', 'minProperties', 'maxProperties', '$schema', '$comment'
])

/** Whether a `response` is a schema: `type` names a JSON type and `properties` or `items` stand beside it. */
export function isResponseSchema (response: unknown): response is JsonSchema {
  if (!isRecord(response)) return false
  const { type, properties, items } = response
  const types = Array.isArray(type) ? type : [type]
  return types.length > 0 && types.every((name) => typeNames.includes(name)) && (isRecord(properties) || isRecord(items))
}

/** Compiles a schema; null where it lets everything through. Faults go to the list. */
export function compileProjection (schema: unknown, pointer: string, faults: FaultList, depth = 0): Projection | null {
  if (schema === true) return null
  if (!isRecord(schema)) {
    faults.add(pointer, 'a schema is an object')
    return null
  }
  if (depth > maxDepth) {
    faults.add(pointer, `schemas nest at most ${maxDepth} deep`)
    return null
  }
  for (const keyword of Object.keys(schema)) {
    if (!keywords.has(keyword)) faults.add(pointerTo(pointer, keyword), 'a response schema knows no such member', nearest(keyword, keywords))
  }
  checkType(schema, pointer, faults)
  const ofItems = schema['items'] === undefined ? null : compileProjection(schema['items'], `${pointer}/items`, faults, depth + 1)
  const ofRecord = schema['properties'] === undefined ? null : compileProperties(schema, pointer, faults, depth)
  if (ofItems === null && ofRecord === null) return null
  // A list where the schema has a record (a bulk insert), or the other way round, is held to the same schema.
  const ofItem = ofItems ?? ofRecord
  const ofObject = ofRecord ?? ofItems
  return (value) => {
    if (Array.isArray(value)) return ofItem === null ? value : value.map(ofItem)
    if (isRecord(value)) return ofObject === null ? value : ofObject(value)
    return value
  }
}

function compileProperties (schema: JsonSchema, pointer: string, faults: FaultList, depth: number): Projection | null {
  const { properties, additionalProperties } = schema
  if (!isRecord(properties)) {
    faults.add(`${pointer}/properties`, '`properties` is an object of schemas')
    return null
  }
  const names: string[] = []
  const projections: (Projection | null)[] = []
  for (const [name, property] of Object.entries(properties)) {
    const at = pointerTo(`${pointer}/properties`, name)
    if (name === '__proto__') faults.add(at, 'no member can be named "__proto__"')
    names.push(name)
    projections.push(compileProjection(property, at, faults, depth + 1))
  }
  const isOpen = additionalProperties === true || isRecord(additionalProperties)
  return function project (value): unknown {
    if (Array.isArray(value)) return value.map(project)
    if (!isRecord(value)) return value
    const result: Record<string, unknown> = isOpen ? { ...value } : {}
    for (let index = 0; index < names.length; index++) {
      const name = names[index]!
      if (!Object.hasOwn(value, name)) continue
      const projection = projections[index]!
      result[name] = projection === null ? value[name] : projection(value[name])
    }
    return result
  }
}

function checkType ({ type }: JsonSchema, pointer: string, faults: FaultList): void {
  for (const name of Array.isArray(type) ? type : [type]) {
    if (name !== undefined && !typeNames.includes(name)) {
      faults.add(`${pointer}/type`, `no type of JSON: ${typeNames.join(', ')} are`, typeof name === 'string' ? nearest(name, typeNames.map(String)) : undefined)
    }
  }
}
