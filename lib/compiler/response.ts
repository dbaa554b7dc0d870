/** Compiles the body of a route's response: either a schema that filters the result, or a mapping that computes it. */
import { noScope } from '../expressions/no-scope.js'
import type { TemplateContext } from '../expressions/reference.js'
import { recordsOf, type ResultForm } from '../expressions/result.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, JsonSchema, Scope } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'
import { stringifyJson, toJsonText } from '../json/stringify.js'
import { FaultList, nearest, pointerTo } from '../schema/faults.js'

/** The conversion of a route's result into its body. */
export type CompiledResponse =
  /** For a mapping in `response`: its value, evaluated with the results in the scope, is the body; `serialize` writes it as JSON. */
  | { readonly kind: 'mapping', readonly value: CompiledValue, readonly serialize: (scope: Scope) => string }
  /** For a JSON Schema in `response`: undeclared members are left out. */
  | { readonly kind: 'schema', readonly schema: JsonSchema, readonly serialize: (result: unknown, form: ResultForm) => string }

/**
 * Compiles `response`. A schema has `type` with `properties` or `items` and describes the whole response, for example `{type: 'object',
 * properties: {data: {...}, pagination: {...}}}` for a list. A schema of an array or a single record applies to each item of a list's
 * `data`, and the list keeps its envelope. Any other value is a mapping that can read `results`. Returns null after faults, and without
 * a `response`.
 */
export function compileResponse (response: unknown, pointer: string, context: TemplateContext): CompiledResponse | null {
  if (response === undefined) return null
  const { faults } = context
  const before = faults.faults.length
  const within: TemplateContext = { ...context, secretsRefusedIn: 'a response' }
  if (isResponseSchema(response)) {
    refuseSecrets(response, pointer, faults, 'a response')
    const write = compileWriter(response, pointer, faults)
    if (faults.faults.length > before) return null
    return Object.freeze({ kind: 'schema', schema: response, serialize: serializer(response, write) })
  }
  const meant = nearSchema(response)
  if (meant !== undefined) faults.add(`${pointer}/type`, 'a schema must have the JSON `type` that it describes', meant)
  const value = compileValue(response, pointer, within)
  if (faults.faults.length > before) return null
  return Object.freeze({ kind: 'mapping', value, serialize: compileMapping(response, within) })
}

/** Adds a fault for each string that names a secret. For values that leave the server unchanged, such as a description. */
export function refuseSecrets (value: unknown, pointer: string, faults: FaultList, where: string): void {
  if (typeof value === 'string') {
    if (/\{\{[^}]*\bsecret[:.]/.test(value)) faults.add(pointer, `a secret cannot be used in ${where}`)
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value)) refuseSecrets(item, pointerTo(pointer, name), faults, where)
  }
}

/** The type that `{type: 'objekt', properties: {...}}` probably means. A mapping may well have other types. */
function nearSchema (response: unknown): string | undefined {
  if (
    !isRecord(response) || typeof response['type'] !== 'string' || !(isRecord(response['properties']) || isRecord(response['items']))
  ) { return undefined }
  return nearest(response['type'], ['object', 'array'])
}

function serializer (schema: JsonSchema, write: Writer): (result: unknown, form: ResultForm) => string {
  const describesEnvelope = isRecord(schema['properties']) && Object.hasOwn(schema['properties'], 'data')
  if (describesEnvelope) return write
  return (result, form) => {
    if (form !== 'wrapped' || !isRecord(result)) return write(result)
    const data = `{"data":${writeItems(recordsOf(result, form) ?? [], write)}`
    return result['pagination'] === undefined ? `${data}}` : `${data},"pagination":${stringifyJson(result['pagination'])}}`
  }
}

/** Constant text, or a writer, which returns undefined if there is nothing to write. */
type Piece = string | ((scope: Scope) => string | undefined)

/** Compiles a value that compileValue accepts. The text equals `JSON.stringify` of the evaluated value, with null for undefined. */
function compileMapping (value: unknown, context: TemplateContext): (scope: Scope) => string {
  // compileValue has already checked the whole value, so its faults are not reported again.
  const piece = compilePiece(value, { ...context, faults: new FaultList() })
  if (typeof piece === 'string') return () => piece
  return (scope) => piece(scope) ?? 'null'
}

function compilePiece (value: unknown, context: TemplateContext): Piece {
  if (Array.isArray(value)) return arrayOf(value.map((item) => compilePiece(item, context)))
  if (isRecord(value)) {
    return objectOf(
      Object.entries(value).filter(([, item]) => item !== undefined).map((
        [name, item]
      ) => [`${JSON.stringify(name)}:`, compilePiece(item, context)])
    )
  }
  const compiled = compileValue(value, '', context)
  if (compiled.constant) return toJsonText(compiled.evaluate(noScope)) ?? 'null'
  const { evaluate } = compiled
  return (scope) => toJsonText(evaluate(scope))
}

function arrayOf (items: readonly Piece[]): Piece {
  if (items.every((item) => typeof item === 'string')) return `[${items.join(',')}]`
  return (scope) => {
    let text = '['
    for (let index = 0; index < items.length; index++) {
      const item = items[index]!
      if (index > 0) text += ','
      text += typeof item === 'string' ? item : item(scope) ?? 'null'
    }
    return `${text}]`
  }
}

/** Merges adjacent constant members into one text. */
function objectOf (members: readonly (readonly [string, Piece])[]): Piece {
  const steps: { readonly key: string, readonly write: Exclude<Piece, string> | null }[] = []
  for (const [key, piece] of members) {
    const last = steps.at(-1)
    if (typeof piece !== 'string') steps.push({ key, write: piece })
    else if (last?.write === null) steps[steps.length - 1] = { key: `${last.key},${key}${piece}`, write: null }
    else steps.push({ key: key + piece, write: null })
  }
  if (steps.every(({ write }) => write === null)) return `{${steps.map(({ key }) => key).join(',')}}`
  return (scope) => {
    let text = '{'
    for (const { key, write } of steps) {
      const value = write === null ? '' : write(scope)
      if (value !== undefined) text += text.length === 1 ? key + value : `,${key}${value}`
    }
    return `${text}}`
  }
}

/** Writes the declared part of a JSON value as JSON text. */
type Writer = (value: unknown) => string

const typeNames: readonly unknown[] = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']
const maxDepth = 32

/** The keywords of a response schema. Keywords that only validate serve the documentation. */
const keywords: ReadonlySet<string> = new Set([
  'type', 'properties', 'items', 'additionalProperties', 'required', 'nullable', 'enum', 'const', 'format', 'pattern',
  'title', 'description', 'default', 'example', 'examples', 'deprecated', 'readOnly', 'minLength', 'maxLength',
  'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minItems', 'maxItems', 'uniqueItems',
  'minProperties', 'maxProperties', '$schema', '$comment'
])

/** Whether a `response` is a schema: `type` names a JSON type, and `properties` or `items` is present. */
function isResponseSchema (response: unknown): response is JsonSchema {
  if (!isRecord(response)) return false
  const { type, properties, items } = response
  const types = Array.isArray(type) ? type : [type]
  return types.length > 0 && types.every((name) => typeNames.includes(name)) && (isRecord(properties) || isRecord(items))
}

/**
 * Compiles a schema to a filter that removes undeclared members, and adds its faults to the list. It generates no code, because a tenant
 * may have written the schema. It converts no value: null stays null, and a number stays a number.
 */
function compileWriter (schema: unknown, pointer: string, faults: FaultList, depth = 0): Writer {
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
  // Only checked, since it describes members that are written whole.
  const { additionalProperties = false } = schema
  if (additionalProperties !== false) compileWriter(additionalProperties, `${pointer}/additionalProperties`, faults, depth + 1)
  // A list for a record schema (a bulk insert), or a record for a list schema, is filtered by the same schema.
  const writeItem = ofItem ?? ofRecord
  const writeRecord = ofRecord ?? ofItem
  if (writeItem === null || writeRecord === null) return writeAll
  return function write (value) {
    if (Array.isArray(value)) return writeItems(value, writeItem)
    return isRecord(value) ? writeRecord(value) : writeAll(value)
  }
}

function writeItems (items: readonly unknown[], write: Writer): string {
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
