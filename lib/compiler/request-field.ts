/** Compiles one field of a field map to JSON Schema. */
import { messageOf } from '../errors.js'
import type { JsonSchema } from '../expressions/types.js'
import { type FaultList, pointerTo } from '../schema/faults.js'
import type { Field } from '../schema/route.js'
import { compilePattern, type LinearPattern } from '../validation/linear-pattern.js'
import { isOfType } from '../validation/types-and-formats.js'

export interface FieldContext {
  readonly faults: FaultList
  /** The route belongs to a tenant: see `ofTenant` in request.ts. */
  readonly ofTenant: boolean
  /** The patterns of a tenant's route, by their source. */
  readonly patterns: Map<string, LinearPattern>
  /** The total weight of the route's patterns so far. */
  patternWeight: number
}

type FieldType = NonNullable<Field['type']>

const maxDepth = 32 // nested objects and arrays
const maxPatternWeight = 2000 // for all patterns of a tenant's route
const patternWeight = 20 // minimum for each pattern

/** The types of each rule. On other types the rule would have no effect. */
const applicable = new Map<string, readonly FieldType[]>(Object.entries({
  minLength: ['string', 'array'],
  maxLength: ['string', 'array'],
  minimum: ['number', 'integer'],
  maximum: ['number', 'integer'],
  format: ['string'],
  pattern: ['string'],
  items: ['array'],
  properties: ['object'],
  additionalFields: ['object']
} as const satisfies Partial<Record<keyof Field, readonly FieldType[]>>))

/** The schema of a map of fields; `open` allows undeclared ones. */
export function objectSchema (
  fields: Readonly<Record<string, Field>>,
  pointer: string,
  context: FieldContext,
  { open, depth = 0 }: { readonly open: boolean, readonly depth?: number }
): JsonSchema {
  const properties: Record<string, JsonSchema> = {}
  for (const [name, field] of Object.entries(fields)) {
    if (name === '__proto__') context.faults.add(pointerTo(pointer, name), 'a field cannot have the name "__proto__"')
    else properties[name] = fieldSchema(field, pointerTo(pointer, name), context, depth + 1)
  }
  const required = Object.keys(properties).filter((name) => fields[name]?.required === true)
  return {
    type: 'object',
    properties,
    ...(required.length > 0 && { required }),
    ...(!open && { additionalProperties: false })
  }
}

function fieldSchema (field: Field, pointer: string, context: FieldContext, depth: number): JsonSchema {
  const { faults } = context
  if (depth > maxDepth) {
    faults.add(pointer, `fields can be nested at most ${maxDepth} levels deep`)
    return {}
  }
  checkRules(field, pointer, faults)
  if (context.ofTenant) checkPlainEnum(field, pointer, faults)
  const { type, nullable = false, minLength, maxLength } = field
  // Assigned one by one: a document has thousands of fields, and each has few of these rules.
  const schema: Record<string, unknown> = {}
  if (type !== undefined) schema['type'] = nullable ? [type, 'null'] : type
  if (field.description !== undefined) schema['description'] = field.description
  if (field.enum !== undefined) schema['enum'] = nullable && !field.enum.includes(null) ? [...field.enum, null] : field.enum
  if (field.minimum !== undefined) schema['minimum'] = field.minimum
  if (field.maximum !== undefined) schema['maximum'] = field.maximum
  if (type === 'string' || type === undefined) {
    if (minLength !== undefined) schema['minLength'] = minLength
    if (maxLength !== undefined) schema['maxLength'] = maxLength
  }
  if (type === 'array' || type === undefined) {
    if (minLength !== undefined) schema['minItems'] = minLength
    if (maxLength !== undefined) schema['maxItems'] = maxLength
  }
  if (field.format !== undefined) schema['format'] = field.format
  if (field.pattern !== undefined) Object.assign(schema, patternSchema(field.pattern, maxLength, pointer, context))
  if (field.items !== undefined) schema['items'] = fieldSchema(field.items, `${pointer}/items`, context, depth + 1)
  if (field.properties !== undefined) {
    const { type: _type, ...rules } = objectSchema(field.properties, `${pointer}/properties`, context, {
      open: field.additionalFields === true,
      depth
    })
    Object.assign(schema, rules)
  }
  return schema
}

function patternSchema (pattern: string, longest: number | undefined, pointer: string, context: FieldContext): JsonSchema {
  const { faults } = context
  const at = `${pointer}/pattern`
  if (context.ofTenant) return linearSchema(pattern, longest, at, context)
  try {
    new RegExp(pattern, 'u').test('')
  } catch (error) {
    faults.add(at, `invalid regular expression: ${messageOf(error).replace(/^Invalid regular expression: /, '')}`)
    return {}
  }
  return { pattern }
}

function linearSchema (pattern: string, longest: number | undefined, pointer: string, context: FieldContext): JsonSchema {
  // Reports the excess once and skips the remaining patterns.
  if (context.patternWeight > maxPatternWeight) return {}
  const compiled = compilePattern(pattern, longest)
  if (typeof compiled === 'string') {
    context.faults.add(pointer, compiled)
    return {}
  }
  context.patternWeight += compiled.weight + patternWeight
  if (context.patternWeight > maxPatternWeight) {
    context.faults.add(
      pointer,
      `the patterns of this route are too large in total: the limit is ${maxPatternWeight}. Each character or class counts 1, ` +
        `repeats count as often as they repeat, and each pattern adds ${patternWeight}`
    )
  }
  const { maxLength } = compiled
  context.patterns.set(pattern, compiled)
  // The pattern runs only on texts within the maximum length.
  return { maxLength, if: { maxLength }, then: { pattern } }
}

function checkRules (field: Field, pointer: string, faults: FaultList): void {
  const { type } = field
  if (type !== undefined) {
    for (const rule of Object.keys(field)) {
      const types = applicable.get(rule)
      if (types !== undefined && !types.includes(type)) {
        faults.add(
          `${pointer}/${rule}`,
          `\`${rule}\` is for ${types.join(' or ')}, but this field is ${type === 'integer' || type === 'array' || type === 'object' ? 'an' : 'a'} ${type}`
        )
      }
    }
    for (const [index, value] of (field.enum ?? []).entries()) {
      if (!isOfType(value, type) && !(value === null && field.nullable === true)) {
        faults.add(pointerTo(pointer, 'enum', index), `the value is not of the type ${type}, and would never be accepted`)
      }
    }
  } else if (field.additionalFields !== undefined && field.properties === undefined) {
    faults.add(`${pointer}/additionalFields`, '`additionalFields` requires `properties`')
  }
  checkRange(field.minLength, field.maxLength, `${pointer}/minLength`, faults)
  checkRange(field.minimum, field.maximum, `${pointer}/minimum`, faults)
}

/** Comparing each item of a body with a thousand objects takes seconds; scalar values use a look-up. */
function checkPlainEnum ({ enum: values = [] }: Field, pointer: string, faults: FaultList): void {
  for (const [index, value] of values.entries()) {
    if (typeof value === 'object' && value !== null) {
      faults.add(pointerTo(pointer, 'enum', index), 'the values of an enum must be strings, numbers, booleans or null, not objects or arrays')
    }
  }
}

function checkRange (least: number | undefined, most: number | undefined, pointer: string, faults: FaultList): void {
  if (least !== undefined && most !== undefined && least > most) {
    faults.add(pointer, `${least} exceeds the maximum of ${most}: no value would be accepted`)
  }
}
