/** References to the schemas that an app shares with `addSchema`. */
import { isRecord } from '../json/plain-value.js'
import { membersIn } from '../schema/faults.js'

/** The members of a schema, or schemas by `$id`. */
export type Members = Readonly<Record<string, unknown>>

const maxReferences = 8 // that lead to references

/** The schema, and those of its fields and their items, in place of references to them. Deeper references stay. */
export function fieldsResolved (schema: object, shared: Members): Members {
  const top: Members = { ...schema }
  const resolved = resolve(top, top, shared)
  const { properties } = resolved
  if (!isRecord(properties)) return resolved
  const fieldOf = (given: unknown): Members => {
    const field = resolve(given, resolved, shared)
    return isRecord(field['items']) ? { ...field, items: resolve(field['items'], resolved, shared) } : field
  }
  return { ...resolved, properties: Object.fromEntries(Object.entries(properties).map(([name, given]) => [name, fieldOf(given)])) }
}

/** @param root the schema to which references without an `$id` lead */
function resolve (schema: unknown, root: Members, shared: Members): Members {
  let found: unknown = schema
  let within: unknown = root
  for (let left = maxReferences; left > 0 && isRecord(found) && typeof found['$ref'] === 'string'; left--) {
    const [id = '', fragment = ''] = found['$ref'].split('#')
    if (id !== '') within = shared[id]
    found = membersIn(fragment).reduce<unknown>((node, name) => isRecord(node) ? node[name] : undefined, within)
  }
  return isRecord(found) ? found : {}
}
