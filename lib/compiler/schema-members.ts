/** The members of a JSON Schema of an object. */
import type { JsonSchema } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'

export function propertiesOf (schema: unknown): JsonSchema {
  return isRecord(schema) && isRecord(schema['properties']) ? schema['properties'] : {}
}

export function requiredOf (schema: unknown): readonly string[] {
  const required = isRecord(schema) ? schema['required'] : undefined
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
}
