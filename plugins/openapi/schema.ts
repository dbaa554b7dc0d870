/** JSON Schemas of routes as Schema Objects of OpenAPI 3.1, which are JSON Schema 2020-12. */
import type { JsonSchema } from '../../lib/compiler/types.js'

/** Where schemas that the app shares by `$id` stand in the document: the component's name by the id. */
export type ComponentNames = ReadonlyMap<string, string>

export function isSchema (value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The members of a schema whose value maps names to schemas, and those whose value is data. */
const schemaMaps = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
const data = new Set(['enum', 'const', 'default', 'example', 'examples', 'required'])
/** What the document says in another way, or leaves out. */
const left = new Set(['$id', '$schema', 'nullable', 'expected'])

/** A copy in which references to shared schemas lead to components, and `nullable` is a type. */
export function toSchemaObject (schema: unknown, names: ComponentNames): unknown {
  if (Array.isArray(schema)) return schema.map((item) => toSchemaObject(item, names))
  if (!isSchema(schema)) return schema
  const copy: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (left.has(key)) continue
    if (key === '$ref' && typeof value === 'string') copy[key] = referenceTo(value, names)
    else if (data.has(key)) copy[key] = value
    else if (schemaMaps.has(key) && isSchema(value)) copy[key] = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toSchemaObject(member, names)]))
    else copy[key] = toSchemaObject(value, names)
  }
  return schema['nullable'] === true ? orNull(copy) : copy
}

/** `Error#/properties/code` -> `#/components/schemas/Error/properties/code`. */
function referenceTo (reference: string, names: ComponentNames): string {
  const [id = '', fragment = ''] = reference.split('#')
  const name = names.get(id)
  return name === undefined ? reference : `#/components/schemas/${name}${fragment}`
}

function orNull (schema: Readonly<Record<string, unknown>>): JsonSchema {
  const { type, enum: values } = schema
  if (type === undefined) return schema['$ref'] === undefined ? schema : { anyOf: [schema, { type: 'null' }] }
  const types = new Set([type].flat().concat('null'))
  return { ...schema, type: [...types], ...(Array.isArray(values) && !values.includes(null) && { enum: [...values, null] }) }
}
