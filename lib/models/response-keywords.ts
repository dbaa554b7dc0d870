/** The keywords of JSON Schema in `responseFormat`: of draft 7, without those whose time is more than linear or that references need. */
import { isRecord } from '../json/plain-value.js'
import { formatTests } from '../validation/types-and-formats.js'

export interface Keyword {
  /** The subschemas in its value: none, the value or its items, or the members of a map, whose names the caller chooses. */
  readonly subschemas: 'none' | 'direct' | 'members'
  readonly expected: string
  /** Whether the value itself is valid. Takes linear time, and leaves the keywords of subschemas unchecked. */
  accepts(value: unknown): boolean
}

const types: ReadonlySet<unknown> = new Set(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])

/** Whether a value can be a schema, apart from its keywords. */
export function isSchema (value: unknown): boolean {
  return typeof value === 'boolean' || isRecord(value)
}

function isListOf (value: unknown, accepts: (item: unknown) => boolean): value is unknown[] {
  return Array.isArray(value) && value.every(accepts)
}

const isAny = () => true
const isText = (value: unknown) => typeof value === 'string'
const isType = (value: unknown) => types.has(value)

/** By their texts: comparing each pair would take quadratic time. */
function areDistinct (values: readonly unknown[]): boolean {
  return new Set(values.map((value) => JSON.stringify(value))).size === values.length
}

function isNames (value: unknown): boolean {
  return isListOf(value, isText) && areDistinct(value)
}

function isSchemas (value: unknown): boolean {
  return isListOf(value, isSchema) && value.length > 0
}

const text: Keyword = { subschemas: 'none', expected: 'a string', accepts: isText }
const flag: Keyword = { subschemas: 'none', expected: 'true or false', accepts: (value) => typeof value === 'boolean' }
const any: Keyword = { subschemas: 'none', expected: 'any value', accepts: isAny }
const number: Keyword = { subschemas: 'none', expected: 'a number', accepts: (value) => typeof value === 'number' }
const count: Keyword = {
  subschemas: 'none',
  expected: 'an integer of at least 0',
  accepts: (value) => Number.isInteger(value) && Number(value) >= 0
}
const schema: Keyword = { subschemas: 'direct', expected: 'a schema', accepts: isSchema }
const schemas: Keyword = { subschemas: 'direct', expected: 'a list of schemas', accepts: isSchemas }
const map: Keyword = {
  subschemas: 'members',
  expected: 'an object of schemas',
  accepts: (value) => isRecord(value) && Object.values(value).every(isSchema)
}

export const keywords: ReadonlyMap<string, Keyword> = new Map<string, Keyword>(Object.entries({
  $schema: text,
  $comment: text,
  title: text,
  description: text,
  contentEncoding: text,
  contentMediaType: text,
  contentSchema: schema,
  default: any,
  examples: { subschemas: 'none', expected: 'a list', accepts: (value) => isListOf(value, isAny) },
  deprecated: flag,
  readOnly: flag,
  writeOnly: flag,
  nullable: flag,
  $defs: map,
  definitions: map,
  type: {
    subschemas: 'none',
    expected: `${[...types].join(', ')}, or a list of different ones`,
    accepts: (value) => isType(value) || (isListOf(value, isType) && value.length > 0 && areDistinct(value))
  },
  enum: {
    subschemas: 'none',
    expected: 'a list of different values',
    accepts: (value) => isListOf(value, isAny) && value.length > 0 && areDistinct(value)
  },
  const: any,
  format: { subschemas: 'none', expected: [...formatTests.keys()].join(', '), accepts: (value) => formatTests.has(value) },
  multipleOf: { subschemas: 'none', expected: 'a number above 0', accepts: (value) => typeof value === 'number' && value > 0 },
  minimum: number,
  maximum: number,
  exclusiveMinimum: number,
  exclusiveMaximum: number,
  minLength: count,
  maxLength: count,
  minItems: count,
  maxItems: count,
  minProperties: count,
  maxProperties: count,
  items: {
    subschemas: 'direct',
    expected: 'a schema or a list of schemas',
    accepts: (value) => isSchema(value) || isSchemas(value)
  },
  additionalItems: schema,
  contains: schema,
  properties: map,
  additionalProperties: schema,
  propertyNames: schema,
  required: { subschemas: 'none', expected: 'a list of different names', accepts: isNames },
  dependencies: {
    subschemas: 'members',
    expected: 'an object of schemas, or of lists of different names',
    accepts: (value) => isRecord(value) && Object.values(value).every((member) => isSchema(member) || isNames(member))
  },
  allOf: schemas,
  anyOf: schemas,
  oneOf: schemas,
  not: schema,
  if: schema,
  then: schema,
  else: schema
}))
