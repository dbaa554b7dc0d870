/** JSON Schemas of routes as Schema Objects of OpenAPI 3.1, which are JSON Schema 2020-12, or of OpenAPI 3.0. */
import type { JsonSchema } from '../../lib/expressions/types.js'
import { dataMembers, schemaMaps } from '../../lib/validation/named-parts.js'
import type { Components } from './components.js'

export function isSchema (value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Members that the document expresses in another way, or omits. */
const omitted = new Set(['$id', '$anchor', '$schema', 'nullable', 'expected'])

/** A schema, or a reference to the component of a named schema. */
function toSchemaObject (schema: unknown, components: Components): unknown {
  const reference = isSchema(schema) ? components.referenceToNamed(schema) : undefined
  return reference === undefined ? components.write(schema) : { $ref: reference }
}

/** The writer of a version of OpenAPI: `3.1.0`, `3.0.3`. */
export function writerOf (version: string): (schema: unknown, components: Components) => unknown {
  const finish = version.startsWith('3.0') ? toOpenApi30 : (copy: JsonSchema) => copy
  return (schema, components) => write(schema, components, finish)
}

/** A copy in which references to shared schemas lead to components, and `nullable` is a type. */
function write (schema: unknown, components: Components, finish: (copy: JsonSchema) => JsonSchema): unknown {
  const inner = (member: unknown) => toSchemaObject(member, components)
  if (Array.isArray(schema)) return schema.map(inner)
  if (!isSchema(schema)) return schema
  const copy: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (omitted.has(key)) continue
    if (key === '$ref' && typeof value === 'string') copy[key] = components.referenceToShared(value)
    else if (dataMembers.has(key)) copy[key] = value
    else if (schemaMaps.has(key) && isSchema(value)) {
      copy[key] = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, inner(member)]))
    } else copy[key] = inner(value)
  }
  return finish(schema['nullable'] === true ? orNull(copy, finish) : copy)
}

function orNull (schema: Readonly<Record<string, unknown>>, finish: (copy: JsonSchema) => JsonSchema): JsonSchema {
  const { const: only, ...others } = schema
  const { type, enum: values } = 'const' in schema ? { ...others, enum: [only] } : others
  if (type === undefined) return schema['$ref'] === undefined ? schema : { anyOf: [finish(schema), finish({ type: 'null' })] }
  const types = new Set([type].flat().concat('null'))
  return { ...others, type: [...types], ...Array.isArray(values) && { enum: [...new Set([...values, null])] } }
}

// Schema Objects of OpenAPI 3.0, for apps whose own registration of @fastify/swagger writes that version.

/** Keywords of JSON Schema that OpenAPI 3.0 lacks; without them a schema accepts more. */
const unknown = [
  '$comment', '$defs', 'definitions', 'patternProperties', 'propertyNames', 'dependentSchemas', 'dependentRequired',
  'if', 'then', 'else', 'contains', 'minContains', 'maxContains', 'prefixItems', 'unevaluatedProperties',
  'unevaluatedItems', 'additionalItems', 'contentEncoding', 'contentMediaType'
]

const combinations = new Set(['allOf', 'anyOf', 'oneOf'])

const null30 = { type: 'object', nullable: true, enum: [null] }

/** A schema whose members are already schemas of OpenAPI 3.0, or booleans: only `additionalProperties` can be one there. */
function toOpenApi30 (schema: JsonSchema): JsonSchema {
  if (schema['$ref'] !== undefined) return { $ref: schema['$ref'] }
  const copy: Record<string, unknown> = { ...schema }
  if (copy['patternProperties'] !== undefined && copy['additionalProperties'] === false) delete copy['additionalProperties']
  // OpenAPI 3.0 has no tuples, and one schema for all items would refuse their first ones.
  if (copy['prefixItems'] !== undefined || Array.isArray(copy['items'])) copy['items'] = {}
  for (const [keyword, value] of Object.entries(copy)) {
    if (keyword === 'items' || keyword === 'not') copy[keyword] = withoutBoolean(value)
    else if (keyword === 'properties' && isSchema(value)) {
      copy[keyword] = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutBoolean(member)]))
    } else if (combinations.has(keyword) && Array.isArray(value)) copy[keyword] = value.map(withoutBoolean)
  }
  for (const keyword of unknown) delete copy[keyword]
  if ('const' in copy) {
    copy['enum'] = [copy['const']]
    delete copy['const']
  }
  if (Array.isArray(copy['examples'])) copy['example'] = copy['examples'][0]
  delete copy['examples']
  for (const [exclusive, bound] of [['exclusiveMinimum', 'minimum'], ['exclusiveMaximum', 'maximum']] as const) {
    if (typeof copy[exclusive] !== 'number') continue
    copy[bound] = copy[exclusive]
    copy[exclusive] = true
  }
  return withOneType(copy)
}

function withoutBoolean (schema: unknown): unknown {
  if (schema === true) return {}
  return schema === false ? { not: {} } : schema
}

function withOneType (schema: Readonly<Record<string, unknown>>): JsonSchema {
  const { type, ...rest } = schema
  if (type === 'null') return { ...rest, ...null30 }
  if (!Array.isArray(type)) return type === 'array' && rest['items'] === undefined ? { ...schema, items: {} } : schema
  const types = type.filter((name) => name !== 'null')
  const nullable = types.length < type.length
  const [only] = types
  if (only === undefined) return { ...rest, ...null30 }
  if (types.length === 1) return withOneType({ ...rest, type: only, ...(nullable && { nullable }) })
  const union = { anyOf: [...types.map((name) => withOneType({ type: name })), ...nullable ? [null30] : []] }
  return rest['anyOf'] === undefined
    ? { ...rest, ...union }
    : { ...rest, allOf: [...Array.isArray(rest['allOf']) ? rest['allOf'] : [], union] }
}
