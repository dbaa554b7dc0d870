/**
 * A response schema as a filter that removes undeclared members. It generates no code, because a tenant may have written the
 * schema. It converts no value: null stays null, and a number stays a number.
 */
import type { JsonSchema } from '../expressions/types.js'
import { nearest, pointerTo, type FaultList } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'
import { toJsonText } from '../json/stringify.js'

/** Writes the declared part of a JSON value as JSON text. */
export type Writer = (value: unknown) => string

const typeNames: readonly unknown[] = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']
const maxDepth = 32

/** The keywords of a response schema. Keywords that only validate serve the documentation. */
const keywords: ReadonlySet<string> = new Set([
  'type',
  'properties',
  'items',
  'additionalProperties',
  'required',
  'nullable',
  'enum',
  'const',
  'format',
  'pattern',
  'title',
  'description',
  'default',
  'example',
  'examples',
  'deprecated',
  'readOnly',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  '$schema',
  '$comment'
])

/** Whether a `response` is a schema: `type` names a JSON type, and `properties` or `items` is present. */
export function isResponseSchema (response: unknown): response is JsonSchema {
  if (!isRecord(response)) return false
  const { type, properties, items } = response
  const types = Array.isArray(type) ? type : [type]
  return types.length > 0 && types.every((name) => typeNames.includes(name)) && (isRecord(properties) || isRecord(items))
}

/** Compiles a schema and adds its faults to the list. */
export function compileWriter (schema: unknown, pointer: string, faults: FaultList, depth = 0): Writer {
  if (schema === true) return writeAll
  if (!isRecord(schema)) {
    faults.add(pointer, 'a schema must be an object')
    return writeAll
  }
  if (depth > maxDepth) {
    faults.add(pointer, `schemas can be nested at most ${maxDepth} levels deep`)
    return writeAll
  }
  for (const keyword of Object.keys(schema)) {
    if (!keywords.has(keyword)) {
      faults.add(pointerTo(pointer, keyword), 'a response schema does not have this member', nearest(keyword, keywords))
    }
  }
  checkType(schema, pointer, faults)
  const ofItem = schema['items'] === undefined ? null : compileWriter(schema['items'], `${pointer}/items`, faults, depth + 1)
  const ofRecord = schema['properties'] === undefined ? null : compileProperties(schema, pointer, faults, depth)
  // A list for a record schema (a bulk insert), or a record for a list schema, is filtered by the same schema.
  const writeItem = ofItem ?? ofRecord
  const writeRecord = ofRecord ?? ofItem
  if (writeItem === null || writeRecord === null) return writeAll
  return function write (value) {
    if (Array.isArray(value)) return writeItems(value, writeItem)
    return isRecord(value) ? writeRecord(value) : writeAll(value)
  }
}

export function writeItems (items: readonly unknown[], write: Writer): string {
  let text = ''
  for (const item of items) text += text === '' ? write(item) : `,${write(item)}`
  return `[${text}]`
}

function writeAll (value: unknown): string {
  return toJsonText(value) ?? 'null'
}

function compileProperties (schema: JsonSchema, pointer: string, faults: FaultList, depth: number): Writer {
  const { properties, additionalProperties } = schema
  if (!isRecord(properties)) {
    faults.add(`${pointer}/properties`, '`properties` must be an object of schemas')
    return writeAll
  }
  const members: { readonly name: string, readonly key: string, readonly write: Writer }[] = []
  for (const [name, property] of Object.entries(properties)) {
    const at = pointerTo(`${pointer}/properties`, name)
    if (name === '__proto__') faults.add(at, 'a member cannot have the name "__proto__"')
    members.push({ name, key: `${JSON.stringify(name)}:`, write: compileWriter(property, at, faults, depth + 1) })
  }
  const declared = new Set(members.map(({ name }) => name))
  const isOpen = additionalProperties === true || isRecord(additionalProperties)
  return function write (value): string {
    if (Array.isArray(value)) return writeItems(value, write)
    if (!isRecord(value)) return writeAll(value)
    let text = ''
    for (const { name, key, write: writeMember } of members) {
      if (!Object.hasOwn(value, name)) continue
      text += text === '' ? key : `,${key}`
      text += writeMember(value[name])
    }
    if (isOpen) {
      for (const name of Object.keys(value)) {
        if (!declared.has(name)) text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${writeAll(value[name])}`
      }
    }
    return `{${text}}`
  }
}

function checkType ({ type }: JsonSchema, pointer: string, faults: FaultList): void {
  for (const name of Array.isArray(type) ? type : [type]) {
    if (name !== undefined && !typeNames.includes(name)) {
      faults.add(
        `${pointer}/type`,
        `not a JSON type: expected one of ${typeNames.join(', ')}`,
        typeof name === 'string' ? nearest(name, typeNames.map(String)) : undefined
      )
    }
  }
}
