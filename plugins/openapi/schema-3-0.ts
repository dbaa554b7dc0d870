/** Schema Objects of OpenAPI 3.0, for apps whose own registration of @fastify/swagger writes that version. */
import type { JsonSchema } from '../../lib/expressions/types.js'

/** Keywords of JSON Schema that OpenAPI 3.0 lacks; without them a schema accepts more. */
const unknown = [
  '$comment',
  '$defs',
  'definitions',
  'patternProperties',
  'propertyNames',
  'dependentSchemas',
  'dependentRequired',
  'if',
  'then',
  'else',
  'contains',
  'minContains',
  'maxContains',
  'prefixItems',
  'unevaluatedProperties',
  'unevaluatedItems',
  'contentEncoding',
  'contentMediaType'
]

const null30 = { type: 'object', nullable: true, enum: [null] }

/** A schema whose members are already schemas of OpenAPI 3.0. */
export function toOpenApi30 (schema: JsonSchema): JsonSchema {
  if (schema['$ref'] !== undefined) return { $ref: schema['$ref'] }
  const copy: Record<string, unknown> = { ...schema }
  if (copy['patternProperties'] !== undefined && copy['additionalProperties'] === false) delete copy['additionalProperties']
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
