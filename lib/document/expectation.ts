/** The requirement of a schema, in words. */
import type { SchemaNode } from '../schema/annotations.js'
import { ExactNumber } from '../json/exact-number.js'

/** Such as `a string`, `an integer`, `one of "auto", "manual"`, `false or an object`. */
export function describeSchema (node: SchemaNode): string {
  if (node.anyOf !== undefined) return [...new Set(node.anyOf.map(describeSchema))].join(' or ')
  if (node.const !== undefined) return JSON.stringify(node.const)
  if (node.enum !== undefined) {
    const values = node.enum.map((value) => JSON.stringify(value)).join(', ')
    return node.enum.length === 1 ? values : `one of ${values}`
  }
  switch (node.type) {
    case 'string':
      return node.expected ?? 'a string'
    case 'integer':
      return 'an integer'
    case 'number':
      return 'a number'
    case 'boolean':
      return 'true or false'
    case 'array':
      return 'an array'
    case 'object':
      return 'an object'
    default:
      return 'a value'
  }
}

/** The type of a value, as JSON Schema names it. */
export function kindOf (value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  if (typeof value === 'bigint') return 'integer beyond 9007199254740991'
  return value instanceof ExactNumber ? 'number of more digits than are kept here' : typeof value
}
