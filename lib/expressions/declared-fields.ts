/** The fields of a request that its rules admit. */
import type { Field, RequestRules } from '../schema/route.js'
import type { Reference } from './types.js'

/** Query parameters that the server itself may declare. */
const ownParameters = ['limit', 'offset', 'hard']

/** A field that no accepted request has, with the names that the rules declare in its place. */
export interface AbsentField {
  readonly name: string
  readonly declared: readonly string[]
}

/** The first field of the path that the rules exclude; undefined where the rules admit the path, or further fields. */
export function absentField (
  rules: RequestRules | undefined,
  { source, path }: Pick<Reference, 'source' | 'path'>
): AbsentField | undefined {
  if ((source !== 'body' && source !== 'query') || rules?.[source] === undefined || rules.additionalFields === true) return undefined
  let fields: Readonly<Record<string, Field>> = rules[source]
  for (const [depth, name] of path.entries()) {
    // An index leads to an item of an array, whose fields other rules declare.
    if (typeof name !== 'string') return undefined
    const isOwn = depth === 0 && source === 'query' && ownParameters.includes(name)
    const field: Field | undefined = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (field === undefined) return isOwn ? undefined : { name, declared: Object.keys(fields) }
    if (field.properties === undefined || field.additionalFields === true) return undefined
    fields = field.properties
  }
  return undefined
}
