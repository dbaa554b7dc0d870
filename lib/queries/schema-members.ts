/** The members of a JSON Schema of an object. */
import type { JsonSchema } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'

export function propertiesOf (schema: unknown): JsonSchema {
  return isRecord(schema) && isRecord(schema['properties']) ? schema['properties'] : {}
}

/** The schema of an object that has all of these members. */
export function objectOf (properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: 'object', properties, ...requiring(Object.keys(properties)) }
}

export function requiring (required: readonly string[]): { readonly required?: readonly string[] } {
  return required.length > 0 ? { required } : {}
}

export function requiredOf (schema: unknown): readonly string[] {
  const required = isRecord(schema) ? schema['required'] : undefined
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
}
