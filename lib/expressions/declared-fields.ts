/** The fields that the rules of a request accept. */
import { nearest } from '../schema/faults.js'
import type { Field, RequestRules } from '../schema/route.js'
import type { Reference } from './types.js'

/** Query parameters that the server itself may declare. */
const ownParameters = ['limit', 'offset', 'cursor', 'hard']

/** The type that the rules declare for a value of the path or of the query string; for a list, that of its items. */
export function declaredType (rules: RequestRules | undefined, { source, path }: Pick<Reference, 'source' | 'path'>): Field['type'] {
  const [name] = path
  if ((source !== 'params' && source !== 'query') || typeof name !== 'string' || path.length > 1) return undefined
  const fields: Readonly<Record<string, Field>> = rules?.[source] ?? {}
  const field = Object.hasOwn(fields, name) ? fields[name] : undefined
  return (field?.type === 'array' ? field.items : field)?.type
}

/** The reason why no accepted request has the path. */
interface Absence {
  readonly message: string
  readonly suggestion: string | undefined
}

/** The fault of a path that the rules exclude; undefined if the rules accept the path or undeclared fields. */
export function absenceOf (rules: RequestRules | undefined, { source, path }: Pick<Reference, 'source' | 'path'>): Absence | undefined {
  if ((source !== 'body' && source !== 'query') || rules?.[source] === undefined || rules.additionalFields === true) return undefined
  let fields: Readonly<Record<string, Field>> = rules[source]
  for (const [depth, name] of path.entries()) {
    // An index leads to an item of an array, whose fields have their own rules.
    if (typeof name !== 'string') return undefined
    const isOwn = depth === 0 && source === 'query' && ownParameters.includes(name)
    const field: Field | undefined = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (field === undefined && isOwn) return undefined
    if (field === undefined) {
      const named = [source, ...path].join('.')
      return {
        message: `the request has no \`${named}\`, because its \`${source}\` rules do not declare "${name}"`,
        suggestion: nearest(name, Object.keys(fields))
      }
    }
    if (field.properties === undefined || field.additionalFields === true) return undefined
    fields = field.properties
  }
  return undefined
}
